package apikey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// The bounds of a Grant, those of a task's requester where there is one.
const (
	maxNameBytes        = 1024
	maxGroups           = 256
	maxDescriptionBytes = 1024
)

// Grant is what a key stands for.
type Grant struct {
	// Username is the Kubernetes user: "alice@example.com" or
	// "system:serviceaccount:team-a:ci". Required.
	Username string
	// UID is the user's unique id, where there is one.
	UID string
	// Groups are the user's. system:authenticated is added when the key is used, and
	// so are a ServiceAccount's, which can have no others.
	Groups []string
	// Namespace is the one that the key is for. Required.
	Namespace string
	// Expires is when the key ends, in whole seconds; never when zero.
	Expires time.Time
	// ForwardKey is sent to executors and content stores for the user; empty for none.
	ForwardKey access.Secret
	// Description is for people.
	Description string
}

// Expired reports whether the key has ended at that time.
func (g Grant) Expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// User is the key's user with all groups, as the API server would have them.
func (g Grant) User() v1alpha1.Requester {
	groups := g.Groups
	if namespace, _, ok := access.ServiceAccountOf(g.Username); ok {
		groups = serviceaccount.MakeGroupNames(namespace)
	}
	return v1alpha1.Requester{Username: g.Username, UID: g.UID, Groups: access.Authenticated(groups)}
}

// Validate returns every fault of the grant. The error is access.ErrForbidden when
// the user is never served (see access.Refused).
func (g Grant) Validate(operatorNamespace string) error {
	faults := []error{
		checkName("username", g.Username),
		g.checkGroups(),
		access.Refused(g.User(), operatorNamespace),
		checkText("description", g.Description, maxDescriptionBytes),
		g.checkForwardKey(),
	}
	if g.UID != "" {
		faults = append(faults, checkName("uid", g.UID))
	}
	if len(validation.IsDNS1123Label(g.Namespace)) > 0 {
		faults = append(faults, errors.New("namespace must be the name of a namespace"))
	}
	return errors.Join(faults...)
}

func (g Grant) checkGroups() error {
	if len(g.Groups) > maxGroups {
		return fmt.Errorf("groups must be at most %d", maxGroups)
	}
	if _, _, ok := access.ServiceAccountOf(g.Username); ok && len(g.Groups) > 0 {
		return errors.New("groups must be left out for a ServiceAccount: it has those of its namespace")
	}
	for _, group := range g.Groups {
		if err := checkName("each of groups", group); err != nil {
			return err
		}
	}
	if sorted := slices.Sorted(slices.Values(g.Groups)); len(slices.Compact(sorted)) != len(g.Groups) {
		return errors.New("groups must be there once each")
	}
	return nil
}

func (g Grant) checkForwardKey() error {
	key := string(g.ForwardKey)
	if len(key) > access.MaxCredentialBytes {
		return errors.New("the key to forward must be at most 16 KiB")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the key to forward must be printable ASCII without spaces")
	}
	return nil
}

// checkName checks what will stand in a header when the user is impersonated, where
// space at an end would be lost.
func checkName(field, name string) error {
	if name == "" || strings.TrimSpace(name) != name {
		return fmt.Errorf("%s must not be empty, nor begin or end with a space", field)
	}
	return checkText(field, name, maxNameBytes)
}

func checkText(field, text string, bytes int) error {
	if len(text) > bytes {
		return fmt.Errorf("%s must be at most %d bytes", field, bytes)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s must be text without control characters", field)
	}
	return nil
}
