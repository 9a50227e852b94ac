package runtimeapi

import (
	"encoding/json"
	"fmt"
)

// Routes of the protocol. All take POST (E.1, E.2.2).
const (
	PathTasks  = "/runtime/v1/tasks"
	PathStatus = "/runtime/v1/tasks/status"
	PathCancel = "/runtime/v1/tasks/cancel"
)

// Request and response headers (A.5, A.7, E.1.1, E.2.2).
const (
	// HeaderIdempotencyKey carries the task id on create, byte for byte.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderAPIKey carries the credential of the task's user.
	HeaderAPIKey = "X-API-Key"
	// HeaderGatewayToken authenticates the caller itself to the executor.
	HeaderGatewayToken = "X-Gateway-Token"
	// HeaderGatewayChallenge is "true" on a 401 or 403 about the gateway token.
	HeaderGatewayChallenge = "X-VikingBot-Gateway"
	// HeaderLogID carries the request id of the call that created the task.
	HeaderLogID = "X-Tt-Logid"
	// HeaderTraceParent carries that call's W3C trace context.
	HeaderTraceParent = "Traceparent"
	// HeaderAccount and HeaderUser name whom the task is for. A server trusts
	// them only from a caller that showed the gateway token.
	HeaderAccount = "X-OpenViking-Account"
	HeaderUser    = "X-OpenViking-User"

	HeaderPrefer            = "Prefer"
	HeaderPreferenceApplied = "Preference-Applied"
	// HeaderServerTiming tells on status answers for how long the state has
	// lasted: "state;dur=<milliseconds>".
	HeaderServerTiming = "Server-Timing"
)

// ServerTimingState is the metric of HeaderServerTiming.
const ServerTimingState = "state"

// TaskTypeCompile is the only task type there is (E.1.1).
const TaskTypeCompile = "compile"

// Bounds of the protocol.
const (
	// MaxKeyBytes bounds an Idempotency-Key: visible ASCII only (E.1.1).
	MaxKeyBytes = 200
	// MaxRequestBytes bounds any request body (B.1).
	MaxRequestBytes = 1 << 20
	// MaxWaitSeconds bounds "Prefer: wait"; a server may hold for less.
	MaxWaitSeconds = 60
)

// CreateRequest is the body of POST /runtime/v1/tasks.
type CreateRequest struct {
	TaskType string         `json:"task_type"`
	Payload  CompilePayload `json:"payload"`
}

// CompilePayload says what to compile (B.1).
type CompilePayload struct {
	From        []string `json:"from"`
	To          string   `json:"to"`
	Skill       string   `json:"skill"`
	Instruction string   `json:"instruction,omitempty"`
	// Args is a JSON object, passed on byte for byte so that numbers survive.
	Args json.RawMessage `json:"args,omitempty"`
}

// CreateResponse is the body of the 202 answer. Clients read only the session
// id; the rest is for people (E.1.1).
type CreateResponse struct {
	SessionID string `json:"session_id"`
	TaskID    string `json:"task_id,omitempty"`
	Status    string `json:"status,omitempty"`
	To        string `json:"to,omitempty"`
}

// SessionRequest is the body of the status and cancel routes. A server accepts
// and ignores an args member beside it, and rejects other keys (E.1.2).
type SessionRequest struct {
	SessionID string `json:"session_id"`
}

// Status is an executor's status word (E.1.2).
type Status string

// The six statuses of the protocol.
const (
	StatusPending    Status = "pending"
	StatusRunning    Status = "running"
	StatusCancelling Status = "cancelling"
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
)

// Terminal reports whether no other status can follow.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// TaskStatus is the body of the status and cancel answers (E.1.2). Every member
// is always present on the wire.
type TaskStatus struct {
	Status Status `json:"status"`
	// Stage is free text; the built-in executor's reads "compile: <stage>".
	Stage string `json:"stage"`
	// Error is set when Status is failed.
	Error *Error `json:"error"`
	// Meta is a JSON object, "{}" when there is nothing to say.
	Meta json.RawMessage `json:"meta"`
	// Result is a JSON object when Status is completed, else null.
	Result json.RawMessage `json:"result"`
}

// Error is a code of the protocol (A.3, F.3) with a message for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements the error interface as the wire's "CODE: message".
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Codes an executor may fail a request or a task with (A.3, E.1.3, F.3).
const (
	CodeInvalidArgument            = "INVALID_ARGUMENT"
	CodeUnauthenticated            = "UNAUTHENTICATED"
	CodePermissionDenied           = "PERMISSION_DENIED"
	CodeNotFound                   = "NOT_FOUND"
	CodeConflict                   = "CONFLICT"
	CodeResourceExhausted          = "RESOURCE_EXHAUSTED"
	CodeUnavailable                = "UNAVAILABLE"
	CodeDeadlineExceeded           = "DEADLINE_EXCEEDED"
	CodeInternal                   = "INTERNAL"
	CodeUnknown                    = "UNKNOWN"
	CodeInvalidResponse            = "INVALID_RESPONSE"
	CodeSkillInvalid               = "SKILL_INVALID"
	CodeSkillCapabilityUnavailable = "SKILL_CAPABILITY_UNAVAILABLE"
	CodeModelUnavailable           = "MODEL_UNAVAILABLE"
	CodeAgentOutputInvalid         = "AGENT_OUTPUT_INVALID"
	CodeWriteConflict              = "WRITE_CONFLICT"
	CodeWriteFailed                = "WRITE_FAILED"
	CodeBotRestarted               = "BOT_RESTARTED"
)

// ErrorResponse is an error answer. Both members say the same, since clients of
// both shapes exist (E.1.3).
type ErrorResponse struct {
	Detail Error `json:"detail"`
	Err    Error `json:"error"`
}
