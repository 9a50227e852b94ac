package middleware

import (
	"context"
	"errors"
	"net/http"

	"github.com/agentruntime/operator/internal/facade/wire"
)

// Handle answers a request, or says what to answer.
type Handle func(w http.ResponseWriter, r *http.Request) error

// Answer is the innermost handler: it writes what handle returns as an error.
func Answer(handle Handle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			fail(w, r, err)
		}
	})
}

// fail answers with the error and keeps it for the log. An answer that has begun is
// broken off, so that nobody takes it for a whole one. So is that to a client that
// has gone, or net/http would make an empty success of it; but a body that was cut
// off looks the same to net/http, and its sender is there and is told.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	x.cause = err
	switch {
	case x.out.status != 0:
		panic(http.ErrAbortHandler)
	case !x.badBody && errors.Is(r.Context().Err(), context.Canceled):
		x.out.status = statusClientGone
		panic(http.ErrAbortHandler)
	default:
		wire.Fail(w, tooLate(r.Context(), err))
	}
}

// tooLate tells a handler's failure by the request's time limit apart from others.
func tooLate(ctx context.Context, err error) error {
	if _, told := errors.AsType[*wire.Error](err); told || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return wire.Errorf(wire.CodeDeadlineExceeded, "the request took too long; try again later")
}
