package compiletask

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// bench runs calls that stay until they are let go.
type bench struct {
	mu      sync.Mutex
	started []int
	arrived chan struct{}
	release chan struct{}
	running atomic.Int64
	most    atomic.Int64
}

func newBench() *bench {
	return &bench{arrived: make(chan struct{}, 10_000), release: make(chan struct{})}
}

func (b *bench) call(n int) func(context.Context) {
	return func(ctx context.Context) {
		now := b.running.Add(1)
		defer b.running.Add(-1)
		for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
		}
		b.mu.Lock()
		b.started = append(b.started, n)
		b.mu.Unlock()
		b.arrived <- struct{}{}
		select {
		case <-b.release:
		case <-ctx.Done():
		}
	}
}

func (b *bench) wait(n int) {
	for range n {
		<-b.arrived
	}
}

func TestCallerBoundsShortCalls(t *testing.T) {
	const calls = 1000
	b, c := newBench(), newCaller(t.Context())
	before := runtime.NumGoroutine()
	for n := range calls {
		c.submit("r", b.call(n))
	}
	b.wait(maxShortCalls)
	if extra := runtime.NumGoroutine() - before; extra > maxShortCalls {
		t.Errorf("%d goroutines for %d calls under way: one that waits has its own", extra, maxShortCalls)
	}
	close(b.release)
	b.wait(calls - maxShortCalls)
	c.wait()
	if most := b.most.Load(); most != maxShortCalls {
		t.Errorf("%d calls at a time, want %d", most, maxShortCalls)
	}
	if len(c.lanes) != 0 {
		t.Errorf("%d lanes are left", len(c.lanes))
	}
}

func TestCallerRunsTheBacklogInOrder(t *testing.T) {
	b, c := newBench(), newCaller(t.Context())
	for n := range maxShortCalls {
		c.submit("r", b.call(n))
	}
	b.wait(maxShortCalls)
	for n := range 100 {
		c.submit("r", b.call(maxShortCalls+n))
	}
	// One at a time is let go, so that one at a time begins.
	for n := range 100 {
		b.release <- struct{}{}
		b.wait(1)
		if got := b.started[len(b.started)-1]; got != maxShortCalls+n {
			t.Fatalf("call %d began, want %d", got, maxShortCalls+n)
		}
	}
	close(b.release)
	c.wait()
}

func TestCallerKeepsRuntimesApart(t *testing.T) {
	slow, quick, c := newBench(), newBench(), newCaller(t.Context())
	for n := range 2 * maxShortCalls {
		c.submit("slow", slow.call(n))
	}
	slow.wait(maxShortCalls)
	close(quick.release)
	for n := range 2 * maxShortCalls {
		c.submit("quick", quick.call(n))
	}
	quick.wait(2 * maxShortCalls)
	close(slow.release)
	c.wait()
}

func TestCallerBoundsHeldPolls(t *testing.T) {
	b, c := newBench(), newCaller(t.Context())
	for n := range maxHeldPolls {
		if !c.tryHold("r") {
			t.Fatalf("poll %d found no slot", n)
		}
		c.hold("r", b.call(n))
	}
	b.wait(maxHeldPolls)
	if c.tryHold("r") {
		t.Error("one more poll is held than may be")
	}
	if !c.tryHold("other") {
		t.Error("another runtime finds no slot")
	}
	c.release("other")
	// Held polls leave the short calls their slots.
	c.submit("r", b.call(maxHeldPolls))
	b.wait(1)
	close(b.release)
	c.wait()
	if len(c.lanes) != 0 {
		t.Errorf("%d lanes are left", len(c.lanes))
	}
}

func TestCallerEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b, c := newBench(), newCaller(t.Context())
	c.bind(ctx)
	if c.context() != ctx {
		t.Error("calls do not run under the bound context")
	}
	for n := range 2 * maxShortCalls {
		c.submit("r", b.call(n))
	}
	if !c.tryHold("r") {
		t.Fatal("no slot for a held poll")
	}
	c.hold("r", b.call(-1))
	b.wait(maxShortCalls + 1)
	stop()
	c.wait()
	c.submit("r", b.call(-2))
	if c.tryHold("r") {
		t.Error("a slot is given after the end")
	}
	c.hold("r", b.call(-3))
	c.wait()
	for _, late := range []int{-2, -3} {
		if slices.Contains(b.started, late) {
			t.Errorf("call %d began after the end", late)
		}
	}
}

func TestCallerUnderLoad(t *testing.T) {
	c := newCaller(t.Context())
	var done atomic.Int64
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := range 500 {
				lane := fmt.Sprint("r", (g+n)%3)
				c.submit(lane, func(context.Context) { done.Add(1) })
				if c.tryHold(lane) {
					c.hold(lane, func(context.Context) { done.Add(1) })
				} else {
					done.Add(1)
				}
			}
		})
	}
	group.Wait()
	for len(lanesOf(c)) > 0 {
		runtime.Gosched()
	}
	c.wait()
	if got := done.Load(); got != 8*500*2 {
		t.Fatalf("%d calls ran, want %d", got, 8*500*2)
	}
}

func lanesOf(c *caller) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.lanes {
		names = append(names, name)
	}
	return names
}
