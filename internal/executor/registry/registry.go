// Package registry keeps one executor client for each AgentRuntime, made anew
// when what it depends on in the spec changes, and hands it the gateway token from its Secret.
package registry

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/gatewaytoken"
)

// ErrTokenUnavailable says that a runtime's gateway token can't be read.
var ErrTokenUnavailable = gatewaytoken.ErrUnavailable

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
	token      *gatewaytoken.Source
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
		next.token = gatewaytoken.New(gatewaytoken.Config{
			Secrets: r.secrets, Namespace: r.namespace, Ref: next.settings.tokenRef, Now: r.now,
		})
		config.GatewayToken, config.GatewayRefused = next.token.Get, next.token.Refuse
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
	value, former = e.token.Last()
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
