package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

const (
	headerOrigin        = "Origin"
	headerRequestMethod = "Access-Control-Request-Method"
	headerAllowOrigin   = "Access-Control-Allow-Origin"

	anyOrigin = "*"

	corsMethods = "GET, HEAD, POST"
	corsHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Traceparent, " +
		"X-API-Key, X-OpenViking-Account, X-OpenViking-Actor-Peer, X-OpenViking-Agent, X-OpenViking-Role, " +
		"X-OpenViking-User, X-Request-ID"
	corsExposed = "ETag, Retry-After, X-Request-ID"
	// corsMaxAge is how long a browser may remember a preflight, in seconds.
	corsMaxAge = "600"
)

// CORS lets pages of other origins call the API from a browser.
type CORS struct {
	origins map[string]bool
	any     bool
}

// NewCORS checks the origins, such as "https://app.example.com"; "*" stands for all.
// None means that no page of another origin may call.
func NewCORS(origins []string) (*CORS, error) {
	c := &CORS{origins: map[string]bool{}}
	var faults []error
	for _, origin := range origins {
		if origin == anyOrigin {
			c.any = true
			continue
		}
		parsed, err := url.Parse(origin)
		if err != nil || parsed.Scheme == "" || parsed.Host == "" || parsed.Scheme+"://"+parsed.Host != origin {
			faults = append(faults, fmt.Errorf("allowed origin %q: use a scheme and a host, such as https://app.example.com", origin))
			continue
		}
		c.origins[strings.ToLower(origin)] = true
	}
	return c, errors.Join(faults...)
}

// Wrap answers preflights, which carry no credentials, and marks all other answers.
// Credentials that a browser adds by itself are never allowed: callers show theirs
// in a header.
func (c *CORS) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if !c.any {
			header.Add("Vary", headerOrigin)
		}
		allowed := c.allow(r.Header.Values(headerOrigin))
		if allowed != "" {
			header.Set(headerAllowOrigin, allowed)
			header.Set("Access-Control-Expose-Headers", corsExposed)
		}
		if r.Method != http.MethodOptions || r.Header.Get(headerOrigin) == "" || r.Header.Get(headerRequestMethod) == "" {
			next.ServeHTTP(w, r)
			return
		}
		header.Add("Vary", "Access-Control-Request-Method")
		header.Add("Vary", "Access-Control-Request-Headers")
		if allowed != "" {
			header.Set("Access-Control-Allow-Methods", corsMethods)
			header.Set("Access-Control-Allow-Headers", corsHeaders)
			header.Set("Access-Control-Max-Age", corsMaxAge)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// allow returns what Access-Control-Allow-Origin says, empty when it is not sent.
func (c *CORS) allow(origins []string) string {
	if len(origins) != 1 {
		return ""
	}
	if c.any {
		return anyOrigin
	}
	if c.origins[strings.ToLower(origins[0])] {
		return origins[0]
	}
	return ""
}
