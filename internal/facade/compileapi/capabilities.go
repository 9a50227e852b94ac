package compileapi

import (
	"net/http"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// Why nothing can be created (B.7); the last is this server's own word.
const (
	reasonNotConfigured    = "NOT_CONFIGURED"
	reasonAPIKeyRequired   = "API_KEY_REQUIRED"
	reasonPermissionDenied = "PERMISSION_DENIED"
)

// capabilityReport tells a caller whether they can create tasks.
type capabilityReport struct {
	Configured bool `json:"configured"`
	CanCreate  bool `json:"can_create"`
	// ReasonCode is null exactly when CanCreate is true.
	ReasonCode *string `json:"reason_code"`
}

// capabilities answers GET /api/v1/compile/capabilities.
func (a *API) capabilities(w http.ResponseWriter, r *http.Request) error {
	info := httpapi.InfoOf(r.Context())
	runtime, err := a.defaultRuntime(r.Context())
	if err != nil {
		return err
	}
	if runtime == nil {
		return wire.OK(w, http.StatusOK, report(false, reasonNotConfigured))
	}
	if _, err := credentialsFor(runtime, info); err != nil {
		return wire.OK(w, http.StatusOK, report(true, reasonAPIKeyRequired))
	}
	err = a.requireCreate(r.Context(), info, runtime.Name)
	switch {
	case err == nil:
		return wire.OK(w, http.StatusOK, report(true, ""))
	case wire.AsError(err).Code == wire.CodePermissionDenied:
		return wire.OK(w, http.StatusOK, report(true, reasonPermissionDenied))
	}
	return err
}

func report(configured bool, reason string) capabilityReport {
	if reason == "" {
		return capabilityReport{Configured: configured, CanCreate: true}
	}
	return capabilityReport{Configured: configured, ReasonCode: &reason}
}
