package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/cli/connect"
	"github.com/agentruntime/operator/internal/cli/tasks"
)

const taskID = "cmp_0123456789abcdef0123456789abcdef"

// record is a TaskRecord of compile-api.md, C.1. Its numbers would not survive a
// float64.
func record(status, stage, failure string) string {
	quoted := "null"
	if failure != "" {
		text, _ := json.Marshal(failure)
		quoted = string(text)
	}
	return fmt.Sprintf(`{"task_id":%q,"task_type":"compile","status":%q,"stage":%q,"resource_id":"viking://resources/docs",`+
		`"created_at":1796083200.5,"updated_at":1796083201.5,"result":{"big":12345678901234567890,"exact":1.0},"error":%s,`+
		`"meta":{"request":{"from":["viking://resources/docs"],"to":"viking://resources/wiki","skill":"viking://agent/skills/wiki"}}}`,
		taskID, status, stage, quoted)
}

// fake is a server that answers from a script.
type fake struct {
	*httptest.Server
	mutex    sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, handler http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		f.mutex.Lock()
		f.requests = append(f.requests, r.Clone(context.WithoutCancel(r.Context())))
		f.bodies = append(f.bodies, body.String())
		f.mutex.Unlock()
		handler(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// seen are the requests so far, as "METHOD path?query".
func (f *fake) seen() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var lines []string
	for _, r := range f.requests {
		lines = append(lines, r.Method+" "+r.URL.RequestURI())
	}
	return lines
}

// kubeconfig names the fake as an API server.
func (f *fake) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"k","cluster":{"server":"` + f.URL + `"}}],
"users":[{"name":"u","user":{"token":"kube-token"}}],
"contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":"team-a"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ok(w http.ResponseWriter, status int, result string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-ID", "req-1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"ok","result":%s}`, result)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Request-ID", "req-1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":"error","error":{"code":%q,"message":%q}}`, code, message)
}

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

func arctl(t *testing.T, arguments ...string) outcome {
	t.Helper()
	return runWith(t, program{}, arguments...)
}

func runWith(t *testing.T, p program, arguments ...string) outcome {
	t.Helper()
	return runIn(t.Context(), p, arguments...)
}

func runIn(ctx context.Context, p program, arguments ...string) outcome {
	var out, err bytes.Buffer
	if p.name == "" {
		p.name = "arctl"
	}
	if p.in == nil {
		p.in = strings.NewReader("")
	}
	p.version, p.out, p.err = "v1.2.3", &out, &err
	p.screen.W = &err
	p.pace = tasks.Pace{Hold: time.Second, Poll: time.Millisecond, Retry: time.Millisecond, MaxRetry: time.Millisecond, Patience: time.Minute}
	code := run(ctx, p, arguments)
	return outcome{code: code, out: out.String(), err: err.String()}
}

func direct(server string) []string { return []string{"--server", server} }

func keyEnv(server string) program {
	return program{env: connect.Environment{Server: server, APIKey: "sk-test"}}
}
