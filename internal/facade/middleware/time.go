package middleware

import (
	"context"
	"io"
	"net/http"
	"time"
)

// ConnectionTime bounds how long a client may take to send its body and to take its
// answer. It stands before authentication, for net/http itself reads what is left of
// a body that nobody wanted, and would wait for it for ever. A stream sets its own
// bound with every event.
func ConnectionTime(body, answer time.Duration) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			now := time.Now()
			// A writer without deadlines, as in tests, needs none.
			_ = control.SetWriteDeadline(now.Add(answer))
			if r.Body != nil && r.Body != http.NoBody {
				_ = control.SetReadDeadline(now.Add(body))
				// The request is this chain's own copy, which Begin made.
				r.Body = &timedBody{ReadCloser: r.Body, control: control}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// timedBody takes the bound off the connection when the body is there: net/http
// then watches it for the client's leaving, and would take the bound for that.
type timedBody struct {
	io.ReadCloser

	control *http.ResponseController
}

// Read reads from the body.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Timeout bounds the whole of a request that is no stream.
func Timeout(limit time.Duration) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
