package servingcert

import "context"

// A Publisher puts the authority where those look for it who call the server,
// such as the API server.
type Publisher interface {
	// Publish makes the bundle, one or more PEM certificates, the one to trust. It
	// is called with every check, so it writes only where another one stands.
	Publish(ctx context.Context, bundle []byte) error
}
