package keys

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
	"github.com/agentruntime/operator/internal/cli/exit"
)

// Secrets is what is needed of the Secrets of the operator's namespace.
type Secrets interface {
	Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error)
	List(ctx context.Context, options metav1.ListOptions) (*corev1.SecretList, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// page is how many Secrets are asked for at a time.
const page = 500

// List reads all API keys, in the order of their names.
func List(ctx context.Context, secrets Secrets) ([]Key, error) {
	found, err := list(ctx, secrets)
	if err != nil {
		return nil, err
	}
	keys := make([]Key, 0, len(found))
	for i := range found {
		keys = append(keys, describe(&found[i]))
	}
	return keys, nil
}

func list(ctx context.Context, secrets Secrets) ([]corev1.Secret, error) {
	var found []corev1.Secret
	options := metav1.ListOptions{LabelSelector: apikey.Label + "=" + apikey.LabelValue, Limit: page}
	for {
		some, err := secrets.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list the Secrets of API keys: %w", err)
		}
		for i := range some.Items {
			if some.Items[i].Type == apikey.SecretType {
				found = append(found, some.Items[i])
			}
		}
		if options.Continue = some.Continue; options.Continue == "" {
			return found, nil
		}
	}
}

const (
	// namePrefix begins the name of an API key's Secret; 32 hexadecimal digits of
	// the key's hash follow.
	namePrefix = "apikey-"
	// minPrefix is how many of those digits must be given to pick a key.
	minPrefix = 4
)

var (
	fullName = regexp.MustCompile(`^apikey-[0-9a-f]{32}$`)
	digits   = regexp.MustCompile(`^[0-9a-f]{1,32}$`)
)

// Revoke removes the API key that a name, or enough of its beginning, picks, and
// returns the name. The facade refuses the key within seconds.
func Revoke(ctx context.Context, secrets Secrets, pick string) (string, error) {
	secret, err := find(ctx, secrets, pick)
	if err != nil {
		return "", err
	}
	err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	if err != nil {
		return "", fmt.Errorf("delete Secret %s: %w", secret.Name, err)
	}
	return secret.Name, nil
}

func find(ctx context.Context, secrets Secrets, pick string) (*corev1.Secret, error) {
	if strings.HasPrefix(pick, access.APIKeyPrefix) {
		return nil, exit.Usagef("that looks like a key itself, which must not stand on a command line: name its Secret (apikey list)")
	}
	// What other commands print with -o name is fine, too.
	pick = strings.TrimPrefix(strings.TrimPrefix(pick, "secret/"), namePrefix)
	if !digits.MatchString(pick) || len(pick) < minPrefix {
		return nil, exit.Usagef("name the API key as `apikey list` does, or by at least %d of the digits in its name", minPrefix)
	}
	if fullName.MatchString(namePrefix + pick) {
		return get(ctx, secrets, namePrefix+pick)
	}
	return findPrefix(ctx, secrets, namePrefix+pick)
}

func get(ctx context.Context, secrets Secrets, name string) (*corev1.Secret, error) {
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	if secret.Type != apikey.SecretType {
		return nil, exit.Usagef("Secret %s is no API key: its type is %s", name, secret.Type)
	}
	return secret, nil
}

func findPrefix(ctx context.Context, secrets Secrets, prefix string) (*corev1.Secret, error) {
	all, err := list(ctx, secrets)
	if err != nil {
		return nil, err
	}
	var match *corev1.Secret
	for i := range all {
		if !strings.HasPrefix(all[i].Name, prefix) {
			continue
		}
		if match != nil {
			return nil, exit.Usagef("more than one API key begins with %s: give more digits", prefix)
		}
		match = &all[i]
	}
	if match == nil {
		return nil, exit.With(exit.NotFound, fmt.Errorf("no API key begins with %s", prefix))
	}
	return match, nil
}
