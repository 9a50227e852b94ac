package access

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ResolveNamespace returns the namespace that a request is for (DESIGN.md, "Who may
// do what", 2): the one in its path, else the one of the caller's API key, else the
// one in X-OpenViking-Account, else the caller's own if it is a ServiceAccount, else
// the default. An API key can't leave its namespace, and its holder's account headers
// are ignored. An empty pathNamespace, accountHeader or defaultNamespace is none.
//
// The error is an *InvalidNamespaceError for what can't be a namespace's name, or
// when there is none, and a *ForbiddenError for a path outside an API key's
// namespace. Whether the caller may do anything there is RBAC's to say.
func ResolveNamespace(pathNamespace string, caller Caller, accountHeader []string, defaultNamespace string) (string, error) {
	if pathNamespace != "" {
		return namespaceOfPath(pathNamespace, caller)
	}
	if caller.Namespace != "" {
		return caller.Namespace, nil
	}
	if account, err := accountOf(accountHeader); err != nil || account != "" {
		return account, err
	}
	if namespace, _, ok := ServiceAccountOf(caller.User.Username); ok {
		return namespace, nil
	}
	if defaultNamespace == "" {
		return "", &InvalidNamespaceError{Message: "no namespace: name it in X-OpenViking-Account or in the path, as /namespaces/{namespace}/…"}
	}
	return defaultNamespace, nil
}

func namespaceOfPath(namespace string, caller Caller) (string, error) {
	if err := checkNamespace("the path's namespace", namespace); err != nil {
		return "", err
	}
	if caller.Namespace != "" && caller.Namespace != namespace {
		return "", &ForbiddenError{Message: fmt.Sprintf(
			"the API key is for namespace %q only, not for %q", caller.Namespace, namespace)}
	}
	return namespace, nil
}

func accountOf(header []string) (string, error) {
	if len(header) > 1 {
		return "", &InvalidNamespaceError{Message: "the X-OpenViking-Account header must be there once"}
	}
	if len(header) == 0 {
		return "", nil
	}
	account := strings.TrimSpace(header[0])
	if account == "" {
		return "", nil
	}
	if err := checkNamespace("X-OpenViking-Account", account); err != nil {
		return "", err
	}
	return account, nil
}

// shownBytes bounds what an error repeats of a client's text.
const shownBytes = 64

func checkNamespace(where, namespace string) error {
	if len(validation.IsDNS1123Label(namespace)) == 0 {
		return nil
	}
	shown := namespace
	if len(shown) > shownBytes {
		shown = shown[:shownBytes] + "…"
	}
	return &InvalidNamespaceError{Message: fmt.Sprintf(
		"%s %q is no namespace: it must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit", where, shown)}
}
