package facade

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	// namespacePrefix stands before a route's path to name the namespace.
	namespacePrefix = "/namespaces/{namespace}"
	// maxPathBytes bounds a path as it is sent; no route comes near.
	maxPathBytes = 4 << 10
	// maxPathShown bounds what an answer repeats of a path.
	maxPathShown = 256
	// routeUnknown is the name of all requests that no route is for.
	routeUnknown = "unknown"
)

// router finds the handler of a request. http.ServeMux does the matching; it is kept
// from answering anything itself, for its redirects lose a POST and its errors have
// no envelope.
type router struct {
	mux     *http.ServeMux
	unknown http.Handler
}

// newRouter mounts the handlers by pattern and method.
func (s *Server) newRouter(mounted mounts) *router {
	r := &router{mux: http.NewServeMux(), unknown: s.chain(unknownRoute(), false)}
	r.mux.Handle("/", r.unknown)
	if s.config.Aggregated != nil {
		// Whoever comes by the aggregator is known by it alone.
		r.mux.Handle(discoveryPrefix+"/", s.chain(unknownRoute(), true))
	}
	for pattern, at := range mounted {
		r.mux.Handle(pattern, at.handler(s))
	}
	return r
}

// ServeHTTP serves a path as it stands, but for one slash at its end, which is
// ignored. A path with empty or dotted segments is no path of ours.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	escaped := request.URL.EscapedPath()
	trimmed := strings.TrimSuffix(escaped, "/")
	switch {
	case escaped == "" || escaped[0] != '/', len(escaped) > maxPathBytes, trimmed != "" && path.Clean(trimmed) != trimmed:
		r.unknown.ServeHTTP(w, request)
	case trimmed != escaped && trimmed != "":
		r.mux.ServeHTTP(w, withPath(request, trimmed))
	default:
		r.mux.ServeHTTP(w, request)
	}
}

// withPath returns the request with another path, given as it is sent.
func withPath(request *http.Request, escaped string) *http.Request {
	out := *request
	location := *request.URL
	location.Path, location.RawPath = strings.TrimSuffix(location.Path, "/"), ""
	if (&url.URL{Path: location.Path}).EscapedPath() != escaped {
		location.RawPath = escaped
	}
	out.URL = &location
	return &out
}

// mounts are all routes by their pattern.
type mounts map[string]*mount

// mount is what is served under one pattern, by method.
type mount struct {
	routes     map[string]httpapi.Route
	aggregated bool
}

// add mounts a route. Two routes of one pattern must differ in their method.
func (m mounts) add(pattern string, route httpapi.Route, aggregated bool) error {
	at, ok := m[pattern]
	if !ok {
		at = &mount{routes: map[string]httpapi.Route{}, aggregated: aggregated}
		m[pattern] = at
	}
	if other, taken := at.routes[route.Method]; taken {
		return fmt.Errorf("mount %s: %s and %s are both for %s", pattern, other.Name, route.Name, route.Method)
	}
	at.routes[route.Method] = route
	return nil
}

// addDirect mounts a route on the facade's own paths.
func (m mounts) addDirect(route httpapi.Route) error {
	if err := m.add(route.Path, route, false); err != nil || route.Open {
		return err
	}
	return m.add(namespacePrefix+route.Path, route, false)
}

// handler answers by method. HEAD is served wherever GET is, but for streams, which
// have no end that one could wait for.
func (m *mount) handler(s *Server) http.Handler {
	methods := map[string]http.Handler{}
	for method, route := range m.routes {
		methods[method] = s.chain(route, m.aggregated)
		if method == http.MethodGet && !route.Stream {
			methods[http.MethodHead] = methods[method]
		}
	}
	notAllowed := s.chain(notAllowedRoute(slices.Sorted(maps.Keys(methods))), m.aggregated)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler, ok := methods[r.Method]; ok {
			handler.ServeHTTP(w, r)
			return
		}
		notAllowed.ServeHTTP(w, r)
	})
}

// unknownRoute answers whatever no route is for, once the caller is known.
func unknownRoute() httpapi.Route {
	return httpapi.Route{Name: routeUnknown, Handle: func(_ http.ResponseWriter, r *http.Request) error {
		shown := r.URL.EscapedPath()
		if len(shown) > maxPathShown {
			shown = shown[:maxPathShown] + "…"
		}
		return wire.NotFound("No such route; see /openapi.json", shown, "route")
	}}
}

// notAllowedRoute answers a method that a known path does not have.
func notAllowedRoute(methods []string) httpapi.Route {
	allow := strings.Join(methods, ", ")
	return httpapi.Route{Name: routeUnknown, Handle: func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Allow", allow)
		return &wire.Error{Code: wire.CodeUnknown, Message: "Method Not Allowed", Status: http.StatusMethodNotAllowed}
	}}
}
