package access

import (
	"fmt"
	"log/slog"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Method is how a caller showed who they are.
type Method string

// The methods of authentication.
const (
	// MethodToken is a token of the cluster, checked by a TokenReview.
	MethodToken Method = "token"
	// MethodAPIKey is an opaque key that the operator handed out.
	MethodAPIKey Method = "api-key"
	// MethodFrontProxy is a request that the API server's aggregator passed on.
	MethodFrontProxy Method = "front-proxy"
)

// Caller is who sent a request, once that is known.
type Caller struct {
	// User is the caller as Kubernetes knows them.
	User v1alpha1.Requester
	// Method is how they showed it.
	Method Method
	// Namespace is the one that the caller's API key is for, which it can't leave;
	// empty for every other method.
	Namespace string
	// Forward is the key that the caller's API key has the operator send on to
	// executors and content stores; empty when it has none.
	Forward Secret
}

// Secret is a text that does not show however it is printed, encoded or logged.
// Convert it to a string to use it.
type Secret string

const hidden = "[REDACTED]"

// String hides the secret.
func (Secret) String() string { return hidden }

// Format hides the secret under every verb.
func (Secret) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, hidden) }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
