package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// proxyHeaders are set by reverse proxies. A request that has one comes from
// somewhere else than the connection tells, so it is no loopback caller.
var proxyHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"}

// gateway decides who may talk to the server at all (A.7).
type gateway struct {
	loopbackListener bool
	trustLoopback    bool
	tokens           func() []string
}

// pass reports whether the caller's identity headers are to be trusted, or why
// the caller may not go on.
func (g *gateway) pass(r *http.Request) (trusted bool, err error) {
	tokens := g.tokens()
	shown := r.Header.Get(runtimeapi.HeaderGatewayToken)
	known := shown != "" && oneOf(tokens, shown)
	switch {
	case known:
		return true, nil
	case shown != "" && len(tokens) > 0:
		// On loopback too, which needs none: this caller believes that it is
		// trusted, and would be told that a credential is missing.
		e := refuse(runtimeapi.CodePermissionDenied, "The gateway token is not valid.")
		e.challenge = true
		return false, e
	case g.loopbackListener && fromLoopback(r):
		return g.trustLoopback, nil
	case len(tokens) == 0:
		return false, refuse(runtimeapi.CodeUnavailable,
			"No gateway token is configured, so only loopback callers are served.")
	default:
		e := refuse(runtimeapi.CodeUnauthenticated, "A gateway token is required.")
		e.challenge = true
		return false, e
	}
}

// oneOf compares in constant time. Hashes hide the lengths too.
func oneOf(tokens []string, shown string) bool {
	given := sha256.Sum256([]byte(shown))
	found := 0
	for _, t := range tokens {
		want := sha256.Sum256([]byte(t))
		found |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	return found == 1
}

func fromLoopback(r *http.Request) bool {
	for _, h := range proxyHeaders {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

type trustKey struct{}

// guard lets through only callers that pass the gateway rule.
func (g *gateway) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trusted, err := g.pass(r)
		if err != nil {
			writeErrorFor(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), trustKey{}, trusted)))
	})
}

// headersTrusted reports what guard found out.
func headersTrusted(ctx context.Context) bool {
	trusted, _ := ctx.Value(trustKey{}).(bool)
	return trusted
}
