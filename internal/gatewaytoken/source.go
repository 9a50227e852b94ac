// Package gatewaytoken reads gateway tokens, by which the operator shows servers who
// calls, from Secrets of the operator's namespace.
package gatewaytoken

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
)

const (
	// TTL is how long a token is used before its Secret is read again.
	TTL = 10 * time.Second
	// RefusedTTL is how long one is used that the server refused. It bounds how
	// often many refused calls together have the Secret read.
	RefusedTTL = time.Second

	defaultKey = "token"
)

// ErrUnavailable says that a gateway token can't be read.
var ErrUnavailable = errors.New("gateway token unavailable")

// Config says where a token is.
type Config struct {
	// Secrets reads the Secret, and should not cache: the operator may get
	// Secrets, not list them.
	Secrets client.Reader
	// Namespace is the operator's.
	Namespace string
	// Ref names the Secret, of type v1alpha1.SecretTypeGatewayToken, and its key;
	// an empty key means "token".
	Ref v1alpha1.SecretKeyReference
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Source is a gateway token, read again when it is older than TTL, or than
// RefusedTTL once the server has refused it. It is safe for concurrent use.
type Source struct {
	config Config
	// reading is held by the one caller who reads the Secret for the others.
	reading chan struct{}

	mu      sync.Mutex
	value   string
	readAt  time.Time
	refused bool
	// former is the value before this one: calls made with it may be under way.
	former string
}

// New returns a source that has read nothing yet.
func New(config Config) *Source {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Source{config: config, reading: make(chan struct{}, 1)}
}

// Get returns the token. Its errors wrap ErrUnavailable, and name the Secret: they
// are for whoever runs the operator. A failure is not remembered.
func (s *Source) Get(ctx context.Context) (string, error) {
	if value, ok := s.fresh(); ok {
		return value, nil
	}
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("wait for Secret %s: %w: %w", s.secret(), ErrUnavailable, ctx.Err())
	}
	defer func() { <-s.reading }()
	if value, ok := s.fresh(); ok {
		return value, nil
	}
	// A token is as old as the question it answers.
	asked := s.config.Now()
	value, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	s.keep(value, asked)
	return value, nil
}

// Refuse notes that the server refused a token, unless another has been read since.
func (s *Source) Refuse(sent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent == strings.TrimSpace(s.value) {
		s.refused = true
	}
}

// Last returns the token last read and the one read before it; either is empty when
// there is none.
func (s *Source) Last() (value, former string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.former
}

func (s *Source) fresh() (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ttl := TTL
	if s.refused {
		ttl = RefusedTTL
	}
	return s.value, s.value != "" && s.config.Now().Sub(s.readAt) < ttl
}

func (s *Source) keep(value string, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value != s.value {
		s.former = s.value
	}
	s.value, s.readAt, s.refused = value, asked, false
}

func (s *Source) read(ctx context.Context) (string, error) {
	var secret corev1.Secret
	key := s.secret()
	if err := s.config.Secrets.Get(ctx, key, &secret); err != nil {
		return "", fmt.Errorf("read Secret %s: %w: %w", key, ErrUnavailable, err)
	}
	if secret.Type != v1alpha1.SecretTypeGatewayToken {
		return "", fmt.Errorf("Secret %s has type %q, want %q: %w", key, secret.Type, v1alpha1.SecretTypeGatewayToken, ErrUnavailable)
	}
	field := cmp.Or(s.config.Ref.Key, defaultKey)
	value := string(secret.Data[field])
	if value == "" {
		return "", fmt.Errorf("Secret %s has nothing under key %q: %w", key, field, ErrUnavailable)
	}
	return value, nil
}

func (s *Source) secret() types.NamespacedName {
	return types.NamespacedName{Namespace: s.config.Namespace, Name: s.config.Ref.Name}
}
