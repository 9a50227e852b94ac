package fakeruntime

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// task is one user's key and, once a create went well, its session. The server's
// lock guards it.
type task struct {
	user, key, to string
	session       string
	run           *Run
	behaviour     Behaviour
	faults        faults

	step    int
	status  runtimeapi.TaskStatus
	since   time.Time
	version int
	// polls is how many status calls still answer cancelling.
	polls int
	// changed is closed at the next change; nil while nobody waits.
	changed chan struct{}
}

// begin starts the script.
func (t *task) begin(session string, now time.Time) {
	t.session = session
	t.run = &Run{Session: session, Began: now}
	steps := t.behaviour.Steps
	if len(steps) == 0 {
		t.set(Completed(""), now)
		return
	}
	t.set(steps[0].Status, now)
	t.advance(now)
}

func (t *task) set(status runtimeapi.TaskStatus, at time.Time) {
	t.status, t.since = status, at
	t.version++
	if t.run != nil && t.run.Ended.IsZero() && status.Status.Terminal() {
		t.run.Ended = at
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// advance takes every timed step that is due.
func (t *task) advance(now time.Time) {
	for {
		next, ok := t.due()
		if !ok || next.After(now) {
			return
		}
		t.step++
		t.set(t.behaviour.Steps[t.step].Status, next)
	}
}

// due returns when the next timed step is to be taken.
func (t *task) due() (time.Time, bool) {
	if t.session == "" || t.ending() || t.step+1 >= len(t.behaviour.Steps) {
		return time.Time{}, false
	}
	next := t.behaviour.Steps[t.step+1]
	if next.Manual {
		return time.Time{}, false
	}
	return t.since.Add(next.After), true
}

// ending reports whether the script no longer decides.
func (t *task) ending() bool {
	return t.status.Status.Terminal() || t.status.Status == runtimeapi.StatusCancelling
}

// take is Advance: the next step, or the end of a cancel.
func (t *task) take(now time.Time) bool {
	switch {
	case t.status.Status == runtimeapi.StatusCancelling:
		t.endCancel(now)
	case t.ending() || t.step+1 >= len(t.behaviour.Steps):
		return false
	default:
		t.step++
		t.set(t.behaviour.Steps[t.step].Status, now)
	}
	t.advance(now)
	return true
}

func (t *task) cancel(now time.Time) {
	if t.ending() {
		return
	}
	t.polls = t.behaviour.CancelPolls
	if t.polls <= 0 && !t.behaviour.CancelManual {
		t.endCancel(now)
		return
	}
	t.set(runtimeapi.TaskStatus{Status: runtimeapi.StatusCancelling, Stage: t.status.Stage, Meta: t.status.Meta}, now)
}

func (t *task) endCancel(now time.Time) {
	end := Cancelled()
	if t.behaviour.CancelEnd != nil {
		end = *t.behaviour.CancelEnd
	}
	t.set(end, now)
}

// polled counts a status call of a task in cancelling. It reports whether the call
// is one of those to be answered cancelling at once.
func (t *task) polled(now time.Time) bool {
	if t.status.Status != runtimeapi.StatusCancelling || t.behaviour.CancelManual {
		return false
	}
	if t.polls > 0 {
		t.polls--
		return true
	}
	t.endCancel(now)
	return false
}

// restart is what E.1.5 says of a task that the restart found.
func (t *task) restart(now time.Time) {
	switch {
	case t.status.Status.Terminal():
	case t.status.Status == runtimeapi.StatusCancelling:
		t.set(Cancelled(), now)
	default:
		t.set(Failed(runtimeapi.CodeBotRestarted, "the executor restarted"), now)
	}
}

func (t *task) etag() string { return strconv.Quote(t.session + "." + strconv.Itoa(t.version)) }

// wire returns the status with every member present.
func (t *task) wire() runtimeapi.TaskStatus {
	status := t.status
	if status.Meta == nil {
		status.Meta = json.RawMessage("{}")
	}
	return status
}

// watch returns a channel that closes at the next change.
func (t *task) watch() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}
