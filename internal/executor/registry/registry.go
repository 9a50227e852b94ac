// Package registry keeps one executor client for each AgentRuntime, made anew
// when what it depends on in the spec changes, and hands it the gateway token from its Secret.
package registry

import (
	"cmp"
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
	settings   settings
	client     *executor.HTTP
	err        error
	token      *token
	// former is the gateway token last used before this entry's own: calls made
	// with it may be under way still.
	former string
}

// settings are what a client depends on in a runtime's spec.
type settings struct {
	url, caBundle  string
	requestTimeout time.Duration
	guarded        bool
	tokenRef       v1alpha1.SecretKeyReference
}

func settingsOf(spec *v1alpha1.AgentRuntimeSpec) settings {
	s := settings{
		url:            spec.URL,
		caBundle:       string(spec.CABundle),
		requestTimeout: time.Duration(spec.RequestTimeoutSeconds) * time.Second,
	}
	if ref := spec.GatewayTokenSecretRef; ref != nil {
		s.guarded, s.tokenRef = true, *ref
	}
	return s
}

// New returns a registry that reads gateway tokens of the namespace with the
// reader, which should not cache: the operator may get Secrets, not list them.
func New(secrets client.Reader, namespace string) *Registry {
	return &Registry{secrets: secrets, namespace: namespace, now: time.Now, entries: map[string]*entry{}}
}

// For returns the client of a runtime, the same one until its url, caBundle,
// gatewayTokenSecretRef or requestTimeoutSeconds changes; one that is replaced
// still works for whoever holds it. An error means that the spec can't be used; it
// stays the same until one of these changes.
func (r *Registry) For(runtime *v1alpha1.AgentRuntime) (executor.Executor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[runtime.Name]
	if e == nil || e.uid != runtime.UID || e.generation < runtime.Generation {
		e = r.renew(e, runtime)
		r.entries[runtime.Name] = e
	}
	if e.err != nil {
		return nil, e.err
	}
	return e.client, nil
}

// renew returns the entry for a spec that was not seen before: old, which may be
// nil, where nothing changed that its client depends on.
func (r *Registry) renew(old *entry, runtime *v1alpha1.AgentRuntime) *entry {
	next := &entry{uid: runtime.UID, generation: runtime.Generation, settings: settingsOf(&runtime.Spec)}
	if old != nil {
		if old.settings == next.settings {
			old.uid, old.generation = next.uid, next.generation
			return old
		}
		next.former = old.lastToken()
		old.close()
	}
	config := executor.HTTPConfig{
		BaseURL:        next.settings.url,
		CABundle:       []byte(next.settings.caBundle),
		RequestTimeout: next.settings.requestTimeout,
	}
	if next.settings.guarded {
		next.token = &token{registry: r, ref: next.settings.tokenRef}
		config.GatewayToken, config.GatewayRefused = next.token.get, next.token.refuse
	}
	next.client, next.err = executor.NewHTTP(config)
	return next
}

// Secrets returns the gateway tokens that calls of a runtime show or have shown
// just before, for redaction: at most two.
func (r *Registry) Secrets(runtime string) []string {
	r.mu.Lock()
	e := r.entries[runtime]
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	var secrets []string
	value, former := e.tokens()
	for _, secret := range []string{value, former} {
		if secret != "" {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// Forget drops the client of a runtime that is gone. Whoever still holds it can
// finish with it.
func (r *Registry) Forget(runtime string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[runtime]; e != nil {
		e.close()
	}
	delete(r.entries, runtime)
}

func (e *entry) close() {
	if e.client != nil {
		e.client.Close()
	}
}

// tokens returns the gateway token last read and the one used before it; either
// is empty when there is none.
func (e *entry) tokens() (value, former string) {
	if e.token == nil {
		return "", e.former
	}
	value, former = e.token.last()
	if former == "" {
		former = e.former
	}
	return value, former
}

// lastToken returns the gateway token used last.
func (e *entry) lastToken() string {
	value, former := e.tokens()
	return cmp.Or(value, former)
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
	// former is the value before this one: calls made with it may be under way.
	former string
}

func (t *token) last() (value, former string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.former
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
	if value != t.value {
		t.former = t.value
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
