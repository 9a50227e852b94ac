package server

import (
	"errors"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Probe routes, open to anyone.
const (
	PathHealth = "/healthz"
	PathReady  = "/readyz"
)

// bodyTimeout bounds how long a client may take to send its body, and to take
// an answer once there is one.
const bodyTimeout = 30 * time.Second

// routes is where the order of the layers stands: panics, then the gateway rule,
// then a route, which finds the user before it reads the body.
func (s *Server) routes() http.Handler {
	protocol := http.NewServeMux()
	protocol.HandleFunc("POST "+runtimeapi.PathTasks, s.handleCreate)
	protocol.HandleFunc("POST "+runtimeapi.PathStatus, s.handleStatus)
	protocol.HandleFunc("POST "+runtimeapi.PathCancel, s.handleCancel)
	for _, path := range []string{runtimeapi.PathTasks, runtimeapi.PathStatus, runtimeapi.PathCancel} {
		protocol.HandleFunc(path, methodNotAllowed(http.MethodPost))
	}
	s.fileRoutes(protocol)
	protocol.HandleFunc("/", handleUnknown)

	root := http.NewServeMux()
	root.HandleFunc("GET "+PathHealth, s.handleHealth)
	root.HandleFunc("GET "+PathReady, s.handleReady)
	root.Handle("/", announceHolds(s.gateway.guard(protocol)))
	return s.recovered(root)
}

// announceHolds says on every answer of the status route, errors included, that
// polls can be held.
func announceHolds(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == runtimeapi.PathStatus {
			w.Header().Set(runtimeapi.HeaderPreferenceApplied, waitApplied(preferredWait(r.Header)))
		}
		next.ServeHTTP(w, r)
	})
}

// recovered answers a panic with INTERNAL and keeps its text to the log.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			// What was thrown may quote the request; the stack does not.
			s.manager.log.Error("Request panicked", "stack", string(debug.Stack()))
			writeErrorFor(w, r, errInternal)
		}()
		next.ServeHTTP(w, r)
	})
}

// methodNotAllowed answers every method but the one that a route has.
func methodNotAllowed(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		writeErrorFor(w, r, refuseWith(http.StatusMethodNotAllowed, "Only "+allowed+" is allowed here."))
	}
}

// handleUnknown answers in the protocol's shape everywhere: in the file API's, a
// missing route would read as a missing file.
func handleUnknown(w http.ResponseWriter, _ *http.Request) {
	writeError(w, refuse(runtimeapi.CodeNotFound, "No such route."))
}

func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok\n")
}

// handleReady says whether a create could be stored now.
func (s *Server) handleReady(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-s.manager.draining:
		writePlain(w, http.StatusServiceUnavailable, "shutting down\n")
		return
	default:
	}
	if err := s.manager.store.Check(); err != nil {
		s.manager.log.Error("Session store is not ready", "err", err)
		writePlain(w, http.StatusServiceUnavailable, "session store unavailable\n")
		return
	}
	writePlain(w, http.StatusOK, "ok\n")
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// logID is what a request id may look like (A.4); others are not logged.
var logIDForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

func logIDOf(r *http.Request) string {
	if id := r.Header.Get(runtimeapi.HeaderLogID); logIDForm.MatchString(id) {
		return id
	}
	return ""
}
