package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scriptedEngine does what a test tells it, and remembers what it was asked.
type scriptedEngine struct {
	prepare func(ctx context.Context, task runtime.Task) (runtime.Task, error)
	run     func(ctx context.Context, task runtime.Task, progress runtime.Progress) (runtime.Outcome, error)

	mu       sync.Mutex
	prepared []runtime.Task
	ran      []runtime.Task
}

func (e *scriptedEngine) Prepare(ctx context.Context, task runtime.Task) (runtime.Task, error) {
	e.mu.Lock()
	e.prepared = append(e.prepared, task)
	e.mu.Unlock()
	if e.prepare != nil {
		return e.prepare(ctx, task)
	}
	return task, nil
}

func (e *scriptedEngine) Run(ctx context.Context, task runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
	e.mu.Lock()
	e.ran = append(e.ran, task)
	e.mu.Unlock()
	if e.run != nil {
		return e.run(ctx, task, progress)
	}
	return okOutcome(), nil
}

func (e *scriptedEngine) counts() (prepared, ran int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.prepared), len(e.ran)
}

func okOutcome() runtime.Outcome {
	return runtime.Outcome{
		Stage:  "completed",
		Result: json.RawMessage(`{"page_count":1}`),
		Meta:   json.RawMessage(`{"token_usage":{"total_tokens":0}}`),
	}
}

// blockUntilStopped runs until it is told to stop.
func blockUntilStopped(ctx context.Context, _ runtime.Task, _ runtime.Progress) (runtime.Outcome, error) {
	<-ctx.Done()
	return runtime.Outcome{}, ctx.Err()
}

// gate is a run that says when it begins and waits to be let go.
type gate struct {
	began chan string
	let   chan struct{}
}

func newGate() *gate { return &gate{began: make(chan string, 256), let: make(chan struct{})} }

func (g *gate) run(ctx context.Context, task runtime.Task, _ runtime.Progress) (runtime.Outcome, error) {
	g.began <- task.To
	select {
	case <-g.let:
		return okOutcome(), nil
	case <-ctx.Done():
		return runtime.Outcome{}, ctx.Err()
	}
}

// flakyStore fails writes while a test says so.
type flakyStore struct {
	*session.Store
	mu         sync.Mutex
	failCreate bool
	failSave   bool
	failRead   bool
}

var errDisk = errors.New("no space left on device")

