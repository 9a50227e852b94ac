package facade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// probePeriod is the time between two calls to the API server.
	probePeriod = 10 * time.Second
	// probeTimeout bounds one of them.
	probeTimeout = 5 * time.Second
	// probeFresh is how old the last answer may be.
	probeFresh = 30 * time.Second
)

// probe sees whether the API server can be reached.
type probe struct {
	ping func(context.Context) error

	mu      sync.Mutex
	reached time.Time
	err     error
}

// run probes until the context ends.
func (p *probe) run(ctx context.Context) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		p.once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *probe) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := p.ping(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err == nil {
		p.reached = time.Now()
	}
}

// ready returns nil when the API server was reached lately.
func (p *probe) ready(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reached.IsZero() && p.err == nil:
		return errors.New("not asked yet")
	case now.Sub(p.reached) <= probeFresh:
		return nil
	}
	return fmt.Errorf("not reached for %s: %w", probeFresh, p.err)
}
