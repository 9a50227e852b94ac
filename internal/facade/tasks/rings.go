package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/internal/sealed"
)

const (
	// ringAge is how long a ring counts before it is read anew, so that every
	// replica comes to know a rotation.
	ringAge = time.Minute
	// ringRest is the least time between two reads.
	ringRest = 5 * time.Second
)

// LoadRing reads the key ring, such as ringsecret.Load does.
type LoadRing func(ctx context.Context) (*sealed.KeyRing, error)

// CachedRing is Rings over a loader. It keeps the ring for a minute, and goes on with
// it when it can't be read anew. It may be used by many goroutines at once.
type CachedRing struct {
	load  LoadRing
	clock clock.PassiveClock
	// loading has room for the one who reads the ring.
	loading chan struct{}

	mu   sync.Mutex
	ring *sealed.KeyRing
	// tried is when the ring was read or could not be read.
	tried time.Time
	err   error
}

var _ Rings = (*CachedRing)(nil)

// NewCachedRing returns a ring that is loaded when it is first used.
func NewCachedRing(load LoadRing, c clock.PassiveClock) *CachedRing {
	return &CachedRing{load: load, clock: c, loading: make(chan struct{}, 1)}
}

// Ring is the ring as it is now, at most a minute old unless it can't be read.
func (c *CachedRing) Ring(ctx context.Context) (*sealed.KeyRing, error) {
	return c.youngerThan(ctx, ringAge)
}

// Reload reads the ring anew, unless that was tried in the last five seconds.
func (c *CachedRing) Reload(ctx context.Context) (*sealed.KeyRing, error) {
	return c.youngerThan(ctx, ringRest)
}

func (c *CachedRing) youngerThan(ctx context.Context, age time.Duration) (*sealed.KeyRing, error) {
	if fresh, ring, err := c.known(age); fresh {
		return ring, err
	}
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the key ring: %w", ctx.Err())
	}
	if fresh, ring, err := c.known(age); fresh {
		return ring, err // another has read it meanwhile
	}
	ring, err := c.load(ctx)
	if err == nil && ring == nil {
		err = errors.New("load the key ring: there is none")
	}
	if ctx.Err() != nil && err != nil {
		return nil, err // that says nothing about the ring
	}
	return c.store(ring, err)
}

// known returns what is known when it need not be read anew. A failure counts for as
// long as a ring rests, a ring for the age.
func (c *CachedRing) known(age time.Duration) (fresh bool, ring *sealed.KeyRing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.clock.Since(c.tried)
	switch {
	case c.tried.IsZero():
		return false, nil, nil
	case c.err != nil && since >= ringRest, since >= age:
		return false, nil, nil
	case c.ring != nil:
		return true, c.ring, nil
	}
	return true, nil, c.err
}

func (c *CachedRing) store(ring *sealed.KeyRing, err error) (*sealed.KeyRing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried, c.err = c.clock.Now(), err
	if err == nil {
		c.ring = ring
	}
	if c.ring != nil {
		return c.ring, nil
	}
	return nil, err
}
