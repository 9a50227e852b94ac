// Package interop holds the REST API against clients that this project did not write
// it for: OpenViking's Python SDK as it is published, clients in TypeScript and Go
// that know the wire alone, arctl, and schemathesis with the API's own document. They
// all call one running operator, over TLS and with real API keys.
//
// Python and Node.js are needed, so `make interop` runs it and `make test` does not.
package interop
