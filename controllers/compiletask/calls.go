package compiletask

import (
	"context"
	"sync"
)

// Bounds of the calls under way to one runtime.
const (
	// maxShortCalls bounds the submits, cancels and plain polls.
	maxShortCalls = 64
	// maxHeldPolls bounds the polls the executor is asked to hold.
	maxHeldPolls = 256
)

// caller runs calls to executors outside the reconcile workers, so that a slow
// executor stalls neither other tasks nor other runtimes. A call that finds no
// free slot waits in line without a goroutine. All goroutines end with the
// caller's context; wait returns when they have.
type caller struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // The calls outlive the passes that begin them and end with the controller.
	closed bool
	lanes  map[string]*lane
}

type lane struct {
	short   int
	held    int
	backlog []func()
}

func newCaller(ctx context.Context) *caller {
	return &caller{ctx: ctx, lanes: map[string]*lane{}}
}

// bind has the calls end with a context.
func (c *caller) bind(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = ctx
}

// context is what calls begun now run under.
func (c *caller) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx
}

// submit runs a short call as soon as the runtime's lane has a slot.
func (c *caller) submit(runtime string, call func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	l := c.lane(runtime)
	ctx := c.ctx
	run := func() { call(ctx) }
	if l.short >= maxShortCalls {
		l.backlog = append(l.backlog, run)
		return
	}
	l.short++
	c.wg.Go(func() { c.drain(runtime, run) })
}

// drain runs a call and then what has waited behind it.
func (c *caller) drain(runtime string, run func()) {
	for run != nil {
		run()
		run = c.nextShort(runtime)
	}
}

func (c *caller) nextShort(runtime string) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(runtime)
	if len(l.backlog) == 0 || c.closed {
		l.short--
		c.tidy(runtime, l)
		return nil
	}
	run := l.backlog[0]
	l.backlog[0] = nil
	l.backlog = l.backlog[1:]
	return run
}

// mayHold tells whether a slot for a held poll is free at the moment.
func (c *caller) mayHold(runtime string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.lanes[runtime]
	return !c.closed && (!ok || l.held < maxHeldPolls)
}

// tryHold reserves a slot for a held poll; release gives it back. It reports
// false when all are taken.
func (c *caller) tryHold(runtime string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(runtime)
	if l.held >= maxHeldPolls || c.closed {
		return false
	}
	l.held++
	return true
}

func (c *caller) release(runtime string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(runtime)
	l.held--
	c.tidy(runtime, l)
}

// hold runs a held poll in a slot that tryHold gave, and releases it after.
func (c *caller) hold(runtime string, call func(context.Context)) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.release(runtime)
		return
	}
	ctx := c.ctx
	c.wg.Go(func() {
		defer c.release(runtime)
		call(ctx)
	})
	c.mu.Unlock()
}

// wait stops taking calls and returns when those under way have ended, which
// their context, ended by then, makes soon.
func (c *caller) wait() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *caller) lane(runtime string) *lane {
	l, ok := c.lanes[runtime]
	if !ok {
		l = &lane{}
		c.lanes[runtime] = l
	}
	return l
}

func (c *caller) tidy(runtime string, l *lane) {
	if l.short == 0 && l.held == 0 && len(l.backlog) == 0 {
		delete(c.lanes, runtime)
	}
}
