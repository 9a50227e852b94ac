// Package facade is the HTTP server in front of the cluster: it puts the routes of
// the dialects on a listener, behind the shared middleware, with health, readiness,
// the OpenAPI document and, for the API server's aggregator, discovery.
//
// A route is served at its path, below /namespaces/{namespace}, and, where it says
// so, below /apis/<group>/<version>/namespaces/{namespace}. An error has the same
// envelope everywhere (compile-api.md, A.2), behind the aggregator too.
package facade
