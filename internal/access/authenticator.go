package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/internal/access/memo"
)

// The defaults of what is asked of the API server.
const (
	// DefaultAudience is the audience of tokens made for the facade alone.
	DefaultAudience = "agentruntime-facade"
	// DefaultMaxReviews bounds the questions of one kind that are open at once.
	DefaultMaxReviews = 64
	// CacheTTL is how long an answer counts. The API server itself remembers a token
	// for 10 s, so what is revoked ends within 15 s.
	CacheTTL = 5 * time.Second
	// CacheSize bounds the answers of one kind that are remembered.
	CacheSize = 4096
)

// APIKeys knows the API keys that the operator handed out. The package apikey has
// the one that ships.
type APIKeys interface {
	// Authenticate returns whose key it is. Its errors are those of Authenticator.
	Authenticate(ctx context.Context, key Secret) (Caller, error)
}

// Options say how callers are known.
type Options struct {
	// Reviews makes TokenReviews. Its client needs the verb create on tokenreviews of
	// authentication.k8s.io. Required.
	Reviews authenticationclient.TokenReviewsGetter
	// Keys knows API keys; without it none is accepted.
	Keys APIKeys
	// OperatorNamespace is where the operator's own ServiceAccounts are, which are
	// refused. Required.
	OperatorNamespace string
	// Audience is the facade's own; DefaultAudience when empty. A token is good when
	// it is for this audience or for the API server's.
	Audience string
	// MaxReviews bounds the TokenReviews open at once; DefaultMaxReviews when 0.
	MaxReviews int
	// Clock tells the time; the real one when nil.
	Clock clock.PassiveClock
}

// Authenticator says who sent a request that came straight to the facade. It looks at
// X-API-Key and Authorization only, never at X-Remote headers.
type Authenticator struct {
	tokens            *tokenReviews
	keys              APIKeys
	operatorNamespace string
}

// NewAuthenticator checks the options and returns an Authenticator.
func NewAuthenticator(options Options) (*Authenticator, error) {
	if options.Reviews == nil || options.OperatorNamespace == "" {
		return nil, errors.New("an authenticator needs a client for TokenReviews and the operator's namespace")
	}
	if options.MaxReviews < 0 {
		return nil, errors.New("the bound on TokenReviews must be positive")
	}
	if options.MaxReviews == 0 {
		options.MaxReviews = DefaultMaxReviews
	}
	if options.Audience == "" {
		options.Audience = DefaultAudience
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Authenticator{
		tokens: &tokenReviews{
			reviews:  options.Reviews.TokenReviews(),
			audience: options.Audience,
			answers: memo.New[verdict](memo.Options{
				TTL: CacheTTL, Size: CacheSize, Open: options.MaxReviews, Clock: options.Clock,
			}),
		},
		keys:              options.Keys,
		operatorNamespace: options.OperatorNamespace,
	}, nil
}

// Authenticate returns the caller. The error is an *UnauthenticatedError when the
// request has none, a *ForbiddenError for one who is never served (see Refused), or
// an *UnavailableError when nobody could say. It may be called again for the same
// request, to see whether its credential still counts.
func (a *Authenticator) Authenticate(r *http.Request) (Caller, error) {
	credential, err := CredentialOf(r.Header)
	if err != nil {
		return Caller{}, err
	}
	caller, err := a.identify(r.Context(), credential)
	if err != nil {
		return Caller{}, err
	}
	if err := Refused(caller.User, a.operatorNamespace); err != nil {
		return Caller{}, err
	}
	return caller, nil
}

func (a *Authenticator) identify(ctx context.Context, credential Secret) (Caller, error) {
	if strings.HasPrefix(string(credential), APIKeyPrefix) {
		if a.keys == nil {
			return Caller{}, Invalid(errors.New("API keys are not set up"))
		}
		return a.keys.Authenticate(ctx, credential)
	}
	said, err := a.tokens.authenticate(ctx, credential)
	if err != nil {
		return Caller{}, err
	}
	if !said.valid {
		return Caller{}, Invalid(nil)
	}
	return Caller{User: said.user, Method: MethodToken}, nil
}
