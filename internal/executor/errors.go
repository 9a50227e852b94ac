package executor

import (
	"errors"
	"net/http"
	"time"
)

// Operations an Error can name.
const (
	OpSubmit = "submit"
	OpPoll   = "poll"
	OpCancel = "cancel"
	OpProbe  = "probe"
)

// Error is a call that an executor refused or that did not reach it (E.2.3). Its
// text is redacted and holds neither a credential nor a URL.
type Error struct {
	// Code is a code of the protocol (A.3, F.3), at most 64 characters.
	Code string
	// Message is for people, at most 500 characters and the mark of a cut.
	Message string
	// HTTPStatus is the answer's status; 0 when no whole answer came.
	HTTPStatus int
	// Transient reports that the same call may succeed later. A refused gateway
	// token is transient too: it is between the operator and the executor, and
	// passes once both know the same token.
	Transient bool
	// RetryAfter is how long the executor asked to be left alone, at most one
	// hour; 0 when it did not ask.
	RetryAfter time.Duration
	// Op is the operation, one of the Op constants.
	Op string

	// gatewayRejected marks a 401 or 403 about the gateway token (A.7).
	gatewayRejected bool
	// cause is an error of the caller's own, from which the executor is not at fault.
	cause error
}

// Unwrap returns the error of the caller's own GatewayToken function that kept the
// call from being sent, nil for all others. Its text is the operator's own: it is
// not redacted, is no part of Error's, and is not for a task's user.
func (e *Error) Unwrap() error { return e.cause }

// Error returns "<op>: CODE: message".
func (e *Error) Error() string { return e.Op + ": " + e.Code + ": " + e.Message }

// IsTransient reports whether err is a failure of an executor that the same call
// may not meet later. It is false for an ended context of the caller.
func IsTransient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Transient
}

// IsSessionNotFound reports whether a poll or cancel was answered 404: the
// executor does not know the session, or it is another user's (E.2.5).
func IsSessionNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.HTTPStatus == http.StatusNotFound && (e.Op == OpPoll || e.Op == OpCancel)
}

// IsGatewayRejected reports whether the executor refused this operator's gateway
// token, rather than the user's credential (A.7). Such an error is transient.
func IsGatewayRejected(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.gatewayRejected
}

// RetryAfter returns how long the executor asked to be left alone, between 0 and
// one hour.
func RetryAfter(err error) time.Duration {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return 0
	}
	return e.RetryAfter
}

// CodeOf returns the code and message that the wire shows as "CODE: message";
// both are empty when err is not an *Error.
func CodeOf(err error) (code, message string) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return "", ""
	}
	return e.Code, e.Message
}
