package v1alpha1

import "strings"

// IsSecretArg reports whether the members of this name, at any depth of args, meta and
// results, are taken for credentials (compile-api.md, B.5): api_key and user_key, in
// any case of letters.
func IsSecretArg(name string) bool {
	return strings.EqualFold(name, "api_key") || strings.EqualFold(name, "user_key")
}
