package compileapi

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// reader is what a caller may see of a namespace's tasks.
type reader struct {
	username string
	own, any bool
}

// reader asks both questions whatever task is meant, so that neither the answer nor
// the time it takes tells whether there is one.
func (a *API) reader(ctx context.Context, info *httpapi.Info) (reader, error) {
	own, err := a.may(ctx, info, "get", "own")
	if err != nil {
		return reader{}, err
	}
	anyone, err := a.may(ctx, info, "get", "any")
	if err != nil {
		return reader{}, err
	}
	return reader{username: info.Caller.User.Username, own: own, any: anyone}, nil
}

// sees reports whether the task exists for the reader.
func (r reader) sees(task *v1alpha1.CompileTask) bool {
	return r.any || r.own && r.username != "" && task.Spec.Requester.Username == r.username
}

// may asks RBAC about compiletasks, or a virtual subresource of theirs, in the
// request's namespace.
func (a *API) may(ctx context.Context, info *httpapi.Info, verb, subresource string) (bool, error) {
	allowed, _, err := a.access.Allowed(ctx, info.Caller.User, authorizationv1.ResourceAttributes{
		Namespace: info.Namespace, Verb: verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: resourceTasks, Subresource: subresource,
	})
	if err != nil {
		unavailable := wire.Unavailable("access can't be checked now; try again later", serviceAccess, "unavailable")
		unavailable.RetryAfter = retryDefault
		return false, told(unavailable, "review access", err)
	}
	return allowed, nil
}

// find returns the request's task, or the one answer for all that is not to be seen.
func (a *API) find(ctx context.Context, info *httpapi.Info, id string) (*v1alpha1.CompileTask, error) {
	who, err := a.reader(ctx, info)
	if err != nil {
		return nil, err
	}
	task, err := a.tasks.Find(ctx, info.Namespace, id, who.sees)
	if err != nil {
		return nil, findError(id, err)
	}
	return task, nil
}
