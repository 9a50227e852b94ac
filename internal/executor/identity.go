package executor

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// redacted stands where a secret was (C.8).
const redacted = "[REDACTED]"

// Identity is whom a call is for. However it is printed, encoded or logged, its
// API key does not show.
type Identity struct {
	// APIKey is the credential of the task's user, sent as X-API-Key. Empty sends
	// no such header.
	APIKey string
	// LogID is the id of the request that created the task, sent as X-Tt-Logid
	// when set.
	LogID string
	// TraceParent is the W3C trace context of that request, sent as traceparent when
	// set.
	TraceParent string
	// Account and User name the task's owner, sent when set; an executor trusts
	// them only beside the gateway token.
	Account, User string
	// Secrets are further values that must not show in what the executor says of
	// itself. They are not sent, and do not show either.
	Secrets []string `json:"-"`
}

// String returns the identity with its key redacted.
func (i Identity) String() string {
	return fmt.Sprintf("account=%q user=%q logID=%q traceParent=%q apiKey=%q", i.Account, i.User, i.LogID, i.TraceParent, i.maskedKey())
}

// GoString returns the identity for %#v with its key redacted.
func (i Identity) GoString() string {
	return fmt.Sprintf("executor.Identity{APIKey:%q, LogID:%q, TraceParent:%q, Account:%q, User:%q}",
		i.maskedKey(), i.LogID, i.TraceParent, i.Account, i.User)
}

// MarshalJSON encodes the identity with its key redacted.
func (i Identity) MarshalJSON() ([]byte, error) {
	type plain Identity
	masked := plain(i)
	masked.APIKey = i.maskedKey()
	return json.Marshal(masked)
}

// LogValue returns the identity for structured logs with its key redacted.
func (i Identity) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("account", i.Account),
		slog.String("user", i.User),
		slog.String("logID", i.LogID),
		slog.String("traceParent", i.TraceParent),
		slog.String("apiKey", i.maskedKey()),
	)
}

func (i Identity) maskedKey() string {
	if i.APIKey == "" {
		return ""
	}
	return redacted
}
