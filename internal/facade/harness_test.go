package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens authenticates "Authorization: Bearer <name>" as the user of that name.
type tokens struct{}

func (tokens) Authenticate(r *http.Request) (access.Caller, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || name == "wrong" {
		return access.Caller{}, access.Invalid(errors.New("unknown token"))
	}
	caller := access.Caller{User: v1alpha1.Requester{Username: name}}
	if namespace, ok := strings.CutPrefix(name, "key-of-"); ok {
		caller.Namespace = namespace
	}
	return caller, nil
}

// frontProxy authenticates by the header that only the aggregator sets.
type frontProxy struct{}

func (frontProxy) Authenticate(r *http.Request) (access.Caller, error) {
	name := r.Header.Get("X-Remote-User")
	if name == "" {
		return access.Caller{}, access.Invalid(errors.New("no certificate"))
	}
	return access.Caller{User: v1alpha1.Requester{Username: name}}, nil
}

// seen is what a test's handler answers: what it knows of the request.
type seen struct {
	Route, ID, Trace, User, Namespace, Path, Body string
	Aggregated                                    bool
}

// backend is the dialect of the tests.
type backend struct {
	// entered is told of every request to the routes that wait; release lets one go.
	entered, release chan struct{}
	// ended is told why a waiting request ended.
	ended chan error
}

func newBackend() *backend {
	return &backend{entered: make(chan struct{}, 256), release: make(chan struct{}), ended: make(chan error, 256)}
}

func (b *backend) routes() []httpapi.Route {
	return []httpapi.Route{
		{Name: "things.create", Method: http.MethodPost, Path: "/api/v1/things", Aggregated: "/things", MaxBody: 1 << 20, Handle: show("things.create")},
		{Name: "things.list", Method: http.MethodGet, Path: "/api/v1/things", Aggregated: "/things", Handle: show("things.list")},
		{Name: "things.get", Method: http.MethodGet, Path: "/api/v1/things/{id}", Aggregated: "/things/{id}", Handle: show("things.get")},
		{Name: "things.stop", Method: http.MethodPost, Path: "/api/v1/things/{id}/stop", Aggregated: "/things/{id}/stop", MaxBody: 10, Handle: show("things.stop")},
		{Name: "panic", Method: http.MethodGet, Path: "/api/v1/panic", Handle: func(http.ResponseWriter, *http.Request) error { panic("secret of the request") }},
		{Name: "wait", Method: http.MethodGet, Path: "/api/v1/wait", Handle: b.wait},
		{Name: "stream", Method: http.MethodGet, Path: "/api/v1/stream", Stream: true, Handle: b.stream},
	}
}

func show(route string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return wire.Errorf(wire.CodeInvalidArgument, "Request body could not be read")
		}
		info := httpapi.InfoOf(r.Context())
		return wire.OK(w, http.StatusOK, seen{
			Route: route, ID: info.ID, Trace: info.TraceParent, User: info.Caller.User.Username,
			Namespace: info.Namespace, Path: r.PathValue("id"), Body: string(body), Aggregated: info.Aggregated,
		})
	}
}

func (b *backend) wait(w http.ResponseWriter, r *http.Request) error {
	b.entered <- struct{}{}
	select {
	case <-b.release:
		return wire.OK(w, http.StatusOK, "released")
	case <-r.Context().Done():
		b.ended <- r.Context().Err()
		return r.Context().Err()
	}
}

func (b *backend) stream(w http.ResponseWriter, r *http.Request) error {
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	b.entered <- struct{}{}
	select {
	case <-httpapi.InfoOf(r.Context()).Draining:
		_, _ = w.Write([]byte("drained"))
	case <-r.Context().Done():
		b.ended <- r.Context().Err()
	}
	return nil
}

// fixture is a server with all that its tests look at.
type fixture struct {
	*Server

	backend  *backend
	log      *lockedBuffer
	registry *prometheus.Registry
}

func newFixture(t testing.TB, changes ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{backend: newBackend(), log: &lockedBuffer{}, registry: prometheus.NewRegistry()}
	config := Config{
		Routes: f.backend.routes(), Authenticator: tokens{}, DefaultNamespace: "default", InsecureHTTP: true,
		Ping: func(context.Context) error { return nil }, AllowedOrigins: []string{"https://app.example.com"},
		Logger:     slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: f.registry,
	}
	for _, change := range changes {
		change(&config)
	}
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	f.Server = server
	return f
}

func aggregated(config *Config) {
	config.InsecureHTTP = false
	config.GetCertificate = noCertificate
	config.Aggregated = &Aggregated{Authenticator: frontProxy{}, Groups: []Group{{
		Name: "things.example.com", Version: "v1", Kinds: map[string]string{"things": "Thing"}, Routes: config.Routes,
	}}}
}

// do sends a request through the whole chain, as ann unless the header says
// otherwise.
func (f *fixture) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer ann")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Authorization" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	answer := httptest.NewRecorder()
	f.Handler().ServeHTTP(answer, r)
	return answer
}

// envelope is any answer.
type envelope struct {
	Status string
	Result seen
	Error  struct {
		Code, Message string
		Details       map[string]any
	}
}

func decode(t testing.TB, body []byte) envelope {
	t.Helper()
	var out envelope
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return out
}

// lockedBuffer is a log that servers write to while tests read it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
