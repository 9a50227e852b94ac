package middleware

import (
	"context"
	"net/http"

	"github.com/agentruntime/operator/internal/facade/httpapi"
)

// Middleware puts a concern before a handler.
type Middleware func(http.Handler) http.Handler

// Chain puts the middleware before the handler; the first is the outermost.
func Chain(handler http.Handler, chain ...Middleware) http.Handler {
	for i := len(chain) - 1; i >= 0; i-- {
		handler = chain[i](handler)
	}
	return handler
}

// exchange is one request and its answer, as far as they are known. It belongs to
// the goroutine that serves the request.
type exchange struct {
	info httpapi.Info
	// badID tells that the client's request id can't be used.
	badID bool
	// badBody tells that the client's body was beyond a bound.
	badBody bool
	// cause is why the request failed, for the log.
	cause error
	out   *recorder
}

type exchangeKey struct{}

// withExchange returns a context that carries the exchange and its info.
func withExchange(ctx context.Context, x *exchange) context.Context {
	return httpapi.WithInfo(context.WithValue(ctx, exchangeKey{}, x), &x.info)
}

// exchangeOf returns the exchange that Begin made. A handler that is served without
// Begin gets one that nobody reads.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{out: &recorder{}}
}

// statusClientGone is noted for a request whose client did not wait for an answer.
// It is never sent.
const statusClientGone = 499

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter

	status int
	bytes  int64
}

// WriteHeader notes the first final status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write counts what is written.
func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(data)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets an http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// code is the status for logs and metrics.
func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
