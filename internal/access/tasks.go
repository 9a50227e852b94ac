package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	resourceCompileTasks = "compiletasks"
	// The virtual subresources that only RBAC knows (DESIGN.md, "Who may do what", 4).
	subresourceOwn = "own"
	subresourceAny = "any"
)

// CanReadOwn reports whether the user may read their own CompileTasks of the
// namespace by the REST API: by the verb get on compiletasks/own.
func CanReadOwn(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace string) (Decision, error) {
	return canRead(ctx, authorizer, user, namespace, subresourceOwn, "read their own CompileTasks")
}

// CanReadAny reports whether the user may read everybody's CompileTasks of the
// namespace by the REST API: by the verb get on compiletasks/any.
func CanReadAny(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace string) (Decision, error) {
	return canRead(ctx, authorizer, user, namespace, subresourceAny, "read other users' CompileTasks")
}

// CanListAny reports whether the user may list everybody's CompileTasks of the
// namespace by the REST API. It is the same right as CanReadAny: whoever may see any
// task by its id may see them all.
func CanListAny(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace string) (Decision, error) {
	return canRead(ctx, authorizer, user, namespace, subresourceAny, "list the CompileTasks of the whole namespace")
}

func canRead(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace, subresource, what string) (Decision, error) {
	allowed, _, err := authorizer.Allowed(ctx, user, authorizationv1.ResourceAttributes{
		Verb: verbGet, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: resourceCompileTasks, Subresource: subresource, Namespace: namespace,
	})
	if err != nil || allowed {
		return Decision{Allowed: allowed}, err
	}
	return Decision{Message: fmt.Sprintf(
		"user %q may not %s: grant the verb \"get\" on %s.%s/%s in namespace %q",
		user.Username, what, resourceCompileTasks, v1alpha1.GroupVersion.Group, subresource, namespace)}, nil
}
