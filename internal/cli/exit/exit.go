// Package exit gives each outcome of a command its exit code. The codes are part
// of arctl's interface: scripts branch on them.
package exit

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// The exit codes.
const (
	// OK: done; where a task was waited for, it ended as wanted.
	OK = 0
	// Failure: the server could not be reached, or failed.
	Failure = 1
	// Usage: the command line is wrong, or the server refuses the request as it
	// stands.
	Usage = 2
	// Denied: the server does not know the caller, or does not let them.
	Denied = 3
	// NotFound: there is no such thing, as far as the caller may know.
	NotFound = 4
	// TaskFailed: the task that was waited for failed.
	TaskFailed = 10
	// TaskCancelled: the task that was waited for was cancelled.
	TaskCancelled = 11
	// TimedOut: waiting took longer than --timeout; the task goes on.
	TimedOut = 12
	// Interrupted: waiting was interrupted; the task goes on.
	Interrupted = 130
)

// Error is an error that chooses its exit code.
type Error struct {
	// Code is the exit code.
	Code int
	// Err says what happened.
	Err error
}

// Error says what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error below.
func (e *Error) Unwrap() error { return e.Err }

// With gives err an exit code.
func With(code int, err error) error { return &Error{Code: code, Err: err} }

// Usagef is the error of a command line that can't be run.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// Code is the exit code of a command that returned err.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if chosen, ok := errors.AsType[*Error](err); ok {
		return chosen.Code
	}
	if refused, ok := errors.AsType[*taskapi.Error](err); ok {
		return ofStatus(refused.Status)
	}
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return ofStatus(int(refused.ErrStatus.Code))
	}
	return Failure
}

// ofStatus is the code for an HTTP status that refuses a request.
func ofStatus(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied
	case http.StatusNotFound, http.StatusGone:
		return NotFound
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return Failure
	}
	if status >= 400 && status < 500 {
		return Usage
	}
	return Failure
}
