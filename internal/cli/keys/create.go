package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
	"github.com/agentruntime/operator/internal/cli/exit"
)

// Request is an API key as it is asked for.
type Request struct {
	// User and Groups are the Kubernetes user that the key stands for.
	User   string
	Groups []string
	// Namespace is the only one that the key is good for.
	Namespace string
	// Lifetime is how long the key works; 0 for ever.
	Lifetime time.Duration
	// ForwardKey is a key of OpenViking to send on with each task; empty for none.
	ForwardKey access.Secret
	// Description is a free text.
	Description string
}

// Created is a new API key, which can't be read again.
type Created struct {
	Key
	// Secret is the key itself.
	Secret string `json:"key"`
}

// Create makes an API key. What the facade would refuse to serve is refused here,
// before anything is sent.
func Create(ctx context.Context, secrets Secrets, operatorNamespace string, request Request, now time.Time) (*Created, error) {
	grant, err := request.grant(now)
	if err != nil {
		return nil, err
	}
	key := apikey.Mint()
	secret, err := apikey.Encode(operatorNamespace, key, grant, now)
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	made, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the API key's Secret in namespace %s: %w", operatorNamespace, err)
	}
	return &Created{Key: describe(made), Secret: string(key)}, nil
}

func (r Request) grant(now time.Time) (apikey.Grant, error) {
	switch {
	case r.User == "":
		return apikey.Grant{}, exit.Usagef("name the Kubernetes user that the key stands for with --as-user")
	case r.Namespace == "":
		return apikey.Grant{}, exit.Usagef("name the namespace that the key is for with --namespace")
	case r.Lifetime < 0 || (r.Lifetime > 0 && r.Lifetime < time.Second):
		return apikey.Grant{}, exit.Usagef("--expires must be at least a second, for example 720h")
	}
	grant := apikey.Grant{
		Username: r.User, Groups: r.Groups, Namespace: r.Namespace,
		ForwardKey: r.ForwardKey, Description: r.Description,
	}
	if r.Lifetime > 0 {
		grant.Expires = now.Add(r.Lifetime).UTC().Truncate(time.Second)
	}
	return grant, nil
}

// ReadSecret reads a secret of one line from a file, or from in when the file's name
// is "-". A line's end is no part of it.
func ReadSecret(file string, in io.Reader) (access.Secret, error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", exit.Usagef("read the key: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	text, err := io.ReadAll(io.LimitReader(in, access.MaxCredentialBytes+3))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", exit.With(exit.Usage, errors.New("read the key: there is none"))
	}
	return access.Secret(secret), nil
}

// NameOf is the name of a key's Secret, for who holds the key and wants it revoked.
func NameOf(key access.Secret) (string, error) {
	if !apikey.WellFormed(key) {
		return "", exit.Usagef("that is no API key: one begins with %s", access.APIKeyPrefix)
	}
	return apikey.SecretName(key), nil
}
