package middleware

import (
	"log/slog"
	"net/http"
	"time"
)

// Log writes one line for every request, once it is answered. It names the route and
// never the path, the query, a header or a body. Quiet is for routes that probes
// call all the time: they are logged at debug level unless they fail.
func Log(logger *slog.Logger, route string, quiet bool) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin := time.Now()
			// Deferred, for an answer that is broken off is logged too.
			defer func() { logRequest(logger, route, quiet, r, time.Since(begin)) }()
			next.ServeHTTP(w, r)
		})
	}
}

func logRequest(logger *slog.Logger, route string, quiet bool, r *http.Request, took time.Duration) {
	x, ctx := exchangeOf(r.Context()), r.Context()
	code := x.out.code()
	level := slog.LevelInfo
	switch {
	case code >= http.StatusInternalServerError, x.cause != nil && code < http.StatusBadRequest:
		// The second is an answer that had to be broken off.
		level = slog.LevelError
	case quiet && code < http.StatusBadRequest:
		level = slog.LevelDebug
	}
	if !logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 11)
	attrs = append(attrs,
		slog.String("requestID", x.info.ID), slog.String("route", route), slog.String("method", knownMethod(r.Method)),
		slog.Int("code", code), slog.Int64("bytes", x.out.bytes), slog.Float64("durationSeconds", took.Seconds()),
		slog.String("user", x.info.Caller.User.Username), slog.String("namespace", x.info.Namespace),
		slog.Bool("aggregated", x.info.Aggregated))
	// Only what is the server's own fault: a client's error may repeat its request.
	if level == slog.LevelError && x.cause != nil {
		attrs = append(attrs, slog.String("error", x.cause.Error()))
	}
	logger.LogAttrs(ctx, level, "Request served", attrs...)
}

// knownMethod keeps what a client calls its method out of the log.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
