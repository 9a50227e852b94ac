package impersonate

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"github.com/agentruntime/operator/internal/access"
)

// ErrNoUser means that a request was about to be sent as nobody.
var ErrNoUser = errors.New("the request's context has no user to act as")

const headerPrefix = "Impersonate-"

// Options say whom a Transport may act as.
type Options struct {
	// OperatorNamespace is where the operator's own ServiceAccounts are, which are
	// refused.
	OperatorNamespace string
	// Extras are the keys of user extras that are passed on, which the operator's
	// role must let it impersonate; DefaultExtras when nil.
	Extras []string
}

// DefaultExtras are the extras that the API server itself gives to people: the id of
// their credential.
func DefaultExtras() []string { return []string{user.CredentialIDKey} }

// Transport is an http.RoundTripper that sends each request as the user that WithUser
// put into its context. It may be used by many goroutines at once.
type Transport struct {
	base              http.RoundTripper
	operatorNamespace string
	extras            map[string]bool
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport over base, for rest.Config's Wrap.
func New(base http.RoundTripper, options Options) *Transport {
	if options.Extras == nil {
		options.Extras = DefaultExtras()
	}
	extras := make(map[string]bool, len(options.Extras))
	for _, key := range options.Extras {
		extras[key] = true
	}
	return &Transport{base: base, operatorNamespace: options.OperatorNamespace, extras: extras}
}

// WrappedRoundTripper returns the base, for those who look for its TLS settings.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip sends the request as its user. The error is ErrNoUser, or
// access.ErrForbidden for a user who can't be impersonated, and then nothing was sent.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	headers, err := t.headers(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes the body whatever happens
		}
		return nil, err
	}
	sent := r.Clone(r.Context())
	for name := range sent.Header {
		if len(name) >= len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix) {
			delete(sent.Header, name)
		}
	}
	for name, values := range headers {
		sent.Header[name] = values
	}
	return t.base.RoundTrip(sent)
}

func (t *Transport) headers(r *http.Request) (http.Header, error) {
	who, ok := userOf(r.Context())
	if !ok {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrNoUser)
	}
	if err := access.Refused(who, t.operatorNamespace); err != nil {
		return nil, err
	}
	headers := http.Header{transport.ImpersonateUserHeader: {who.Username}}
	if _, _, ok := access.ServiceAccountOf(who.Username); ok {
		// Constrained impersonation takes a ServiceAccount by its name alone; the API
		// server adds its groups.
		if err := onlyBuiltInExtras(who); err != nil {
			return nil, err
		}
	} else if err := t.describe(who, headers); err != nil {
		return nil, err
	}
	return headers, checkValues(headers)
}
