package middleware

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentruntime/operator/internal/facade/wire"
)

func TestBodies(t *testing.T) {
	const limit, memory = 64 << 10, 20 << 10
	tests := map[string]struct {
		body       io.Reader
		limit      int64
		wantCode   wire.Code
		wantStatus int
		wantReason Reason
		wantRead   int
	}{
		"a small body is free":                      {body: strings.NewReader(strings.Repeat("x", FreeBodyBytes)), limit: limit, wantRead: FreeBodyBytes},
		"a larger one takes of the memory":          {body: strings.NewReader(strings.Repeat("x", FreeBodyBytes+memory)), limit: limit, wantRead: FreeBodyBytes + memory},
		"one of exactly the limit is read":          {body: unsized(strings.Repeat("x", 100)), limit: 100, wantRead: 100},
		"one beyond the memory is turned away":      {body: strings.NewReader(strings.Repeat("x", FreeBodyBytes+memory+1)), limit: limit, wantCode: wire.CodeUnavailable, wantStatus: 503, wantReason: ReasonBodyMemory},
		"one that says it is too large is not read": {body: strings.NewReader(strings.Repeat("x", limit+1)), limit: limit, wantCode: wire.CodeInvalidArgument, wantStatus: 400, wantReason: ReasonBodySize},
		"one that grows too large is cut off":       {body: unsized(strings.Repeat("x", 101)), limit: 100, wantCode: wire.CodeInvalidArgument, wantStatus: 400, wantReason: ReasonBodySize},
		"a slow one is turned away":                 {body: io.MultiReader(strings.NewReader("x"), slowReader{}), limit: limit, wantCode: wire.CodeInvalidArgument, wantStatus: 400, wantReason: ReasonBodyTime},
		"a route without a body sees none":          {body: strings.NewReader("x"), limit: 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			metrics, _ := NewMetrics(prometheus.NewRegistry())
			bodies := NewBodies(memory, metrics)
			read := -1
			handle := bodies.Wrap(test.limit, func(_ http.ResponseWriter, r *http.Request) error {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return wire.Errorf(wire.CodeInternal, "what a handler thinks of a failed read")
				}
				read = len(body)
				return nil
			})
			err := handle(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", test.body))
			if left := bodies.memory.Load(); left != memory {
				t.Errorf("%d bytes of memory are left afterwards, want %d", left, memory)
			}
			if test.wantReason == "" {
				if err != nil || read != test.wantRead {
					t.Fatalf("read %d bytes, error %v; want %d", read, err, test.wantRead)
				}
				return
			}
			answer, ok := errors.AsType[*wire.Error](err)
			if !ok || answer.Code != test.wantCode || answer.HTTPStatus() != test.wantStatus {
				t.Fatalf("error %v, want %s with %d", err, test.wantCode, test.wantStatus)
			}
			if (test.wantStatus == http.StatusServiceUnavailable) != (answer.RetryAfter > 0) {
				t.Errorf("Retry-After is %s", answer.RetryAfter)
			}
			if got := testutil.ToFloat64(metrics.rejected.WithLabelValues(string(test.wantReason))); got != 1 {
				t.Errorf("%v requests are counted as rejected for %s, want 1", got, test.wantReason)
			}
		})
	}
}

// unsized is a body whose length is not told.
func unsized(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }

// slowReader is a connection whose deadline has passed.
type slowReader struct{}

func (slowReader) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
