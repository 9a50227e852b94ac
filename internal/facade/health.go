package facade

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// readyRetry is when to ask again whether the server is ready.
const readyRetry = time.Second

// healthRoutes tell anyone whether the process lives and whether it is ready. They
// say nothing of who asks.
func (s *Server) healthRoutes() []httpapi.Route {
	return []httpapi.Route{
		open("health", "/health", s.health),
		open("health.healthz", "/healthz", plain(`{"status":"ok"}`)),
		open("health.livez", "/livez", plain(`{"status":"ok"}`)),
		open("health.readyz", "/readyz", s.readyz),
	}
}

// health answers in the shape that OpenViking's clients look for, with the version.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	body, err := json.Marshal(struct {
		Status  string `json:"status"`
		Healthy bool   `json:"healthy"`
		Version string `json:"version,omitempty"`
	}{"ok", true, s.config.Version})
	if err != nil {
		return fmt.Errorf("encode the health: %w", err)
	}
	wire.Body(w, http.StatusOK, body)
	return nil
}

func open(name, path string, handle func(http.ResponseWriter, *http.Request) error) httpapi.Route {
	return httpapi.Route{Name: name, Method: http.MethodGet, Path: path, Open: true, Handle: handle}
}

func plain(body string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		wire.Body(w, http.StatusOK, []byte(body))
		return nil
	}
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.Ready(); err != nil {
		// What exactly is wrong may name objects; which check it is may be told.
		answer := wire.Unavailable("the server is not ready", "facade", "not ready")
		if check, ok := errors.AsType[*notReadyError](err); ok {
			answer.Details["reason"] = check.name
		}
		answer.RetryAfter = readyRetry
		return fmt.Errorf("%w: %w", answer, err)
	}
	return plain(`{"status":"ok"}`)(w, r)
}

// notReadyError is a condition of readiness that does not hold.
type notReadyError struct {
	name string
	err  error
}

// Error tells which one, and what is wrong.
func (e *notReadyError) Error() string { return "not ready: " + e.name + ": " + e.err.Error() }

// Unwrap returns what is wrong.
func (e *notReadyError) Unwrap() error { return e.err }

// Ready returns nil while the server should be sent requests: it serves and does not
// stop, its checks hold, and the API server was reached within the last 30 s.
func (s *Server) Ready() error {
	switch {
	case !s.serving.Load():
		return &notReadyError{"listener", errors.New("nothing is served yet")}
	case s.unready.Load():
		return &notReadyError{"stopping", errors.New("the server stops")}
	}
	for _, check := range s.config.Checks {
		if err := check.Ready(); err != nil {
			return &notReadyError{check.Name, err}
		}
	}
	if err := s.probe.ready(time.Now()); err != nil {
		return &notReadyError{"API server", err}
	}
	return nil
}
