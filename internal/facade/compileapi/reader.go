package compileapi

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// reader is what a caller may see of a namespace's tasks.
type reader struct {
	username string
	own, any bool
}

// question is one of access's about a user in a namespace.
type question func(context.Context, access.Authorizer, v1alpha1.Requester, string) (access.Decision, error)

// reader asks both questions whatever task is meant, so that neither the answer nor
// the time it takes tells whether there is one.
func (a *API) reader(ctx context.Context, info *httpapi.Info) (reader, error) {
	own, err := a.ask(ctx, info, access.CanReadOwn)
	if err != nil {
		return reader{}, err
	}
	everybodys, err := a.ask(ctx, info, access.CanReadAny)
	if err != nil {
		return reader{}, err
	}
	return reader{username: info.Caller.User.Username, own: own.Allowed, any: everybodys.Allowed}, nil
}

// sees reports whether the task exists for the reader.
func (r reader) sees(task *v1alpha1.CompileTask) bool {
	return r.any || r.own && r.username != "" && task.Spec.Requester.Username == r.username
}

// ask asks about the caller in the request's namespace.
func (a *API) ask(ctx context.Context, info *httpapi.Info, may question) (access.Decision, error) {
	decision, err := may(ctx, a.access, info.Caller.User, info.Namespace)
	if err != nil {
		return access.Decision{}, accessError(err)
	}
	return decision, nil
}

// require is ask with a refusal as its error.
func (a *API) require(ctx context.Context, info *httpapi.Info, may question) error {
	decision, err := a.ask(ctx, info, may)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return wire.Errorf(wire.CodePermissionDenied, "%s", decision.Message)
	}
	return nil
}

// mayCreate asks RBAC whether the caller may create tasks. Whether they do, the API
// server decides.
func (a *API) mayCreate(ctx context.Context, info *httpapi.Info) (bool, error) {
	allowed, _, err := a.access.Allowed(ctx, info.Caller.User, authorizationv1.ResourceAttributes{
		Namespace: info.Namespace, Verb: "create", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: resourceTasks,
	})
	if err != nil {
		return false, accessError(err)
	}
	return allowed, nil
}

// requireCreate refuses a caller who may not create tasks on the runtime, before
// anything is done for them that the API server's own refusal would come too late for.
func (a *API) requireCreate(ctx context.Context, info *httpapi.Info, runtime string) error {
	allowed, err := a.mayCreate(ctx, info)
	if err != nil {
		return err
	}
	if !allowed {
		return notAllowed(info.Caller.User, "create", info.Namespace)
	}
	return a.require(ctx, info, func(ctx context.Context, authorizer access.Authorizer, user v1alpha1.Requester, namespace string) (access.Decision, error) {
		return access.CanUseRuntime(ctx, authorizer, user, namespace, runtime)
	})
}

func accessError(err error) error {
	unavailable := wire.Unavailable("access can't be checked now; try again later", serviceAccess, "unavailable")
	unavailable.RetryAfter = retryDefault
	return told(unavailable, "review access", err)
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
