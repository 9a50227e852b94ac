package compileapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// maxCancelBytes bounds the body of a cancel, which says nothing.
const maxCancelBytes = 1 << 10

// cancel answers POST /api/v1/tasks/{task_id}/cancel (C.6). Repeats are fine.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	ctx, info, id := r.Context(), httpapi.InfoOf(r.Context()), r.PathValue(pathTaskID)
	if err := checkCancelBody(r); err != nil {
		return err
	}
	task, err := a.find(ctx, info, id)
	if err != nil {
		return err
	}
	switch status := statusOfTask(task); status {
	case statusCompleted, statusFailed:
		return alreadyEnded(status)
	case statusCancelling, statusCancelled:
		return a.answer(ctx, w, http.StatusOK, task)
	}
	cancelled, err := a.tasks.Cancel(ctx, info.Caller.User, task)
	switch {
	case apierrors.IsNotFound(err):
		return taskNotFound(id)
	case err != nil:
		return writeError(err, info.Caller.User, "cancel", info.Namespace)
	}
	// What was looked at first may have been older than the task's end.
	if status := statusOfTask(cancelled); status == statusCompleted || status == statusFailed {
		return alreadyEnded(status)
	}
	return a.answer(ctx, w, http.StatusOK, cancelled)
}

func alreadyEnded(status string) *wire.Error {
	return wire.Errorf(wire.CodeFailedPrecondition, "Task is already %s", status)
}

// checkCancelBody accepts no body, an empty one, and an empty object; space alone is
// neither, as the API's document has it.
func checkCancelBody(r *http.Request) error {
	body, err := readBody(r, maxCancelBytes)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil || compact.String() != "{}" {
		return bodyFault("must be empty or an empty JSON object")
	}
	return nil
}
