package ringsecret

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/sealed"
)

const (
	// followInterval is how often the ring is read again, for keys that a rotation
	// has added.
	followInterval = time.Minute
	// followRetry is the wait while there is no ring yet.
	followRetry = time.Second
	// reloadPause bounds how often Reload reads.
	reloadPause = time.Second
)

// Follower holds the key ring for a process that only reads it, and may be there
// before the manager has filled the Secret. It is safe for concurrent use.
type Follower struct {
	reader    client.Reader
	namespace string
	clock     clock.Clock

	// reloading is held by the one caller of Reload who reads for the others.
	reloading chan struct{}

	mu   sync.Mutex
	ring *sealed.KeyRing
	// triedAt is when it was read last, with or without success.
	triedAt time.Time
	err     error
}

// NewFollower returns a Follower of the namespace's ring. The reader must not cache.
func NewFollower(reader client.Reader, namespace string, clock clock.Clock) *Follower {
	return &Follower{
		reader: reader, namespace: namespace, clock: clock, err: errNotRead, reloading: make(chan struct{}, 1),
	}
}

var errNotRead = errors.New("the key ring was not read yet")

// Run reads the ring at once, and again and again until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	for {
		wait := followInterval
		if err := f.load(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Could not read the key ring; trying again")
			if f.Ready() != nil {
				wait = followRetry
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.clock.After(wait):
		}
	}
}

// Ready returns nil once there is a ring, and else why there is none.
func (f *Follower) Ready() error {
	_, err := f.current()
	return err
}

// Ring returns the ring as it was read last. It does not read.
func (f *Follower) Ring(context.Context) (*sealed.KeyRing, error) { return f.current() }

func (f *Follower) current() (*sealed.KeyRing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring == nil {
		return nil, f.err
	}
	return f.ring, nil
}

// Reload reads the ring anew, for a body that the one at hand has no key for, unless
// that was done in the last seconds. Of several at once one reads, and the others wait
// for what it has read.
func (f *Follower) Reload(ctx context.Context) (*sealed.KeyRing, error) {
	select {
	case f.reloading <- struct{}{}:
		defer func() { <-f.reloading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the key ring: %w", ctx.Err())
	}
	if f.due() {
		if err := f.load(ctx); err != nil {
			return nil, err
		}
	}
	return f.current()
}

// due tells whether it is time for another read.
func (f *Follower) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock.Since(f.triedAt) >= reloadPause
}

// load keeps the ring at hand when it can't be read: what it opens it still opens.
func (f *Follower) load(ctx context.Context) error {
	ring, err := Load(ctx, f.reader, f.namespace)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.triedAt = f.clock.Now()
	if err != nil {
		f.err = err
		return err
	}
	f.ring, f.err = ring, nil
	return nil
}
