package fakeruntime

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Op names a route of the protocol.
type Op string

// The three operations.
const (
	OpCreate Op = "create"
	OpStatus Op = "status"
	OpCancel Op = "cancel"
)

// Step is one state in the life of a task.
type Step struct {
	// After is how long the state before it lasts. The first step is the state a
	// create leaves, and its After must be zero.
	After time.Duration
	// Manual steps are taken by Advance only; After does not count.
	Manual bool
	Status runtimeapi.TaskStatus
}

// Behaviour is what happens to one task. Its zero value completes at once.
type Behaviour struct {
	// Steps is the task's script; none means Completed.
	Steps []Step
	// CancelPolls is how many status calls still answer cancelling after a cancel;
	// with 0 the cancel itself answers the end. Held polls are answered at once
	// while they count, without Preference-Applied.
	CancelPolls int
	// CancelManual leaves a cancelled task in cancelling until Advance.
	CancelManual bool
	// CancelEnd is the end after a cancel; nil means cancelled. A completed one
	// is a completion that races the cancel.
	CancelEnd *runtimeapi.TaskStatus
	// Faults apply to the calls of this task, in order; the first that is due
	// counts.
	Faults []Fault
}

// Fault is a misbehaviour in one or some calls of an operation.
type Fault struct {
	Op Op
	// Skip is how many calls go well first, Count how many then do not; 0 means
	// all further ones. Calls are counted by operation and task, or by operation
	// for a fault of the whole server.
	Skip, Count int
	// Commit lets the call have its effect first: a dropped create has made a
	// session then. Otherwise it has none.
	Commit bool
	// Latency and Hold delay the call at that place; Hold until it is closed.
	Latency time.Duration
	Hold    <-chan struct{}
	// Drop closes the connection without an answer. Without Commit, and for the
	// whole server, that is before the body is read.
	Drop bool
	// Respond replaces the answer.
	Respond *Response
}

// Response is an answer out of the protocol's order.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Fill appends this many bytes to the body.
	Fill int64
	// Drip stops after the body, without ending it, until the client goes away.
	Drip bool
}

// Refuse returns an error answer in the protocol's shape (E.1.3).
func Refuse(status int, code, message string) *Response {
	failure := runtimeapi.Error{Code: code, Message: message}
	body, _ := json.Marshal(runtimeapi.ErrorResponse{Detail: failure, Err: failure})
	return &Response{Status: status, Body: body}
}

// RetryLater returns r with a Retry-After header.
func (r Response) RetryLater(value string) *Response {
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Retry-After", value)
	return &r
}

// Running returns a running status at a stage.
func Running(stage string) runtimeapi.TaskStatus {
	return runtimeapi.TaskStatus{Status: runtimeapi.StatusRunning, Stage: stage}
}

// Completed returns a completed status with a result; "" means {"status":"ok"}.
func Completed(result string) runtimeapi.TaskStatus {
	if result == "" {
		result = `{"status":"ok"}`
	}
	return runtimeapi.TaskStatus{
		Status: runtimeapi.StatusCompleted, Stage: "compile: completed", Result: json.RawMessage(result),
	}
}

// Failed returns a failed status.
func Failed(code, message string) runtimeapi.TaskStatus {
	return runtimeapi.TaskStatus{
		Status: runtimeapi.StatusFailed, Stage: "compile: failed",
		Error: &runtimeapi.Error{Code: code, Message: message},
	}
}

// Cancelled returns a cancelled status.
func Cancelled() runtimeapi.TaskStatus {
	return runtimeapi.TaskStatus{Status: runtimeapi.StatusCancelled, Stage: "cancelled"}
}

// Script returns steps that each take Advance but the first.
func Script(statuses ...runtimeapi.TaskStatus) []Step {
	steps := make([]Step, len(statuses))
	for i, status := range statuses {
		steps[i] = Step{Manual: i > 0, Status: status}
	}
	return steps
}

// Timed returns steps that each last the given time but the last.
func Timed(each time.Duration, statuses ...runtimeapi.TaskStatus) []Step {
	steps := make([]Step, len(statuses))
	for i, status := range statuses {
		steps[i] = Step{Status: status}
		if i > 0 {
			steps[i].After = each
		}
	}
	return steps
}

// Create is a create as rules see it.
type Create struct {
	Key, User string
	Header    http.Header
	Payload   runtimeapi.CompilePayload
}

// Match says whether a rule is for a task.
type Match func(Create) bool

// To matches tasks by their target.
func To(uri string) Match { return func(c Create) bool { return c.Payload.To == uri } }

// Key matches tasks by their idempotency key.
func Key(key string) Match { return func(c Create) bool { return c.Key == key } }

// Any matches every task.
func Any() Match { return func(Create) bool { return true } }

// faults counts calls and says which fault is due.
type faults struct {
	list  []Fault
	calls map[Op]int
}

func newFaults(list []Fault) faults {
	return faults{list: slices.Clone(list)}
}

// due counts one call and returns its fault, or nil.
func (f *faults) due(op Op) *Fault {
	if f.calls == nil {
		f.calls = map[Op]int{}
	}
	f.calls[op]++
	n := f.calls[op]
	for i := range f.list {
		fault := &f.list[i]
		if fault.Op == op && n > fault.Skip && (fault.Count == 0 || n <= fault.Skip+fault.Count) {
			return fault
		}
	}
	return nil
}