func (f *flakyStore) set(change func(*flakyStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flakyStore) failing(what *bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *what {
		return errDisk
	}
	return nil
}

func (f *flakyStore) Create(rec session.Record, key *session.Key) (string, error) {
	if err := f.failing(&f.failCreate); err != nil {
		return "", err
	}
	return f.Store.Create(rec, key)
}

func (f *flakyStore) Save(recs ...session.Record) error {
	if err := f.failing(&f.failSave); err != nil {
		return err
	}
	return f.Store.Save(recs...)
}

func (f *flakyStore) Get(id string) (session.Record, bool, error) {
	if err := f.failing(&f.failRead); err != nil {
		return session.Record{}, false, err
	}
	return f.Store.Get(id)
}

func (f *flakyStore) Check() error {
	if err := f.failing(&f.failCreate); err != nil {
		return err
	}
	return f.Store.Check()
}

// lockedBuffer is a log that many goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// stack is a whole server: store, engine, HTTP.
type stack struct {
	t      *testing.T
	dir    string
	engine *scriptedEngine
	store  *flakyStore
	server *Server
	web    *httptest.Server
	log    *lockedBuffer
	cfg    Config
	stop   func()
}

// newStack starts a server on loopback that needs no gateway token.
func newStack(t *testing.T, change ...func(*Config)) *stack {
	t.Helper()
	s := &stack{t: t, dir: filepath.Join(t.TempDir(), "sessions"), engine: &scriptedEngine{}, log: &lockedBuffer{}}
	s.cfg = Config{
		Engine:           s.engine,
		Limits:           DefaultLimits(),
		ListenerLoopback: true,
		Log:              slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&s.cfg)
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *stack) start() {
	s.t.Helper()
	store, err := session.Open(session.Options{Dir: s.dir})
	if err != nil {
		s.t.Fatal(err)
	}
	s.store = &flakyStore{Store: store}
	cfg := s.cfg
	cfg.Store = s.store
	server, err := New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
	s.web = httptest.NewServer(server)
	web := s.web
	s.stop = sync.OnceFunc(func() {
		server.Drain()
		web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil && !errors.Is(err, session.ErrClosed) {
			s.t.Errorf("shutdown: %v", err)
		}
		_ = store.Close()
	})
}

// crash takes the store away from the server, so that it writes nothing more,
// ends what is left of it, and starts another on the same store. release lets
// runs go that would not stop by themselves.
func (s *stack) crash(release func()) {
	s.t.Helper()
	_ = s.store.Close()
	release()
	s.stop()
	s.start()
}

// answer is what came back over HTTP.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

func (a answer) session() string {
	var r runtimeapi.CreateResponse
	_ = json.Unmarshal(a.body, &r)
	return r.SessionID
}

func (a answer) state() runtimeapi.TaskStatus {
	var r runtimeapi.TaskStatus
	_ = json.Unmarshal(a.body, &r)
	return r
}

func (a answer) errorCode() string {
	var r runtimeapi.ErrorResponse
	_ = json.Unmarshal(a.body, &r)
	if r.Detail != r.Err {
		return "two different errors"
	}
	return r.Detail.Code
}

func (a answer) message() string {
	var r runtimeapi.ErrorResponse
	_ = json.Unmarshal(a.body, &r)
	return r.Detail.Message
}

// headers is a list of name, value pairs.
type headers []string

func user(key string, more ...string) headers {
	return append(headers{runtimeapi.HeaderAPIKey, key}, more...)
}

func (s *stack) request(ctx context.Context, path, body string, h headers) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.web.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	resp, err := s.web.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return answer{code: resp.StatusCode, header: resp.Header, body: got}, err
}

func (s *stack) post(path, body string, h headers) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := s.request(ctx, path, body, h)
	if err != nil {
		s.t.Errorf("POST %s: %v", path, err)
	}
	return a
}

func taskBody(to string) string {
	return `{"task_type":"compile","payload":{"from":["viking://resources/in"],"to":"` + to +
		`","skill":"viking://agent/skills/wiki"}}`
}

const (
	alice = "alice-key"
	bob   = "bob-key"
	wiki  = "viking://resources/wiki"
)

// create makes a session that must be accepted.
func (s *stack) create(to string, h headers) string {
	s.t.Helper()
	a := s.post(runtimeapi.PathTasks, taskBody(to), h)
	if a.code != http.StatusAccepted || a.session() == "" {
		s.t.Fatalf("create = %d %s", a.code, a.body)
	}
	return a.session()
}

func sessionBody(id string) string { return `{"session_id":"` + id + `"}` }

func (s *stack) status(id, key string, more ...string) answer {
	s.t.Helper()
	return s.post(runtimeapi.PathStatus, sessionBody(id), user(key, more...))
}

func (s *stack) cancel(id, key string) answer {
	s.t.Helper()
	return s.post(runtimeapi.PathCancel, sessionBody(id), user(key))
}

// end waits, by a held poll, until a session ended.
func (s *stack) end(id, key string) runtimeapi.TaskStatus {
	s.t.Helper()
	a := s.status(id, key, runtimeapi.HeaderPrefer, "wait=20")
	if st := a.state(); st.Status.Terminal() {
		return st
	}
	s.t.Fatalf("session %s did not end: %d %s", id, a.code, a.body)
	return runtimeapi.TaskStatus{}
}

// receive takes a value from a channel, within a bound.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

// newWeb serves with an http.Server of the test's own.
func newWeb(t *testing.T, server *http.Server) *httptest.Server {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	web.Config = server
	web.Start()
	t.Cleanup(web.Close)
	return web
}
