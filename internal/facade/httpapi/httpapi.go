// Package httpapi is what the facade's dialects and its shared middleware agree
// on: what a route is, and what a handler may know of the request it serves.
package httpapi

import (
	"context"
	"net/http"

	"github.com/agentruntime/operator/internal/access"
)

// Route is one operation of a dialect.
type Route struct {
	// Name stands for the route in metrics, logs and the OpenAPI document:
	// "compile.create".
	Name   string
	Method string
	// Path is the route's path on the facade's own listener, as a pattern of
	// http.ServeMux: "/api/v1/tasks/{task_id}". It is served below
	// "/namespaces/{namespace}" too.
	Path string
	// Aggregated is the route's path below
	// "/apis/<group>/<version>/namespaces/{namespace}"; empty for a route that is
	// not mounted there.
	Aggregated string
	// Stream marks a route whose answer may last: it is exempt from the bound on
	// a whole request, and ends when the server drains.
	Stream bool
	// Open marks a route that needs no caller.
	Open bool
	// MaxBody bounds the request's body in bytes; 0 means that a body is ignored.
	MaxBody int64
	// Handle answers. What it returns is written as an error, if nothing was
	// written yet.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// Info is what is known of a request by the time its handler runs.
type Info struct {
	// ID is the request's id, the client's own or a new one (compile-api.md, A.4).
	ID string
	// TraceParent is the client's W3C trace context, or a new one.
	TraceParent string
	// Caller is who asks; the zero Caller on a route that is open.
	Caller access.Caller
	// Namespace is where the request is for (DESIGN.md, "Who may do what", 2).
	Namespace string
	// Aggregated tells that the request came through the API server's aggregator.
	Aggregated bool
	// Draining is closed when the server stops: long answers must end then.
	Draining <-chan struct{}
	// Recheck authenticates the request again, for an answer that lasts. Its error
	// is fit for the client.
	Recheck func(ctx context.Context) error
}

type infoKey struct{}

// WithInfo returns a context that carries info.
func WithInfo(ctx context.Context, info *Info) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// InfoOf returns what WithInfo put in, and the zero Info where it did not.
func InfoOf(ctx context.Context) *Info {
	if info, ok := ctx.Value(infoKey{}).(*Info); ok {
		return info
	}
	return &Info{}
}
