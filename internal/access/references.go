package access

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// VerbUse is the verb a user needs on what a task runs on.
const VerbUse = "use"

const (
	verbGet    = "get"
	verbCreate = "create"

	resourceAgentRuntimes   = "agentruntimes"
	resourceSecrets         = "secrets"
	resourceServiceAccounts = "serviceaccounts"
	subresourceToken        = "token"
)

// Decision is the answer to whether a user may use what an object names.
type Decision struct {
	// Allowed reports that the user may.
	Allowed bool
	// Message says what is missing and which grant would mend it, for the user;
	// empty when Allowed.
	Message string
}

// CanUseRuntime reports whether the user may use the AgentRuntime for tasks of
// the namespace: by the verb use on it, granted in that namespace or
// cluster-wide.
func CanUseRuntime(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace, runtime string) (Decision, error) {
	attrs := authorizationv1.ResourceAttributes{
		Verb: VerbUse, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Resource: resourceAgentRuntimes, Name: runtime,
	}
	for _, scope := range []string{namespace, ""} {
		attrs.Namespace = scope
		allowed, _, err := authorizer.Allowed(ctx, user, attrs)
		if err != nil {
			return Decision{}, err
		}
		if allowed {
			return Decision{Allowed: true}, nil
		}
	}
	return Decision{Message: fmt.Sprintf(
		"user %q may not use AgentRuntime %q: grant the verb \"use\" on agentruntimes.agentruntime.dev/%s by a RoleBinding in namespace %q or by a ClusterRoleBinding",
		user.Username, runtime, runtime, namespace)}, nil
}

// CanGetSecret reports whether the user may get the Secret. Whoever names a
// Secret in an object has its content used for them, so they must be allowed to
// read it.
func CanGetSecret(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace, secret string) (Decision, error) {
	allowed, _, err := authorizer.Allowed(ctx, user, authorizationv1.ResourceAttributes{
		Verb: verbGet, Version: "v1", Resource: resourceSecrets, Namespace: namespace, Name: secret,
	})
	if err != nil || allowed {
		return Decision{Allowed: allowed}, err
	}
	return Decision{Message: fmt.Sprintf(
		"user %q may not use Secret %q: grant the verb \"get\" on secrets/%s in namespace %q",
		user.Username, secret, secret, namespace)}, nil
}

// CanCreateToken reports whether the user may create tokens of the
// ServiceAccount.
func CanCreateToken(ctx context.Context, authorizer Authorizer, user v1alpha1.Requester, namespace, serviceAccount string) (Decision, error) {
	allowed, _, err := authorizer.Allowed(ctx, user, authorizationv1.ResourceAttributes{
		Verb: verbCreate, Version: "v1", Resource: resourceServiceAccounts, Subresource: subresourceToken,
		Namespace: namespace, Name: serviceAccount,
	})
	if err != nil || allowed {
		return Decision{Allowed: allowed}, err
	}
	return Decision{Message: fmt.Sprintf(
		"user %q may not use ServiceAccount %q: grant the verb \"create\" on serviceaccounts/token for %s in namespace %q",
		user.Username, serviceAccount, serviceAccount, namespace)}, nil
}
