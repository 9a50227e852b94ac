package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// API is what following a task needs of the server.
type API interface {
	// Wait reads a task, held back by the server while it is as last says.
	Wait(ctx context.Context, id string, last taskapi.Seen, wait time.Duration) (taskapi.Seen, error)
	// Events opens a task's event stream after the event lastID.
	Events(ctx context.Context, id, lastID string) (*taskapi.Stream, error)
}

// Pace says how often the server is asked.
type Pace struct {
	// Hold is how long the server may hold an answer back, in whole seconds.
	Hold time.Duration
	// Poll is the least time between two polls, and between two streams.
	Poll time.Duration
	// Retry and MaxRetry bound the wait after a failure, which doubles each time.
	Retry, MaxRetry time.Duration
	// Patience is how long the server may fail without a break.
	Patience time.Duration
}

// DefaultPace is what people get.
func DefaultPace() Pace {
	return Pace{
		Hold: 30 * time.Second, Poll: time.Second,
		Retry: time.Second, MaxRetry: 15 * time.Second, Patience: 5 * time.Minute,
	}
}

// Follower follows tasks until they end.
type Follower struct {
	API  API
	Pace Pace
	// Trouble is told of each failure that is waited out.
	Trouble func(err error)
}

// Poll asks for the task again and again, beginning after first, and calls seen
// with each new record, until the task has ended. It works with every server of
// the Tasks API.
func (f Follower) Poll(ctx context.Context, first *taskapi.Task, seen func(*taskapi.Task)) (*taskapi.Task, error) {
	last := taskapi.Seen{Task: first}
	trouble := f.newTrouble()
	// The first answer is not held: the task may have moved on since first.
	hold := time.Duration(0)
	for !last.Task.Terminal() {
		began := time.Now()
		next, err := f.API.Wait(ctx, first.ID, last, hold)
		if err != nil {
			if err := trouble.wait(ctx, err); err != nil {
				return last.Task, err
			}
			continue
		}
		trouble.over()
		changed := string(next.Task.Raw) != string(last.Task.Raw)
		if changed {
			seen(next.Task)
		}
		// A server that does not hold answers must not be asked without a pause.
		needless := next.ETag == "" || (!changed && hold > 0)
		last, hold = next, f.Pace.Hold
		if needless && !last.Task.Terminal() {
			if err := pause(ctx, f.Pace.Poll-time.Since(began)); err != nil {
				return last.Task, err
			}
		}
	}
	return last.Task, nil
}

// Stream follows a task through its event stream and calls seen with each record,
// until the task has ended. A stream that is cut goes on where it was: the API
// server's aggregator, and proxies, cut long answers.
func (f Follower) Stream(ctx context.Context, id string, seen func(*taskapi.Task)) (*taskapi.Task, error) {
	tail := &tail{id: id, seen: seen}
	trouble := f.newTrouble()
	for {
		began := time.Now()
		err := tail.read(ctx, f.API)
		if err == nil || tail.ended() {
			return tail.last, nil
		}
		// A task that was never seen and can't be had is no passing trouble.
		if tail.last == nil && !errors.Is(err, errCut) {
			return nil, err
		}
		if tail.opened {
			trouble.over()
		}
		if errors.Is(err, errCut) {
			err = pause(ctx, f.Pace.Poll-time.Since(began))
		} else {
			err = trouble.wait(ctx, err)
		}
		if err != nil {
			return tail.last, err
		}
	}
}

// errCut is the end of a stream that was not over.
var errCut = errors.New("the stream was cut")

// tail is how far a task's events were read.
type tail struct {
	id     string
	seen   func(*taskapi.Task)
	last   *taskapi.Task
	lastID string
	// opened tells that the stream read last had begun.
	opened bool
}

func (t *tail) ended() bool { return t.last != nil && t.last.Terminal() }

// read reads one stream to its end. It returns nil when the server says that no
// more comes, and errCut when the stream just ended.
func (t *tail) read(ctx context.Context, api API) error {
	stream, err := api.Events(ctx, t.id, t.lastID)
	t.opened = err == nil
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return errCut
		}
		if err != nil {
			return err
		}
		if event.Task == nil {
			if t.last == nil || !t.last.Terminal() {
				return errCut
			}
			return nil
		}
		t.take(event)
	}
}

func (t *tail) take(event taskapi.Event) {
	// A resumed stream may begin with the state that was seen last.
	if t.last == nil || string(t.last.Raw) != string(event.Task.Raw) {
		t.seen(event.Task)
	}
	t.last = event.Task
	if event.ID != "" {
		t.lastID = event.ID
	}
}

// trouble is a row of failures.
type trouble struct {
	pace  Pace
	tell  func(error)
	since time.Time
	next  time.Duration
}

func (f Follower) newTrouble() *trouble {
	return &trouble{pace: f.Pace, tell: f.Trouble, next: f.Pace.Retry}
}

func (t *trouble) over() {
	t.since, t.next = time.Time{}, t.pace.Retry
}

// wait waits out a failure that may pass. It returns an error when the failure
// does not pass by itself, lasted too long, or ctx has ended.
func (t *trouble) wait(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if !taskapi.IsTransient(err) {
		return err
	}
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.since) > t.pace.Patience {
		return fmt.Errorf("gave up after %s: %w", now.Sub(t.since).Round(time.Second), err)
	}
	t.tell(err)
	// Half of the wait is random, so that many clients do not come back as one.
	delay := t.next/2 + rand.N(t.next/2+1)
	if refused, ok := errors.AsType[*taskapi.Error](err); ok {
		delay = max(delay, refused.RetryAfter)
	}
	t.next = min(2*t.next, t.pace.MaxRetry)
	return pause(ctx, delay)
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
