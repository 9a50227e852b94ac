package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// errTimedOut is why a wait with --timeout ended.
var errTimedOut = errors.New("the wait timed out")

// WithTimeout bounds a wait; 0 bounds nothing.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, errTimedOut)
}

// Waiter waits for a task and shows how it goes on.
type Waiter struct {
	API  API
	Pace Pace
	// Screen is where progress is shown.
	Screen Screen
	// Program is how the user calls this program, for hints.
	Program string
}

// Wait waits until the task has ended and returns its last record. The error is
// for a wait that ended before; its exit code says how.
func (w Waiter) Wait(ctx context.Context, task *taskapi.Task) (*taskapi.Task, error) {
	progress := NewProgress(w.Screen, time.Now())
	progress.Update(task, time.Now())
	events := make(chan any)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go w.follow(follow, task, events)

	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case now := <-ticks.C:
			progress.Tick(now)
		case event := <-events:
			switch event := event.(type) {
			case *taskapi.Task:
				progress.Update(event, time.Now())
			case error:
				progress.Note("still trying: " + event.Error())
			case ending:
				progress.Done()
				return event.task, explain(ctx, w.Program, event.task.ID, event.err)
			}
		}
	}
}

// ending is the last thing that follow sends.
type ending struct {
	task *taskapi.Task
	err  error
}

// follow sends each record and each trouble, and an ending, after which it is
// done. Wait receives until then.
func (w Waiter) follow(ctx context.Context, task *taskapi.Task, events chan<- any) {
	follower := Follower{API: w.API, Pace: w.Pace, Trouble: func(err error) { events <- err }}
	last, err := follower.Poll(ctx, task, func(seen *taskapi.Task) { events <- seen })
	events <- ending{task: last, err: err}
}

// explain says of a wait that did not see the task end what has become of it.
func explain(ctx context.Context, program, id string, err error) error {
	if err == nil {
		return nil
	}
	again := fmt.Sprintf("the task goes on; follow it with: %s task watch %s", program, id)
	switch {
	case errors.Is(err, errTimedOut) || errors.Is(context.Cause(ctx), errTimedOut):
		return exit.With(exit.TimedOut, fmt.Errorf("timed out waiting for task %s; %s", id, again))
	case ctx.Err() != nil:
		return exit.With(exit.Interrupted, fmt.Errorf("stopped waiting for task %s; %s", id, again))
	case taskapi.IsTransient(err):
		return fmt.Errorf("lost sight of task %s: %w; %s", id, err, again)
	}
	return fmt.Errorf("wait for task %s: %w", id, err)
}

// Outcome is nil for a task that completed, else an error whose exit code tells
// how it ended.
func Outcome(task *taskapi.Task) error {
	switch task.Status {
	case taskapi.StatusCompleted:
		return nil
	case taskapi.StatusCancelled:
		return exit.With(exit.TaskCancelled, fmt.Errorf("task %s was cancelled", task.ID))
	}
	why := task.Error
	if why == "" {
		why = "no reason was given"
	}
	return exit.With(exit.TaskFailed, fmt.Errorf("task %s failed at stage %s: %s", task.ID, orUnknown(task.Stage), why))
}

// CancelOutcome is nil for a task that was cancelled, as asked for.
func CancelOutcome(task *taskapi.Task) error {
	switch task.Status {
	case taskapi.StatusCancelled:
		return nil
	case taskapi.StatusCompleted:
		return fmt.Errorf("task %s completed before it could be cancelled", task.ID)
	}
	return Outcome(task)
}

func orUnknown(stage string) string {
	if stage == "" {
		return "unknown"
	}
	return stage
}
