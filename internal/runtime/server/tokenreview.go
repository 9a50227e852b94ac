package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// How long and how much a TokenReviewer remembers.
const (
	goodTokenTTL   = 10 * time.Second
	badTokenTTL    = 2 * time.Second
	rememberTokens = 4096
	reviewTimeout  = 10 * time.Second
)

// anonymousUser is whom an API server names when it asked nobody.
const anonymousUser = "system:anonymous"

// TokenReviewer checks tokens by TokenReview. It remembers answers for a few
// seconds, good ones for ten, by the token's hash; a revoked token is therefore
// good for ten seconds more at most. It is a TokenVerifier.
type TokenReviewer struct {
	reviews   authenticationclient.TokenReviewInterface
	audiences []string
	answers   *cache.LRUExpireCache
	flights   singleflight.Group
}

// NewTokenReviewer returns a reviewer for tokens of an audience; an empty one
// means the API server's own.
func NewTokenReviewer(reviews authenticationclient.TokenReviewInterface, audience string) *TokenReviewer {
	t := &TokenReviewer{reviews: reviews, answers: cache.NewLRUExpireCache(rememberTokens)}
	if audience != "" {
		t.audiences = []string{audience}
	}
	return t
}

// Verify implements TokenVerifier.
func (t *TokenReviewer) Verify(ctx context.Context, token string) (string, error) {
	sum := sha256.Sum256([]byte(token))
	if name, known := t.answers.Get(sum); known {
		return asAnswer(name)
	}
	// Several requests with one token ask once. The question outlives the
	// request that asked first, for the others wait for it too.
	flight := t.flights.DoChan(string(sum[:]), func() (any, error) {
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		name, err := t.review(asked, token)
		if err != nil {
			return "", err
		}
		ttl := goodTokenTTL
		if name == "" {
			ttl = badTokenTTL
		}
		t.answers.Add(sum, name, ttl)
		return name, nil
	})
	select {
	case got := <-flight:
		if got.Err != nil {
			return "", got.Err
		}
		return asAnswer(got.Val)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// asAnswer turns a remembered name into Verify's answer; "" is a bad token.
func asAnswer(remembered any) (string, error) {
	if name, ok := remembered.(string); ok && name != "" {
		return name, nil
	}
	return "", ErrBadToken
}

// review asks the API server; the name is empty when the token is not good.
func (t *TokenReviewer) review(ctx context.Context, token string) (string, error) {
	review, err := t.reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("review token: %w", err)
	}
	status := review.Status
	switch {
	case !status.Authenticated || status.User.Username == anonymousUser:
		return "", nil
	case status.User.Username == "":
		return "", errors.New("review token: no user name in the answer")
	case len(t.audiences) > 0 && !slices.Contains(status.Audiences, t.audiences[0]):
		// An authenticator that knows no audiences vouches for any token.
		return "", nil
	}
	return status.User.Username, nil
}
