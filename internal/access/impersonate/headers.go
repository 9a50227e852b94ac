package impersonate

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/transport"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// builtInExtras begins the keys by which the API server tells where a ServiceAccount's
// token came from (its pod, its node, its id). They grant and narrow nothing.
const builtInExtras = "authentication.kubernetes.io/"

// onlyBuiltInExtras refuses a ServiceAccount that has extras which would be lost.
func onlyBuiltInExtras(who v1alpha1.Requester) error {
	for _, key := range slices.Sorted(maps.Keys(who.Extra)) {
		if !strings.HasPrefix(key, builtInExtras) {
			return forbidden("ServiceAccount %q has the extra %q, which can't be passed on for a ServiceAccount: use a token without it", who.Username, key)
		}
	}
	return nil
}

// describe adds what is known of the user beyond the name.
func (t *Transport) describe(who v1alpha1.Requester, headers http.Header) error {
	if who.UID != "" {
		headers[transport.ImpersonateUIDHeader] = []string{who.UID}
	}
	if len(who.Groups) > 0 {
		headers[transport.ImpersonateGroupHeader] = who.Groups
	}
	for _, key := range slices.Sorted(maps.Keys(who.Extra)) {
		// It may narrow the user's rights, so to leave it out could widen them.
		if !t.extras[key] {
			return forbidden("user %q has the extra %q, which the operator may not pass on: allow it in the facade's configuration and in its role, as userextras/%s", who.Username, key, key)
		}
		if len(who.Extra[key]) > 0 {
			name := http.CanonicalHeaderKey(transport.ImpersonateUserExtraHeaderPrefix + escapeKey(key))
			headers[name] = append(headers[name], who.Extra[key]...)
		}
	}
	return nil
}

// checkValues refuses what would arrive as something else: HTTP strips space at the
// ends and has no way to send a control character.
func checkValues(headers http.Header) error {
	for name, values := range headers {
		for _, value := range values {
			if value == "" || strings.Trim(value, " \t") != value || strings.ContainsFunc(value, isControl) {
				return forbidden("the user's %s is empty, begins or ends with a space, or has control characters: such a user can't be impersonated",
					strings.ToLower(strings.TrimPrefix(name, headerPrefix)))
			}
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// escapeKey percent-encodes what a header's name can't have, as the API server undoes
// it: all but the letters, digits and marks of a token (RFC 9110, 5.6.2), and the
// percent sign itself.
func escapeKey(key string) string {
	const marks = "!#$&'*+-.^_`|~"
	var text strings.Builder
	for i := range len(key) {
		c := key[i]
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', strings.IndexByte(marks, c) >= 0:
			text.WriteByte(c)
		default:
			fmt.Fprintf(&text, "%%%02X", c)
		}
	}
	return text.String()
}

func forbidden(format string, args ...any) error {
	return &access.ForbiddenError{Message: fmt.Sprintf(format, args...)}
}
