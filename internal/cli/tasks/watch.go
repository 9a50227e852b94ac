package tasks

import (
	"context"
	"io"
	"time"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Watcher prints each change of a task.
type Watcher struct {
	API  API
	Pace Pace
	// Out gets the records, Err what else there is to say.
	Out, Err io.Writer
	Format   output.Format
	// Program is how the user calls this program, for hints.
	Program string
}

// Watch prints the task's records as they come and returns the last. The error is
// for a watch that ended before the task; its exit code says how.
func (w Watcher) Watch(ctx context.Context, id string) (*taskapi.Task, error) {
	notes := NewProgress(Screen{W: w.Err}, time.Now())
	lines := NewProgress(Screen{W: w.Out}, time.Now())
	var failed error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	follower := Follower{API: w.API, Pace: w.Pace, Trouble: func(err error) { notes.Note("still trying: " + err.Error()) }}
	last, err := follower.Stream(ctx, id, func(task *taskapi.Task) {
		if err := w.print(lines, task); err != nil {
			// Nobody reads any more.
			failed = err
			stop()
		}
	})
	if failed != nil {
		return last, failed
	}
	return last, explain(ctx, w.Program, id, err)
}

func (w Watcher) print(lines *Progress, task *taskapi.Task) error {
	if w.Format == output.Human || w.Format == output.Wide {
		lines.Update(task, time.Now())
		return nil
	}
	return printOne(w.Out, w.Format, task, output.Line)
}
