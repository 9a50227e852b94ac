package access

import (
	"errors"
	"fmt"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnauthenticated is every *UnauthenticatedError.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden is every *ForbiddenError.
	ErrForbidden = errors.New("forbidden")
	// ErrUnavailable is every *UnavailableError.
	ErrUnavailable = errors.New("unavailable")
	// ErrInvalidNamespace is every *InvalidNamespaceError.
	ErrInvalidNamespace = errors.New("invalid namespace")
)

// Reason is why a request has no caller.
type Reason string

// The reasons why a request has no caller.
const (
	// ReasonMissing is a request without a credential.
	ReasonMissing Reason = "Missing"
	// ReasonInvalid is a credential that is malformed, unknown, revoked or, for a
	// token, expired.
	ReasonInvalid Reason = "Invalid"
	// ReasonExpired is an API key that was good until it expired.
	ReasonExpired Reason = "Expired"
)

// UnauthenticatedError is a request whose sender is not known.
type UnauthenticatedError struct {
	Reason Reason
	// Message is for the client. It never holds a credential.
	Message string
	// Cause is what an operator may want to know beyond Message, for logs; nil when
	// there is nothing. It holds no credential either, but may name objects.
	Cause error
}

// Error returns the message.
func (e *UnauthenticatedError) Error() string { return e.Message }

// Is reports whether target is ErrUnauthenticated.
func (*UnauthenticatedError) Is(target error) bool { return target == ErrUnauthenticated }

// Unwrap returns the cause.
func (e *UnauthenticatedError) Unwrap() error { return e.Cause }

// ForbiddenError is a known caller who may not do what the message says.
type ForbiddenError struct {
	// Message is for the client.
	Message string
}

// Error returns the message.
func (e *ForbiddenError) Error() string { return e.Message }

// Is reports whether target is ErrForbidden.
func (*ForbiddenError) Is(target error) bool { return target == ErrForbidden }

// UnavailableError means that nobody could say: the API server can't be reached, or
// does not let us ask. It may show names of the cluster, so a client is told no more
// than that.
type UnavailableError struct {
	// Action is what was tried: "review a token".
	Action string
	Err    error
}

// Error tells what was tried and what went wrong.
func (e *UnavailableError) Error() string { return fmt.Sprintf("%s: %v", e.Action, e.Err) }

// Is reports whether target is ErrUnavailable.
func (*UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns what went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// InvalidNamespaceError is a request for something that can't be a namespace.
type InvalidNamespaceError struct {
	// Message is for the client.
	Message string
}

// Error returns the message.
func (e *InvalidNamespaceError) Error() string { return e.Message }

// Is reports whether target is ErrInvalidNamespace.
func (*InvalidNamespaceError) Is(target error) bool { return target == ErrInvalidNamespace }

// Invalid makes the error of a credential that is no good. Which of its faults it has
// is nobody's business but the operator's.
func Invalid(cause error) *UnauthenticatedError {
	return &UnauthenticatedError{
		Reason:  ReasonInvalid,
		Message: "the credential is not valid: it is unknown, expired, revoked, or meant for another audience",
		Cause:   cause,
	}
}
