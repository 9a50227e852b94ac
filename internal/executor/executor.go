package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Executor runs tasks. Every method is one call, safe for concurrent use, and
// bounded in time. Errors of the executor or of the way to it are *Error; an
// ended context of the caller is returned wrapped instead, since it says nothing
// about the executor.
type Executor interface {
	// Submit creates the task under its key and returns the executor's session.
	// The same key of the same user answers with the same session (E.1.1).
	Submit(ctx context.Context, req SubmitRequest) (Submission, error)
	// Poll reads the state of a session (E.1.2).
	Poll(ctx context.Context, req PollRequest) (Observation, error)
	// Cancel asks for the end of a session. The answer may be StateCancelling;
	// an ended session answers its terminal state again (E.1.2).
	Cancel(ctx context.Context, req CancelRequest) (Observation, error)
	// Probe asks cheaply whether the executor answers, and what it can do.
	Probe(ctx context.Context) (Capabilities, error)
}

// SubmitRequest is one create (E.1.1).
type SubmitRequest struct {
	Identity Identity
	// Key is the task id, sent byte for byte as the Idempotency-Key: 1 to 200
	// visible ASCII characters.
	Key string
	// Payload says what to compile; its Args hold secret arguments too. Encoded
	// it has at most runtimeapi.MaxRequestBytes.
	Payload runtimeapi.CompilePayload
}

// Submission is the answer to a create.
type Submission struct {
	// SessionID is the executor's name for the task: 1 to 512 visible ASCII
	// characters.
	SessionID string
}

// PollRequest is one read of a session's state.
type PollRequest struct {
	Identity  Identity
	SessionID string
	// Wait asks the executor to hold the answer for up to this long, rounded up
	// to whole seconds and cut to runtimeapi.MaxWaitSeconds. Zero asks for an
	// answer at once, and so does a held poll for which no connection of the
	// held pool is free: its observation is not Held.
	Wait time.Duration
	// ETag of an earlier observation makes a held poll answer at the next change
	// instead of at the end. It is sent only when Wait is positive.
	ETag string
}

// CancelRequest is one request to end a session.
type CancelRequest struct {
	Identity  Identity
	SessionID string
}

// State is what an executor says of a task, after E.2.3.
type State string

// The states an observation can have.
const (
	// StateRunning stands for accepted, pending, running and committing.
	StateRunning State = "running"
	// StateCancelling is a cancel that the executor accepted and has not ended.
	StateCancelling State = "cancelling"
	// StateCompleted is the end of a task that did its work.
	StateCompleted State = "completed"
	// StateFailed is the end of a task that could not do its work.
	StateFailed State = "failed"
	// StateCancelled is the end of a task that was stopped.
	StateCancelled State = "cancelled"
)

// Terminal reports whether no other state can follow.
func (s State) Terminal() bool {
	return s == StateCompleted || s == StateFailed || s == StateCancelled
}

// Observation is one answer about a session.
type Observation struct {
	State State
	// Stage is the executor's free text, redacted, at most 500 characters and the
	// mark of a cut.
	Stage string
	// Error is set exactly when State is StateFailed, its message redacted. An
	// executor that gives no reason is completed to UNKNOWN (E.2.5).
	Error *runtimeapi.Error
	// Meta and Result are JSON objects as the executor sent them, nil when absent,
	// null or, for Meta, not an object. They are not redacted.
	Meta   json.RawMessage
	Result json.RawMessage
	// ETag names this state; empty when the executor does not hold polls.
	ETag string
	// Held reports that the server applied the Prefer: wait of this poll.
	Held bool
	// EndLag is how long the session had been in this state when the answer left,
	// from Server-Timing "state;dur=<ms>"; -1 when the executor does not say.
	EndLag time.Duration
}

// Capabilities is what an executor can do beyond the plain protocol.
type Capabilities struct {
	// HeldPolls reports that it applies "Prefer: wait" to status calls.
	HeldPolls bool
}
