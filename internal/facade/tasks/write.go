package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// ErrOutcomeUnknown says that a create was sent, its answer was lost, and the task is
// not there now; it may still come to be.
var ErrOutcomeUnknown = errors.New("it is not known whether the task was created")

// requestedAtFormat is RFC 3339 with microseconds.
const requestedAtFormat = "2006-01-02T15:04:05.000000Z07:00"

// Create stores a task as the user. What the API server refuses is its error as it
// is. When the answer is lost, the task is looked up by its name, and returned if it
// is the very one; otherwise the error is the original, with ErrOutcomeUnknown when
// nobody can say.
func (s *Store) Create(ctx context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error) {
	created := task.DeepCopy()
	err := s.writer.Create(s.as(ctx, user), created)
	if err == nil {
		return s.learn(created), nil
	}
	if !uncertain(err) {
		return nil, err
	}
	return s.settleCreate(ctx, task, err)
}

// settleCreate finds out what became of a create. The caller's context may be what
// ended it, so the look has a time of its own.
func (s *Store) settleCreate(ctx context.Context, task *v1alpha1.CompileTask, cause error) (*v1alpha1.CompileTask, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settle)
	defer cancel()
	found, err := s.read(ctx, keyOf(task))
	if err == nil && sameRequest(task, found) {
		return found, nil
	}
	if err == nil {
		// The name is taken by another, so this one was not created.
		return nil, apierrors.NewAlreadyExists(resource, task.Name)
	}
	if _, answered := statusCode(cause); answered && apierrors.IsNotFound(err) && !apierrors.IsTimeout(cause) {
		return nil, cause
	}
	return nil, fmt.Errorf("create CompileTask %s: %w: %w", keyOf(task), ErrOutcomeUnknown, cause)
}

// sameRequest reports whether what is stored was made from the task: the mark covers
// namespace, name and user, the digest the request.
func sameRequest(task, stored *v1alpha1.CompileTask) bool {
	want, got := task.Spec.RESTRequest, stored.Spec.RESTRequest
	return want != nil && got != nil && want.Mark != "" && want.Mark == got.Mark && want.Digest == got.Digest
}

// uncertain reports whether a write may have been made in spite of its error: the
// request had left and no answer came, or one of a server in trouble.
func uncertain(err error) bool {
	if errors.Is(err, access.ErrForbidden) {
		return false // refused before it was sent
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return false
	}
	code, answered := statusCode(err)
	return !answered || code >= http.StatusInternalServerError
}

// statusCode is that of the API server's answer, when there was one.
func statusCode(err error) (code int32, answered bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}
	return status.Status().Code, true
}

// Cancel asks, as the user, for the task to stop, and returns it as it is then. A
// task that was asked before or has ended is returned as it is. The time of the wish
// is noted only for the requester: for others it would take one more right. The error
// is the API server's; a task that is not there any more is apierrors.IsNotFound.
func (s *Store) Cancel(ctx context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error) {
	if task.Spec.Cancel || task.Terminal() {
		return task, nil
	}
	patch, err := s.cancelPatch(user, task)
	if err != nil {
		return nil, err
	}
	cancelled := &v1alpha1.CompileTask{}
	cancelled.Namespace, cancelled.Name = task.Namespace, task.Name
	err = s.writer.Patch(s.as(ctx, user), cancelled, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		// The uid may be another's by now.
		if now, readErr := s.read(ctx, keyOf(task)); readErr == nil && now.UID != task.UID {
			return nil, notFound(task.TaskID())
		}
	}
	if err != nil {
		return nil, err
	}
	return s.learn(cancelled), nil
}

// cancelPatch holds the uid, so that it fits no later task of the same name.
func (s *Store) cancelPatch(user v1alpha1.Requester, task *v1alpha1.CompileTask) ([]byte, error) {
	meta := map[string]any{"uid": task.UID}
	if user.Username == task.Spec.Requester.Username {
		meta["annotations"] = map[string]string{
			v1alpha1.AnnotationCancelRequestedAt: s.clock.Now().UTC().Format(requestedAtFormat),
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"cancel": true}})
	if err != nil {
		return nil, fmt.Errorf("make the patch that cancels CompileTask %s: %w", keyOf(task), err)
	}
	return patch, nil
}
