// Package openapi is the description of everything that the facade serves directly,
// as an OpenAPI 3.1 document. What differs between operations is written in
// openapi.yaml; what all of them share, such as the request id, the answers to
// strangers and the paths below /namespaces/{namespace}, is added when the document
// is made. A test keeps it in step with the routes.
package openapi
