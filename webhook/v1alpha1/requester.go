package v1alpha1

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// The bounds of v1alpha1.Requester's schema. They are checked before the stamp,
// for a user over them needs to hear what is the matter, not that a field they
// never wrote is invalid. Nothing is cut: a shortened list of groups would be
// somebody else.
const (
	maxRequesterText = 1024
	maxGroups        = 256
	maxExtraKeys     = 32
	maxExtraValues   = 64
	maxExtraText     = 2048
	// maxRequesterBytes bounds all of it as it is stored: at their bounds the parts
	// would be more than an object may hold.
	maxRequesterBytes = 256 << 10
)

// requesterOf is the user of an admission request as a task records them.
func requesterOf(user authenticationv1.UserInfo) v1alpha1.Requester {
	requester := v1alpha1.Requester{Username: user.Username, UID: user.UID, Groups: user.Groups}
	if len(user.Extra) > 0 {
		requester.Extra = make(map[string]v1alpha1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			requester.Extra[key] = v1alpha1.ExtraValue(values)
		}
	}
	return requester
}

func requesterPath() *field.Path { return field.NewPath("spec", "requester") }

func checkRequester(requester v1alpha1.Requester, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	refuse := func(at *field.Path, format string, args ...any) {
		faults = append(faults, field.Forbidden(at, "your user can't be recorded: "+fmt.Sprintf(format, args...)))
	}
	if tooLong(requester.Username, maxRequesterText) {
		refuse(path.Child("username"), "its name has more than %d characters", maxRequesterText)
	}
	if tooLong(requester.UID, maxRequesterText) {
		refuse(path.Child("uid"), "its uid has more than %d characters", maxRequesterText)
	}
	groups := path.Child("groups")
	if len(requester.Groups) > maxGroups {
		refuse(groups, "it is in %d groups; at most %d are allowed", len(requester.Groups), maxGroups)
	}
	if slices.ContainsFunc(requester.Groups, func(g string) bool { return g == "" || tooLong(g, maxRequesterText) }) {
		refuse(groups, "the name of one of its groups is empty or has more than %d characters", maxRequesterText)
	}
	extra := path.Child("extra")
	if len(requester.Extra) > maxExtraKeys {
		refuse(extra, "it has %d extra attributes; at most %d are allowed", len(requester.Extra), maxExtraKeys)
		return faults
	}
	for _, key := range slices.Sorted(maps.Keys(requester.Extra)) {
		values := requester.Extra[key]
		if len(values) > maxExtraValues || slices.ContainsFunc(values, func(v string) bool { return tooLong(v, maxExtraText) }) {
			refuse(extra.Key(key), "more than %d values, or a value of more than %d characters", maxExtraValues, maxExtraText)
		}
	}
	if encoded, err := json.Marshal(requester); err != nil || len(encoded) > maxRequesterBytes {
		refuse(path, "its name, groups and extra attributes together take more than %d bytes", maxRequesterBytes)
	}
	return faults
}

func tooLong(text string, bound int) bool {
	return len(text) > bound && utf8.RuneCountInString(text) > bound
}

// defaultRuntimeName is the name of the default AgentRuntime, empty when there is
// none.
func defaultRuntimeName(ctx context.Context, runtimes client.Reader) (string, error) {
	var list v1alpha1.AgentRuntimeList
	if err := runtimes.List(ctx, &list); err != nil {
		return "", fmt.Errorf("list AgentRuntimes to find the default: %w", err)
	}
	if runtime := v1alpha1.DefaultRuntime(list.Items); runtime != nil {
		return runtime.Name, nil
	}
	return "", nil
}
