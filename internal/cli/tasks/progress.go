package tasks

import (
	"fmt"
	"io"
	"time"

	"github.com/agentruntime/operator/internal/cli/output"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Screen is where progress is shown.
type Screen struct {
	W io.Writer
	// Terminal tells that W is one, so that a line can be written over.
	Terminal bool
	// Width is the terminal's, in columns; 0 means 80.
	Width int
}

// Progress shows how a task goes on: one line that is rewritten on a terminal, a
// line for each change elsewhere. It is not safe for concurrent use.
type Progress struct {
	screen Screen
	began  time.Time
	task   *taskapi.Task
	shown  string
}

// NewProgress begins at a moment from which elapsed time is counted.
func NewProgress(screen Screen, began time.Time) *Progress {
	if screen.Width <= 0 {
		screen.Width = 80
	}
	return &Progress{screen: screen, began: began}
}

// Update shows a new record.
func (p *Progress) Update(task *taskapi.Task, now time.Time) {
	p.task = task
	if p.screen.Terminal {
		p.Tick(now)
		return
	}
	// Records also change in ways that no line tells.
	if state := stateOf(task); state != p.shown {
		p.shown = state
		fmt.Fprintf(p.screen.W, "%s %s\n", elapsed(now.Sub(p.began)), state)
	}
}

// Tick rewrites the line on a terminal, so that its time goes on.
func (p *Progress) Tick(now time.Time) {
	if !p.screen.Terminal || p.task == nil {
		return
	}
	line := []rune(elapsed(now.Sub(p.began)) + " " + stateOf(p.task))
	// A line as wide as the terminal would wrap, and could not be rewritten.
	if most := p.screen.Width - 1; len(line) > most {
		line = line[:max(most, 0)]
	}
	p.shown = string(line)
	fmt.Fprintf(p.screen.W, "\r%s\x1b[K", p.shown)
}

// Note shows a line of its own.
func (p *Progress) Note(text string) {
	p.Done()
	fmt.Fprintln(p.screen.W, output.Plain(text))
}

// Done leaves the line that stands, so that what follows begins on a new one.
func (p *Progress) Done() {
	if p.screen.Terminal && p.shown != "" {
		fmt.Fprintln(p.screen.W)
		p.shown = ""
	}
}

// stateOf is a task's status and stage, on one line; a stage that only repeats
// the status is left out.
func stateOf(task *taskapi.Task) string {
	if task.Stage == "" || task.Stage == task.Status {
		return output.Plain(task.Status)
	}
	return output.Plain(task.Status + ": " + task.Stage)
}

// elapsed writes a span as minutes and seconds, with hours when there are some.
func elapsed(span time.Duration) string {
	seconds := max(int(span/time.Second), 0)
	if seconds >= 3600 {
		return fmt.Sprintf("[%d:%02d:%02d]", seconds/3600, seconds/60%60, seconds%60)
	}
	return fmt.Sprintf("[%02d:%02d]", seconds/60, seconds%60)
}
