package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access/memo"
)

// CachedAuthorizer is an Authorizer that remembers what another one answered, yes and
// no alike, for CacheTTL. It is for what is asked with every read. What decides over
// credentials is asked of SubjectAccessReviews itself.
type CachedAuthorizer struct {
	inner   Authorizer
	answers *memo.Memo[opinion]
}

type opinion struct {
	allowed bool
	reason  string
}

var _ Authorizer = (*CachedAuthorizer)(nil)

// NewCachedAuthorizer returns a CachedAuthorizer over inner, with at most maxReviews
// questions open at once (DefaultMaxReviews when not positive) and CacheSize answers
// of a kind. The clock is the real one when nil.
func NewCachedAuthorizer(inner Authorizer, maxReviews int, now clock.PassiveClock) *CachedAuthorizer {
	if maxReviews <= 0 {
		maxReviews = DefaultMaxReviews
	}
	if now == nil {
		now = clock.RealClock{}
	}
	return &CachedAuthorizer{inner: inner, answers: memo.New[opinion](memo.Options{
		TTL: CacheTTL, Size: CacheSize, Open: maxReviews, Clock: now,
	})}
}

// Allowed implements Authorizer. Every error is an *UnavailableError, and none is
// remembered.
func (c *CachedAuthorizer) Allowed(ctx context.Context, user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error) {
	key, err := questionKey(user, attrs)
	if err != nil {
		return false, "", &UnavailableError{Action: "review access", Err: err}
	}
	answer, err := c.answers.Do(ctx, key, func(ctx context.Context) (memo.Answer[opinion], error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		allowed, reason, err := c.inner.Allowed(ctx, user, attrs)
		return memo.Answer[opinion]{Value: opinion{allowed: allowed, reason: reason}, Good: allowed}, err
	})
	if err != nil {
		return false, "", &UnavailableError{Action: "review access", Err: err}
	}
	return answer.allowed, answer.reason, nil
}

// questionKey tells questions apart by all that an authorizer may look at.
func questionKey(user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (string, error) {
	question, err := json.Marshal(struct {
		User  v1alpha1.Requester
		Attrs authorizationv1.ResourceAttributes
	}{user, attrs})
	if err != nil {
		return "", fmt.Errorf("encode the question: %w", err)
	}
	// Users may have hundreds of groups; the digest bounds what is kept.
	digest := sha256.Sum256(question)
	return string(digest[:]), nil
}
