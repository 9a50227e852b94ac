package compileapi

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

// errReused is the answer to a key that another request has used, and to a name that
// is taken by something else: which of the two is nobody's business.
func errReused() *wire.Error {
	return wire.Errorf(wire.CodeConflict, headerIdempotencyKey+" was used for another request")
}

// stored returns the task under the name when it is the caller's own, made by this
// API. A foreign or unmarked one is reported as taken, and never shown.
func (a *API) stored(ctx context.Context, info *httpapi.Info, ring *sealed.KeyRing, name string) (task *v1alpha1.CompileTask, taken bool, err error) {
	task, err = a.tasks.ByName(ctx, info.Namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, storeError("read the stored task", err)
	case task.Spec.Requester.Username != info.Caller.User.Username || !resttask.Marked(ring, task):
		return nil, true, nil
	}
	return task, true, nil
}

// replay answers the repeat of a request that is stored under the name, and reports
// whether it did (B.6). Path variables are read as they were at the first time, so
// that a repeat after midnight is still the same request.
func (a *API) replay(w http.ResponseWriter, r *http.Request, ring *sealed.KeyRing, name string, request createRequest) (bool, error) {
	ctx, info := r.Context(), httpapi.InfoOf(r.Context())
	task, taken, err := a.stored(ctx, info, ring, name)
	if err != nil || !taken {
		return false, err
	}
	if task == nil {
		return true, errReused()
	}
	same, err := sameRequest(ring, task, request)
	if err != nil {
		return true, err
	}
	if !same {
		return true, errReused()
	}
	// What is shown needs the same right as reading it any other way.
	if err := a.require(ctx, info, access.CanReadOwn); err != nil {
		return true, err
	}
	return true, a.showTask(ctx, w, http.StatusAccepted, task)
}

// sameRequest compares a request with the one that a task was created by. A task
// without a digest was made without a key: then its random name was this request's.
func sameRequest(ring *sealed.KeyRing, task *v1alpha1.CompileTask, request createRequest) (bool, error) {
	rest := task.Spec.RESTRequest
	if rest.Digest == "" {
		return true, nil
	}
	at := task.CreationTimestamp.Time
	if rest.ReceivedTime != nil {
		at = rest.ReceivedTime.Time
	}
	canonical, err := canonicalize(request, task.Spec.Requester.Username, at)
	if err != nil {
		return false, err
	}
	body, err := canonical.normalised()
	if err != nil {
		return false, err
	}
	same, err := resttask.SameRequest(ring, rest.Digest, body)
	if err != nil {
		// The key of that time is gone or not here yet: nobody can say.
		return false, keyRingError(err)
	}
	return same, nil
}

// submission answers GET /api/v1/compile/submissions/{key}: the task that the
// caller has created under the key, if there is one (B.7).
func (a *API) submission(w http.ResponseWriter, r *http.Request) error {
	ctx, info, key := r.Context(), httpapi.InfoOf(r.Context()), r.PathValue("key")
	own, err := a.ask(ctx, info, access.CanReadOwn)
	if err != nil {
		return err
	}
	if !own.Allowed || !keyPattern.MatchString(key) {
		return taskNotFound(key)
	}
	ring, err := a.ring(ctx)
	if err != nil {
		return err
	}
	name := resttask.KeyedName(ring, info.Namespace, info.Caller.User.Username, key)
	task, _, err := a.stored(ctx, info, ring, name)
	if err != nil {
		return err
	}
	if task == nil {
		return taskNotFound(key)
	}
	return a.showTask(ctx, w, http.StatusOK, task)
}

// ring is the key ring, fit to name and mark tasks.
func (a *API) ring(ctx context.Context) (*sealed.KeyRing, error) {
	ring, err := a.keys.Ring(ctx)
	if err != nil {
		return nil, keyRingError(err)
	}
	if !ring.HasNames() {
		return nil, keyRingError(errors.New("it has no name key"))
	}
	return ring, nil
}

func keyRingError(err error) error {
	unavailable := wire.Unavailable("the service is not ready; try again later", serviceTasks, "the key ring can't be read")
	unavailable.RetryAfter = retryDefault
	return told(unavailable, "read the key ring", err)
}
