package middleware

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/agentruntime/operator/internal/facade/httpapi"
)

// Begin makes the exchange of a request: its id, which every answer carries, and its
// trace context. A request id that can't be used is replaced here and refused by
// CheckRequestID, after authentication, as B.3 of compile-api.md has it.
func Begin(aggregated bool, draining <-chan struct{}) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, ok := requestID(r.Header)
			x := &exchange{
				info: httpapi.Info{
					ID: id, TraceParent: traceParent(r.Header), Aggregated: aggregated, Draining: draining,
				},
				badID: !ok,
				out:   &recorder{ResponseWriter: w},
			}
			w.Header().Set(HeaderRequestID, id)
			next.ServeHTTP(x.out, r.WithContext(withExchange(r.Context(), x)))
		})
	}
}

// newID returns a random UUID of version 4. It can't fail: without randomness the
// process ends.
func newID() string { return uuid.NewString() }
