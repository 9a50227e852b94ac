package compileapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/sealed"
)

const (
	resourceTasks = "compiletasks"

	// maxToldBytes bounds what is repeated of the API server's words.
	maxToldBytes = 1024
	// maxCausesTold bounds how many of its causes are.
	maxCausesTold = 16
	// retryDefault is the Retry-After where the API server names none.
	retryDefault = time.Second

	serviceTasks   = "task store"
	serviceAccess  = "authorization"
	serviceContent = "content store"
	serviceCompile = "compile"
)

// taskNotFound is the one answer for a task that is missing, expired or somebody
// else's (C.4).
func taskNotFound(id string) *wire.Error {
	return wire.NotFound("Task not found or expired", cut(id, maxIDShown), "task")
}

// maxIDShown bounds what an answer repeats of an id, which may be any text.
const maxIDShown = 256

// told is an error with what the client is told of it. The cause is for the log.
func told(answer *wire.Error, action string, cause error) error {
	return fmt.Errorf("%w: %s: %w", answer, action, cause)
}

// writeError turns what the API server says to a write of the caller's into what
// the caller is told.
func writeError(err error, user v1alpha1.Requester, verb, namespace string) error {
	return told(writeAnswer(err, user, verb, namespace), verb+" CompileTask", err)
}

func writeAnswer(err error, user v1alpha1.Requester, verb, namespace string) *wire.Error {
	if unsent, ok := errors.AsType[*access.ForbiddenError](err); ok {
		// Nobody may act as this caller, so nothing was sent; no repeat mends that.
		return wire.Errorf(wire.CodePermissionDenied, "%s", unsent.Message)
	}
	switch {
	case apierrors.IsForbidden(err):
		return forbidden(err, user, verb, namespace)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return refused(err)
	case apierrors.IsNotFound(err):
		// The API server lets only those know who may write there.
		return wire.NotFound(fmt.Sprintf("Namespace %q not found", namespace), namespace, "namespace")
	case apierrors.IsConflict(err):
		return wire.Errorf(wire.CodeConflict, "the task was changed at the same time; repeat the request")
	default:
		return storeAnswer(err)
	}
}

// storeError is what a failed read of tasks tells.
func storeError(action string, err error) error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	return told(storeAnswer(err), action, err)
}

// storeAnswer is what is told of failures that are none of the caller's fault.
func storeAnswer(err error) *wire.Error {
	switch {
	case apierrors.IsTooManyRequests(err):
		return &wire.Error{
			Code: wire.CodeResourceExhausted, Message: "the cluster takes no more requests now; try again later",
			RetryAfter: retryAfter(err),
		}
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsInternalError(err), errors.Is(err, context.DeadlineExceeded), !isStatus(err):
		// What is no answer of the API server is a failure to reach it.
		unavailable := wire.Unavailable("the cluster can't be reached now; try again later", serviceTasks, "unavailable")
		unavailable.RetryAfter = retryAfter(err)
		return unavailable
	default:
		return wire.AsError(err)
	}
}

func isStatus(err error) bool {
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}

func retryAfter(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return retryDefault
}

// forbidden says what the caller lacks. A refusal by admission names its object or
// has causes and is told in its own words; any other is RBAC's, whose words name
// who really asked, so it is put anew.
func forbidden(err error, user v1alpha1.Requester, verb, namespace string) *wire.Error {
	status := statusOf(err)
	if details := status.Details; details != nil && details.Kind == resourceTasks && (details.Name != "" || len(details.Causes) > 0) {
		return &wire.Error{Code: wire.CodePermissionDenied, Message: causesOf(status)}
	}
	return notAllowed(user, verb, namespace)
}

func notAllowed(user v1alpha1.Requester, verb, namespace string) *wire.Error {
	return wire.Errorf(wire.CodePermissionDenied,
		"user %q may not %s compiletasks in namespace %q: grant the verb %q on compiletasks.agentruntime.dev there",
		user.Username, verb, namespace, verb)
}

// refused tells the faults that admission found.
func refused(err error) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidArgument, Message: causesOf(statusOf(err))}
}

func statusOf(err error) metav1.Status {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus
	}
	return metav1.Status{}
}

// causesOf puts the causes of a refusal in one line: "spec.to: must not be empty".
func causesOf(status metav1.Status) string {
	var parts []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes[:min(len(status.Details.Causes), maxCausesTold)] {
			text := cause.Message
			if cause.Field != "" {
				text = cause.Field + ": " + text
			}
			parts = append(parts, text)
		}
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		text = status.Message
		if _, reason, found := strings.Cut(text, " is forbidden: "); found {
			text = reason
		}
	}
	if text == "" {
		text = "the request was refused"
	}
	return cut(text, maxToldBytes)
}

// cut bounds a text in bytes, between two characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// findError is what a failed look-up of one task tells.
func findError(id string, err error) error {
	if apierrors.IsNotFound(err) {
		return taskNotFound(id)
	}
	return storeError("find the task", err)
}

// lost reports that a body which stands apart from its task will not be read by
// trying again: it is gone, or no key opens it.
func lost(err error) bool {
	return apierrors.IsNotFound(err) || errors.Is(err, sealed.ErrUnreadable) ||
		errors.Is(err, sealed.ErrUnknownKey) || errors.Is(err, sealed.ErrTooLarge)
}
