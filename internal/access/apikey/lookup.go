package apikey

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/memo"
)

// getTimeout bounds one read of a Secret.
const getTimeout = 10 * time.Second

// Secrets gets Secrets of the operator's namespace, live. client-go's SecretInterface
// for that namespace is one; its client needs the verb get on secrets there, and
// neither list nor watch.
type Secrets interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error)
}

// Lookup says whose key a key is. It remembers what it read, and what it did not find,
// for access.CacheTTL: a revoked key ends, and a new one begins, within that time.
type Lookup struct {
	secrets Secrets
	answers *memo.Memo[finding]
	clock   clock.PassiveClock
}

// finding is what a key's Secret said: a grant, or why there is none.
type finding struct {
	grant Grant
	err   error
}

var _ access.APIKeys = (*Lookup)(nil)

// NewLookup returns a Lookup that has at most maxReads reads open at once
// (access.DefaultMaxReviews when not positive). The clock is the real one when nil.
func NewLookup(secrets Secrets, maxReads int, now clock.PassiveClock) *Lookup {
	if maxReads <= 0 {
		maxReads = access.DefaultMaxReviews
	}
	if now == nil {
		now = clock.RealClock{}
	}
	return &Lookup{secrets: secrets, clock: now, answers: memo.New[finding](memo.Options{
		TTL: access.CacheTTL, Size: access.CacheSize, Open: maxReads, Clock: now,
	})}
}

// Authenticate implements access.APIKeys. Expiry counts at each call, whatever is
// remembered. A Secret that is there but faulty is an unknown key to the client; its
// faults are the error's cause.
func (l *Lookup) Authenticate(ctx context.Context, key access.Secret) (access.Caller, error) {
	if !WellFormed(key) {
		return access.Caller{}, access.Invalid(errors.New("no API key has that form"))
	}
	digest := digestOf(key)
	found, err := l.answers.Do(ctx, digest, func(ctx context.Context) (memo.Answer[finding], error) {
		found, err := l.read(ctx, digest)
		return memo.Answer[finding]{Value: found, Good: found.err == nil}, err
	})
	if err != nil {
		return access.Caller{}, &access.UnavailableError{Action: "look up an API key", Err: err}
	}
	if found.err != nil {
		return access.Caller{}, found.err
	}
	if found.grant.Expired(l.clock.Now()) {
		return access.Caller{}, &access.UnauthenticatedError{
			Reason:  access.ReasonExpired,
			Message: fmt.Sprintf("the API key expired at %s", found.grant.Expires.UTC().Format(time.RFC3339)),
		}
	}
	return access.Caller{
		User:      found.grant.User(),
		Method:    access.MethodAPIKey,
		Namespace: found.grant.Namespace,
		Forward:   found.grant.ForwardKey,
	}, nil
}

// read gets the key's Secret. The error means that nobody could say.
func (l *Lookup) read(ctx context.Context, digest string) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	secret, err := l.secrets.Get(ctx, nameOf(digest), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return finding{err: access.Invalid(errors.New("there is no such API key"))}, nil
	}
	if err != nil {
		return finding{}, err
	}
	// The hash comes first: nothing is told to someone who does not hold the key.
	if !fits(secret, digest) {
		return finding{err: access.Invalid(fmt.Errorf("Secret %s does not hold the key's SHA-256", secret.Name))}, nil
	}
	grant, err := Decode(secret)
	if forbidden, ok := errors.AsType[*access.ForbiddenError](err); ok {
		return finding{err: forbidden}, nil
	}
	if err != nil {
		return finding{err: access.Invalid(err)}, nil
	}
	return finding{grant: grant}, nil
}
