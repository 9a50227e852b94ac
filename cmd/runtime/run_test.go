package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// safeBuffer is a log that many goroutines write to.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// executor is a running command.
type executor struct {
	t       *testing.T
	url     string
	metrics string
	log     *safeBuffer
	client  *http.Client
	stop    func() error
}

func testOptions(t *testing.T) *Options {
	t.Helper()
	opts := defaultOptions()
	opts.ListenAddress = "127.0.0.1:0"
	opts.MetricsAddress = "127.0.0.1:0"
	opts.DataDir = t.TempDir()
	return opts
}

func start(t *testing.T, opts *Options) *executor {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	e := &executor{t: t, log: &safeBuffer{}, client: &http.Client{Transport: &http.Transport{}}}
	bound, ended := make(chan [2]net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, opts, program{logTo: e.log, started: func(p, m net.Addr) { bound <- [2]net.Addr{p, m} }})
	}()
	e.stop = sync.OnceValue(func() error {
		cancel()
		e.client.CloseIdleConnections()
		return <-ended
	})
	t.Cleanup(func() {
		if err := e.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case addrs := <-bound:
		e.url, e.metrics = "http://"+addrs[0].String(), "http://"+addrs[1].String()+"/metrics"
	case err := <-ended:
		ended <- err
		t.Fatalf("run: %v", err)
	}
	return e
}

func (e *executor) call(method, url, body string, header ...string) (int, string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func (e *executor) post(path, body string, header ...string) (int, string) {
	e.t.Helper()
	return e.call(http.MethodPost, e.url+path, body, header...)
}

// writeContent lays out an account's files.
func writeContent(t *testing.T, dataDir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dataDir, "content", "default", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACompileFromCreateToRestart(t *testing.T) {
	opts := testOptions(t)
	writeContent(t, opts.DataDir, map[string]string{
		"agent/skills/wiki/SKILL.md": "---\nname: wiki\nmetadata:\n  compile:\n    kind: llm-wiki\ndescription: Builds an llm-wiki of the sources.\n---\n\n# Wiki\n\nWrite a wiki with an index.\n",
		"resources/in/bees.md":       "# Bees\n\nBees pollinate flowers and live in hives. A hive has one queen.\n",
		"resources/in/hives.md":      "# Hives\n\nA hive is built of wax. Bees keep honey in a hive.\n",
	})
	e := start(t, opts)
	const body = `{"task_type":"compile","payload":{"from":["viking://resources/in"],"to":"viking://resources/wiki","skill":"viking://agent/skills/wiki"}}`
	code, text := e.post(runtimeapi.PathTasks, body, "X-API-Key", "k-secret", "Idempotency-Key", "cmp_1")
	var made runtimeapi.CreateResponse
	if err := json.Unmarshal([]byte(text), &made); err != nil || code != http.StatusAccepted {
		t.Fatalf("create = %d %s", code, text)
	}
	code, text = e.post(runtimeapi.PathStatus, `{"session_id":"`+made.SessionID+`"}`, "X-API-Key", "k-secret", "Prefer", "wait=30")
	if code != http.StatusOK || !strings.Contains(text, `"status":"completed"`) {
		t.Fatalf("status = %d %s", code, text)
	}
	if _, err := os.Stat(filepath.Join(opts.DataDir, "content", "default", "resources", "wiki", "index.md")); err != nil {
		t.Errorf("no index: %v", err)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := e.call(http.MethodGet, e.url+path, ""); code != http.StatusOK {
			t.Errorf("%s = %d %s", path, code, text)
		}
	}
	if code, text := e.call(http.MethodGet, e.metrics, ""); code != http.StatusOK ||
		!strings.Contains(text, `agentruntime_runtime_sessions_finished_total{status="completed"} 1`) {
		t.Errorf("metrics = %d %s", code, text)
	}
	if err := e.stop(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(e.log.String(), "k-secret") {
		t.Error("the log holds a key")
	}

	again := start(t, opts)
	code, text = again.post(runtimeapi.PathTasks, body, "X-API-Key", "k-secret", "Idempotency-Key", "cmp_1")
	if code != http.StatusAccepted || !strings.Contains(text, made.SessionID) {
		t.Errorf("replay after a restart = %d %s", code, text)
	}
	code, text = again.post(runtimeapi.PathStatus, `{"session_id":"`+made.SessionID+`"}`, "X-API-Key", "k-secret")
	if code != http.StatusOK || !strings.Contains(text, `"status":"completed"`) {
		t.Errorf("status after a restart = %d %s", code, text)
	}
}

func TestTheDataDirectoryHasOneOwner(t *testing.T) {
	opts := testOptions(t)
	start(t, opts)
	if testing.Short() {
		t.Skip("waits five seconds for a lock")
	}
	second := *opts
	if err := run(t.Context(), &second, program{logTo: io.Discard}); err == nil || !strings.Contains(err.Error(), "session store") {
		t.Errorf("a second executor on the directory: %v", err)
	}
}

func TestABoundAddressIsAnError(t *testing.T) {
	first := start(t, testOptions(t))
	opts := testOptions(t)
	opts.ListenAddress = strings.TrimPrefix(first.url, "http://")
	if err := run(t.Context(), opts, program{logTo: io.Discard}); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("run = %v", err)
	}
}

func TestTokensAreReviewed(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
		review.Status.Authenticated = review.Spec.Token == "good"
		review.Status.Audiences = review.Spec.Audiences
		review.Status.User.Username = "system:serviceaccount:docs:builder"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"users":[{"name":"u","user":{}}]}`, api.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := testOptions(t)
	opts.AuthenticateTokens, opts.TokenAudience, opts.Kubeconfig = true, "runtime", kubeconfig
	e := start(t, opts)
	for token, want := range map[string]int{"good": http.StatusNotFound, "bad": http.StatusUnauthorized} {
		if code, text := e.post(runtimeapi.PathStatus, `{"session_id":"x"}`, "Authorization", "Bearer "+token); code != want {
			t.Errorf("%s token = %d %s, want %d", token, code, text, want)
		}
	}
}

func TestTokenReviewsNeedAConfiguration(t *testing.T) {
	opts := testOptions(t)
	opts.AuthenticateTokens, opts.Kubeconfig = true, filepath.Join(t.TempDir(), "missing")
	if err := run(t.Context(), opts, program{logTo: io.Discard}); err == nil || !strings.Contains(err.Error(), "token reviews") {
		t.Errorf("run = %v", err)
	}
}

func TestServingTLS(t *testing.T) {
	opts := testOptions(t)
	dir := t.TempDir()
	opts.TLSCertFile, opts.TLSKeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePair(t, opts.TLSCertFile, opts.TLSKeyFile, "localhost")
	pemText, err := os.ReadFile(opts.TLSCertFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pemText)
	e := start(t, opts)
	e.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	e.url = strings.Replace(e.url, "http://", "https://", 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("ready = %s over %s", resp.Status, resp.Proto)
	}
}

func TestContentIsShownByTheFileAPI(t *testing.T) {
	opts := testOptions(t)
	writeContent(t, opts.DataDir, map[string]string{"resources/in/bees.md": "# Bees\n"})
	e := start(t, opts)
	code, body := e.call(http.MethodGet, e.url+"/api/v1/content/read?uri=viking://resources/in/bees.md", "", "X-API-Key", "k")
	if code != http.StatusOK || body != `{"status":"ok","result":"# Bees\n"}` {
		t.Errorf("read = %d %s", code, body)
	}
}
