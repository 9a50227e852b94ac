// Package registry keeps one executor client for each AgentRuntime, made anew
// when its spec changes, and hands it the gateway token from its Secret.
package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

const (
	// tokenTTL is how long a gateway token is used before its Secret is read again.
	tokenTTL = 10 * time.Second
	// refusedTTL is how long one is used that the executor refused. It bounds how
	// often many refused tasks together have the Secret read.
	refusedTTL = time.Second
)

// Registry holds the clients. It is safe for concurrent use.
type Registry struct {
	secrets   client.Reader
	namespace string
	now       func() time.Time

	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	uid        types.UID
	generation int64
	client     *executor.HTTP
	err        error
	token      *token
}

// New returns a registry that reads gateway tokens of the namespace with the
// reader, which should not cache: the operator may get Secrets, not list them.
func New(secrets client.Reader, namespace string) *Registry {
	return &Registry{secrets: secrets, namespace: namespace, now: time.Now, entries: map[string]*entry{}}
}

// For returns the client of a runtime. An error means that its spec can't be
// used; it stays the same until the spec changes.
func (r *Registry) For(runtime *v1alpha1.AgentRuntime) (executor.Executor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[runtime.Name]
	if ok && e.uid == runtime.UID && e.generation >= runtime.Generation {
		if e.err != nil {
			return nil, e.err
		}
		return e.client, nil
	}
	if ok && e.client != nil {
		e.client.Close()
	}
	e = &entry{uid: runtime.UID, generation: runtime.Generation}
	r.entries[runtime.Name] = e
	config := executor.HTTPConfig{
		BaseURL:        runtime.Spec.URL,
		CABundle:       runtime.Spec.CABundle,
		RequestTimeout: time.Duration(runtime.Spec.RequestTimeoutSeconds) * time.Second,
	}
	if ref := runtime.Spec.GatewayTokenSecretRef; ref != nil {
		e.token = &token{registry: r, ref: *ref}
		config.GatewayToken, config.GatewayRefused = e.token.get, e.token.refuse
	}
	if e.client, e.err = executor.NewHTTP(config); e.err != nil {
		return nil, e.err
	}
	return e.client, nil
}

// Secrets returns the gateway token last used for a runtime, for redaction.
func (r *Registry) Secrets(runtime string) []string {
	r.mu.Lock()
	e := r.entries[runtime]
	r.mu.Unlock()
	if e == nil || e.token == nil {
		return nil
	}
	if value := e.token.last(); value != "" {
		return []string{value}
	}
	return nil
}

// Forget drops the client of a runtime that is gone.
func (r *Registry) Forget(runtime string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[runtime]; ok && e.client != nil {
		e.client.Close()
	}
	delete(r.entries, runtime)
}

// ErrTokenUnavailable says that a runtime's gateway token can't be read.
var ErrTokenUnavailable = errors.New("gateway token unavailable")

// token is a gateway token, read again when it is older than tokenTTL, or than
// refusedTTL once the executor has refused it.
type token struct {
	registry *Registry
	ref      v1alpha1.SecretKeyReference

	mu      sync.Mutex
	value   string
	readAt  time.Time
	refused bool
}

func (t *token) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value
}

// refuse notes that the executor refused a token, unless another has been read
// since.
func (t *token) refuse(sent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sent == strings.TrimSpace(t.value) {
		t.refused = true
	}
}

func (t *token) fresh(now time.Time) bool {
	ttl := tokenTTL
	if t.refused {
		ttl = refusedTTL
	}
	return t.value != "" && now.Sub(t.readAt) < ttl
}

func (t *token) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.registry.now()
	if t.fresh(now) {
		return t.value, nil
	}
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: t.registry.namespace, Name: t.ref.Name}
	if err := t.registry.secrets.Get(ctx, key, &secret); err != nil {
		return "", fmt.Errorf("read Secret %s: %w: %w", key, ErrTokenUnavailable, err)
	}
	if secret.Type != v1alpha1.SecretTypeGatewayToken {
		return "", fmt.Errorf("Secret %s has type %q, want %q: %w", key, secret.Type, v1alpha1.SecretTypeGatewayToken, ErrTokenUnavailable)
	}
	value := string(secret.Data[keyOf(t.ref)])
	if value == "" {
		return "", fmt.Errorf("Secret %s has nothing under key %q: %w", key, keyOf(t.ref), ErrTokenUnavailable)
	}
	t.value, t.readAt, t.refused = value, now, false
	return value, nil
}

func keyOf(ref v1alpha1.SecretKeyReference) string {
	if ref.Key == "" {
		return "token"
	}
	return ref.Key
}
