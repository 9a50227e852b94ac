package compile

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

func refuse(code, format string, args ...any) error {
	return &runtimeapi.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// readError gives an error of reading its code (F.3): the store's kinds are codes.
// The end of a context, and what has a code already, pass through.
func readError(err error) error {
	switch {
	case err == nil, isEnd(err), hasCode(err):
		return err
	}
	if e, ok := errors.AsType[*skill.InvalidError](err); ok {
		return refuse(runtimeapi.CodeSkillInvalid, "%s", e)
	}
	if e, ok := errors.AsType[*skill.UnavailableError](err); ok {
		return refuse(runtimeapi.CodeSkillCapabilityUnavailable, "%s", e)
	}
	return refuse(string(contentstore.KindOf(err)), "%s", err)
}

// writeError is readError for the stage writing, in which codes say that the
// task's work was done and could not be kept.
func writeError(err error) error {
	switch {
	case err == nil, isEnd(err):
		return err
	case contentstore.IsConflict(err):
		return refuse(runtimeapi.CodeWriteConflict, "%s", err)
	default:
		return refuse(runtimeapi.CodeWriteFailed, "%s", err)
	}
}

func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func hasCode(err error) bool {
	_, ok := errors.AsType[*runtimeapi.Error](err)
	return ok
}

// fieldError gives a fault of the request its code. The protocol has no code for a
// malformed URI of its own (E.1.3).
func fieldError(fault *viking.FieldError) error {
	if fault.Code == viking.CodePermissionDenied {
		return refuse(runtimeapi.CodePermissionDenied, "%s", fault)
	}
	return refuse(runtimeapi.CodeInvalidArgument, "%s", fault)
}
