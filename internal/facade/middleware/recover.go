package middleware

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Recover answers INTERNAL for a handler that panics, and logs where it did. What it
// panicked with is logged only when the Go runtime made it, for anything else could
// hold content of the request. http.ErrAbortHandler passes.
func Recover(logger *slog.Logger) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if value := recover(); value != nil {
					recovered(logger, w, r, value)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

func recovered(logger *slog.Logger, w http.ResponseWriter, r *http.Request, value any) {
	err, isError := value.(error)
	if isError && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	text := fmt.Sprintf("%T", value)
	if fault, ok := value.(runtime.Error); ok {
		text = fault.Error()
	}
	logger.ErrorContext(r.Context(), "Handler panicked",
		"requestID", exchangeOf(r.Context()).info.ID, "panic", text, "stack", string(debug.Stack()))
	fail(w, r, errPanic)
}

var errPanic = errors.New("the handler panicked")
