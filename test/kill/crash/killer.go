package crash

import (
	"context"
	"fmt"
	"io"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Killer ends the process when its point is reached for the n-th time. The zero
// value never does.
type Killer struct {
	// Point is where; "" is nowhere.
	Point Point
	// Skip is how often the point is passed first.
	Skip int64
	// After is the moment before which passing does not count.
	After time.Time
	// Out gets a line that names the point, written before the end.
	Out io.Writer

	passed atomic.Int64
}

// KilledPrefix begins the line that names the point.
const KilledPrefix = "killed at "

// at ends the process if it is time to.
func (k *Killer) at(point Point) {
	if k.Point == "" || k.Point != point || time.Now().Before(k.After) || k.passed.Add(1) != k.Skip+1 {
		return
	}
	_, _ = fmt.Fprintln(k.Out, KilledPrefix+string(point))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // SIGKILL cannot fail; nothing must run after it.
}

// sent has the process end when the next request made with the context has been
// written whole, before its answer can have been read.
func (k *Killer) sent(ctx context.Context, point Point) context.Context {
	if k.Point == "" || k.Point != point {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { k.at(point) },
	})
}
