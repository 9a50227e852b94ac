package access

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// The operator's own ServiceAccounts, in its namespace.
const (
	ServiceAccountManager = "agentruntime-manager"
	ServiceAccountFacade  = "agentruntime-facade"
)

const (
	namespaceSystem = "kube-system"
	prefixNode      = "system:node:"
	prefixSystem    = "system:kube-"
)

// Refused returns an error for an identity that may never act through the operator,
// however it was shown: nobody, the cluster's own components, those that RBAC does
// not bind, and the operator itself. Acting for them would let a mistake, or a header
// that was believed, reach rights that no user should have. It is a *ForbiddenError,
// or an *UnauthenticatedError for those who are nobody.
func Refused(who v1alpha1.Requester, operatorNamespace string) error {
	if who.Username == "" || who.Username == user.Anonymous || slices.Contains(who.Groups, user.AllUnauthenticated) {
		return &UnauthenticatedError{Reason: ReasonInvalid, Message: "the credential stands for nobody: anonymous requests are not served"}
	}
	if refusedName(who.Username, operatorNamespace) {
		return refusal("user", who.Username)
	}
	for _, group := range who.Groups {
		if refusedGroup(group) {
			return refusal("group", group)
		}
	}
	return nil
}

func refusal(kind, name string) error {
	return &ForbiddenError{Message: fmt.Sprintf(
		"%s %q is not served here: use a user or a ServiceAccount that RBAC gives only what it needs", kind, name)}
}

func refusedName(username, operatorNamespace string) bool {
	if strings.HasPrefix(username, prefixNode) || strings.HasPrefix(username, prefixSystem) || username == user.APIServerUser ||
		username == user.SystemPrivilegedGroup {
		return true
	}
	namespace, name, ok := ServiceAccountOf(username)
	if !ok {
		return false
	}
	own := namespace == operatorNamespace && (name == ServiceAccountManager || name == ServiceAccountFacade)
	return namespace == namespaceSystem || own
}

// refusedGroup also knows the group of kube-system's ServiceAccounts, which carries
// their rights without their names.
func refusedGroup(group string) bool {
	return group == user.SystemPrivilegedGroup || group == user.NodesGroup ||
		group == serviceaccount.MakeNamespaceGroupName(namespaceSystem)
}

// ServiceAccountOf returns the ServiceAccount that a user name stands for, and
// whether it stands for one.
func ServiceAccountOf(username string) (namespace, name string, ok bool) {
	namespace, name, err := serviceaccount.SplitUsername(username)
	return namespace, name, err == nil
}

// Authenticated returns the groups with system:authenticated among them, as the API
// server has it for everybody it knows. It does not change what it is given.
func Authenticated(groups []string) []string {
	if slices.Contains(groups, user.AllAuthenticated) {
		return groups
	}
	return append(slices.Clone(groups), user.AllAuthenticated)
}
