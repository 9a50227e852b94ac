package facade

import (
	"net/http"
	"time"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/middleware"
)

// answerTime is how much longer than the request itself the taking of its answer may
// last: a request that took too long is told so.
const answerTime = 10 * time.Second

// chain puts the middleware before a route. This is the one place that says in which
// order a request is judged:
//
//  1. It gets its id and is logged, counted and guarded against panics, whatever
//     becomes of it.
//  2. The connection's time is bounded before anyone waits for a byte.
//  3. A preflight is answered: browsers send no credentials with it.
//  4. The caller is authenticated, then counted against their limits, then led to
//     the namespace, each before any byte of the body is read (B.3, step 1).
//  5. The syntax of the request id is judged only now (B.3, step 2), so a stranger
//     learns nothing but 401.
//  6. The handler runs within its time, with a body within its bounds.
//
// The aggregator's callers are no browsers; the API server answers those.
func (s *Server) chain(route httpapi.Route, aggregated bool) http.Handler {
	chain := []middleware.Middleware{
		middleware.Begin(aggregated, s.draining),
		middleware.Log(s.config.Logger, route.Name, route.Open),
		s.metrics.Observe(route.Name, route.Stream),
		middleware.Recover(s.config.Logger),
		middleware.SecurityHeaders,
		middleware.ConnectionTime(s.config.Times.Body, s.config.Times.Request+answerTime),
	}
	authenticator := s.config.Authenticator
	if aggregated {
		authenticator = s.config.Aggregated.Authenticator
	} else {
		chain = append(chain, s.cors.Wrap)
	}
	if !route.Open {
		chain = append(chain,
			middleware.Authenticate(authenticator),
			s.limiter.Wrap,
			middleware.Namespace(s.config.DefaultNamespace))
	}
	chain = append(chain, middleware.CheckRequestID)
	if !route.Stream {
		chain = append(chain, middleware.Timeout(s.config.Times.Request))
	}
	return middleware.Chain(middleware.Answer(s.bodies.Wrap(route.MaxBody, route.Handle)), chain...)
}
