package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access/memo"
)

// reviewTimeout bounds one question to the API server, which answers from memory.
const reviewTimeout = 10 * time.Second

// verdict is what a TokenReview said.
type verdict struct {
	user  v1alpha1.Requester
	valid bool
}

// tokenReviews asks the API server whose a token is. k8s.io/apiserver's delegating
// authenticator is not used here, because it can't tell a refused token from an API
// server that gave no answer: refused ones would then not be cached, and an outage
// would answer 401.
type tokenReviews struct {
	reviews  authenticationclient.TokenReviewInterface
	audience string
	answers  *memo.Memo[verdict]
}

// authenticate returns the token's user, and false for a token that is no good. An
// error means that nobody could say.
func (t *tokenReviews) authenticate(ctx context.Context, token Secret) (verdict, error) {
	// The token itself is not kept.
	key := sha256.Sum256([]byte(token))
	answer, err := t.answers.Do(ctx, string(key[:]), func(ctx context.Context) (memo.Answer[verdict], error) {
		said, err := t.ask(ctx, token)
		return memo.Answer[verdict]{Value: said, Good: said.valid}, err
	})
	if err != nil {
		return verdict{}, &UnavailableError{Action: "review a token", Err: err}
	}
	return answer, nil
}

// ask asks about one audience, the one that the token claims to be for: the facade's
// own, or else the API server's, which a review without audiences stands for. The
// claim only chooses the question, the API server judges. The second question is for
// a token of an OIDC client that has the facade's name, which the API server knows
// as one of its own audience.
func (t *tokenReviews) ask(ctx context.Context, token Secret) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if slices.Contains(claimedAudiences(token), t.audience) {
		said, err := t.review(ctx, token, t.audience)
		if err != nil || said.valid {
			return said, err
		}
	}
	return t.review(ctx, token)
}

func (t *tokenReviews) review(ctx context.Context, token Secret, audiences ...string) (verdict, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token), Audiences: audiences}}
	answer, err := t.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, err
	}
	status := answer.Status
	if !status.Authenticated || status.User.Username == "" {
		return verdict{}, nil
	}
	return verdict{user: requesterOf(status.User), valid: true}, nil
}

func requesterOf(info authenticationv1.UserInfo) v1alpha1.Requester {
	who := v1alpha1.Requester{Username: info.Username, UID: info.UID, Groups: Authenticated(info.Groups)}
	if len(info.Extra) > 0 {
		who.Extra = make(map[string]v1alpha1.ExtraValue, len(info.Extra))
		for key, values := range info.Extra {
			who.Extra[key] = v1alpha1.ExtraValue(values)
		}
	}
	return who
}

// claimedAudiences returns the audiences that a JSON Web Token names, unverified; nil
// for any other token.
func claimedAudiences(token Secret) []string {
	const jwtParts = 3
	parts := strings.Split(string(token), ".")
	if len(parts) != jwtParts {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audience audiences `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	return claims.Audience
}

// audiences is one audience or a list of them (RFC 7519, 4.1.3).
type audiences []string

// UnmarshalJSON takes both forms.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}
