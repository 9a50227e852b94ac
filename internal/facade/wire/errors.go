package wire

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code is a word of the wire that names a kind of failure (A.3).
type Code string

// The codes that the facade itself answers with.
const (
	CodeInvalidArgument    Code = "INVALID_ARGUMENT"
	CodeInvalidURI         Code = "INVALID_URI"
	CodeUnauthenticated    Code = "UNAUTHENTICATED"
	CodePermissionDenied   Code = "PERMISSION_DENIED"
	CodeNotFound           Code = "NOT_FOUND"
	CodeConflict           Code = "CONFLICT"
	CodeFailedPrecondition Code = "FAILED_PRECONDITION"
	CodeResourceExhausted  Code = "RESOURCE_EXHAUSTED"
	CodeInternal           Code = "INTERNAL"
	CodeUnavailable        Code = "UNAVAILABLE"
	CodeDeadlineExceeded   Code = "DEADLINE_EXCEEDED"
	// CodeUnknown is for an HTTP status that no code stands for, such as 405.
	CodeUnknown Code = "UNKNOWN"
)

// statuses has the codes whose status is not 500 (A.3).
var statuses = map[Code]int{
	CodeInvalidArgument:    http.StatusBadRequest,
	CodeInvalidURI:         http.StatusBadRequest,
	CodeUnauthenticated:    http.StatusUnauthorized,
	CodePermissionDenied:   http.StatusForbidden,
	CodeNotFound:           http.StatusNotFound,
	CodeConflict:           http.StatusConflict,
	CodeFailedPrecondition: http.StatusPreconditionFailed,
	CodeResourceExhausted:  http.StatusTooManyRequests,
	CodeUnavailable:        http.StatusServiceUnavailable,
	CodeDeadlineExceeded:   http.StatusGatewayTimeout,
}

// Error is a failure that the client is told of.
type Error struct {
	Code Code
	// Message says what is wrong and what to do, and holds no secret.
	Message string
	// Details is what programs read; nil when there is nothing to add.
	Details map[string]any
	// Status takes the place of the code's own HTTP status when it is not 0.
	Status int
	// RetryAfter, when positive, is sent as Retry-After, in whole seconds.
	RetryAfter time.Duration
	// Detail, when set, stands beside the error as "detail", where older clients
	// look for the message (D).
	Detail string
}

// Error implements the error interface.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// HTTPStatus is the status the error is sent with.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	if status, ok := statuses[e.Code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Errorf makes an error without details.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Violation is one fault of a request's fields.
type Violation struct {
	// Loc is the path to the field, for example ["body", "from", 0].
	Loc []any `json:"loc"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Type is a word for programs: "missing", "type", "extra_forbidden", "value".
	Type string `json:"type"`
}

// Invalid makes the error of a request that does not fit its schema (A.2). The
// message names the first fault. There must be one.
func Invalid(violations ...Violation) *Error {
	first := violations[0]
	return &Error{
		Code:    CodeInvalidArgument,
		Message: fmt.Sprintf("Invalid request parameters: %s: %s", path(first.Loc), first.Message),
		Details: map[string]any{"validation_errors": violations},
	}
}

func path(loc []any) string {
	text := ""
	for i, part := range loc {
		if i > 0 {
			text += "."
		}
		text += fmt.Sprint(part)
	}
	return text
}

// NotFound makes the error of something that is not there, as far as the caller
// may know.
func NotFound(message, resource, kind string) *Error {
	return &Error{Code: CodeNotFound, Message: message, Details: map[string]any{"resource": resource, "type": kind}}
}

// Unavailable makes the error of a service that can't be used now.
func Unavailable(message, service, reason string) *Error {
	return &Error{Code: CodeUnavailable, Message: message, Details: map[string]any{"service": service, "reason": reason}}
}

// internal is what is told of an error that is none of a client's business.
var internal = &Error{Code: CodeInternal, Message: "Internal server error"}

// AsError returns what a client is told of err: itself when it is an *Error, else
// INTERNAL without a word of it.
func AsError(err error) *Error {
	if told, ok := errors.AsType[*Error](err); ok {
		return told
	}
	return internal
}
