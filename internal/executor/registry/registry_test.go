package registry

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/gatewaytoken"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

const namespace = "operator"

// secrets is a reader of Secrets that counts what it is asked.
type secrets struct {
	client.Reader

	mu    sync.Mutex
	all   map[types.NamespacedName]corev1.Secret
	reads int
	err   error
}

func (s *secrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return s.err
	}
	found, ok := s.all[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	if secret, ok := into.(*corev1.Secret); ok {
		found.DeepCopyInto(secret)
	}
	return nil
}

func (s *secrets) set(secretType string, data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret := corev1.Secret{Type: corev1.SecretType(secretType), Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	s.all[types.NamespacedName{Namespace: namespace, Name: "gateway"}] = secret
}

func (s *secrets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newRegistry(t *testing.T) (*Registry, *secrets, *clock) {
	t.Helper()
	reader, c := &secrets{all: map[types.NamespacedName]corev1.Secret{}}, &clock{now: time.Unix(1_800_000_000, 0)}
	r := New(reader, namespace)
	r.now = c.read
	return r, reader, c
}

func newRuntime(url string, change ...func(*v1alpha1.AgentRuntime)) *v1alpha1.AgentRuntime {
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1", Generation: 1},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: url, RequestTimeoutSeconds: 5},
	}
	for _, c := range change {
		c(runtime)
	}
	return runtime
}

func guarded(key string) func(*v1alpha1.AgentRuntime) {
	return func(r *v1alpha1.AgentRuntime) {
		r.Spec.GatewayTokenSecretRef = &v1alpha1.SecretKeyReference{Name: "gateway", Key: key}
	}
}

// newer changes the spec as an edit does.
func newer(change func(*v1alpha1.AgentRuntimeSpec)) func(*v1alpha1.AgentRuntime) {
	return func(r *v1alpha1.AgentRuntime) {
		r.Generation = 2
		change(&r.Spec)
	}
}

// certificate returns the PEM of some certificate.
func certificate(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func startFake(t *testing.T, options fakeruntime.Options) *fakeruntime.Server {
	t.Helper()
	fake := fakeruntime.Start(options)
	t.Cleanup(fake.Close)
	return fake
}

func mustClient(t *testing.T, r *Registry, runtime *v1alpha1.AgentRuntime) executor.Executor {
	t.Helper()
	got, err := r.For(runtime)
	if err != nil {
		t.Fatalf("For: %v", err)
	}
	t.Cleanup(func() { r.Forget(runtime.Name) })
	return got
}

// tokens are the gateway tokens of the calls that reached the executor.
func tokens(fake *fakeruntime.Server) []string {
	sent := []string{}
	for _, call := range fake.Calls() {
		sent = append(sent, call.Header.Get(runtimeapi.HeaderGatewayToken))
	}
	return sent
}

func TestForKeepsAClientUntilTheRuntimeChanges(t *testing.T) {
	r, _, _ := newRegistry(t)
	first := mustClient(t, r, newRuntime("http://127.0.0.1:1"))
	cases := []struct {
		name     string
		change   func(*v1alpha1.AgentRuntime)
		wantSame bool
	}{
		{"the same object", func(*v1alpha1.AgentRuntime) {}, true},
		{"an older state of it, from a cache that lags", func(a *v1alpha1.AgentRuntime) { a.Generation = 0 }, true},
		{"a newer generation", func(a *v1alpha1.AgentRuntime) { a.Generation = 2 }, true},
		{"another limit of tasks", newer(func(s *v1alpha1.AgentRuntimeSpec) { s.MaxConcurrentTasks = 7 }), true},
		{"another object of the name and settings", func(a *v1alpha1.AgentRuntime) { a.UID = "2" }, true},
		{"another URL", newer(func(s *v1alpha1.AgentRuntimeSpec) { s.URL = "http://127.0.0.1:2" }), false},
		{"another timeout", newer(func(s *v1alpha1.AgentRuntimeSpec) { s.RequestTimeoutSeconds = 6 }), false},
		{"certificates", newer(func(s *v1alpha1.AgentRuntimeSpec) { s.CABundle = certificate(t) }), false},
		{"a gateway token", func(a *v1alpha1.AgentRuntime) { a.Generation = 2; guarded("")(a) }, false},
		{"another URL of another object", func(a *v1alpha1.AgentRuntime) { a.UID, a.Spec.URL = "2", "http://127.0.0.1:2" }, false},
		{"an older state with another URL", func(a *v1alpha1.AgentRuntime) { a.Generation, a.Spec.URL = 0, "http://127.0.0.1:2" }, true},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			got := mustClient(t, r, newRuntime("http://127.0.0.1:1", test.change))
			if same := got == first; same != test.wantSame {
				t.Fatalf("the same client: %v, want %v", same, test.wantSame)
			}
		})
		r.Forget("r")
		first = mustClient(t, r, newRuntime("http://127.0.0.1:1"))
	}
}

func TestForTellsWhyASpecCannotBeUsed(t *testing.T) {
	cases := map[string]func(*v1alpha1.AgentRuntime){
		"no URL":               func(a *v1alpha1.AgentRuntime) { a.Spec.URL = "" },
		"a URL of another way": func(a *v1alpha1.AgentRuntime) { a.Spec.URL = "ftp://x" },
		"no certificate":       func(a *v1alpha1.AgentRuntime) { a.Spec.CABundle = []byte("no certificate") },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRegistry(t)
			broken := newRuntime("https://127.0.0.1:1", change)
			_, first := r.For(broken)
			_, again := r.For(broken)
			if first == nil || !errors.Is(again, first) {
				t.Fatalf("errors %v, then %v; want the same one twice", first, again)
			}
			elsewhere := newRuntime("https://127.0.0.1:1", change, newer(func(s *v1alpha1.AgentRuntimeSpec) { s.MaxConcurrentTasks = 7 }))
			if _, err := r.For(elsewhere); !errors.Is(err, first) {
				t.Fatalf("error %v after a change that mends nothing, want %v", err, first)
			}
			mended := newRuntime("https://127.0.0.1:1", func(a *v1alpha1.AgentRuntime) { a.Generation = 3 })
			mustClient(t, r, mended)
		})
	}
}

func TestForgetLeavesTheClientToItsHolders(t *testing.T) {
	r, _, _ := newRegistry(t)
	fake := startFake(t, fakeruntime.Options{})
	old := mustClient(t, r, newRuntime(fake.URL))
	if _, err := old.Probe(t.Context()); err != nil {
		t.Fatalf("probe: %v", err)
	}
	r.Forget("r")
	r.Forget("never known")
	if _, err := old.Probe(t.Context()); err != nil {
		t.Fatalf("probe by one who still holds the client: %v", err)
	}
	if len(r.entries) != 0 {
		t.Fatalf("%d entries are left", len(r.entries))
	}
}

// TestAReplacedClientEndsItsCalls edits the URL while a poll is held.
func TestAReplacedClientEndsItsCalls(t *testing.T) {
	r, reader, _ := newRegistry(t)
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one"})
	arrived, leave := make(chan struct{}, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-leave
		_, _ = io.WriteString(w, `{"status":"running","stage":"q"}`)
	}))
	t.Cleanup(server.Close)
	old := mustClient(t, r, newRuntime(server.URL, guarded("")))
	outcomes := make(chan error, 2)
	poll := func() {
		_, err := old.Poll(t.Context(), executor.PollRequest{SessionID: "s", Wait: 30 * time.Second})
		outcomes <- err
	}
	go poll()
	<-arrived
	edited := newRuntime(server.URL, newer(func(s *v1alpha1.AgentRuntimeSpec) { s.URL = "http://127.0.0.1:1" }))
	if got := mustClient(t, r, edited); got == old {
		t.Fatal("the same client for another URL")
	}
	if diff := cmp.Diff([]string{"token-one"}, r.Secrets("r")); diff != "" {
		t.Errorf("secrets to redact (-want +got):\n%s", diff)
	}
	go poll()
	<-arrived
	close(leave)
	for range 2 {
		if err := <-outcomes; err != nil {
			t.Errorf("poll by the replaced client: %v", err)
		}
	}
}

func TestGatewayTokenIsReadAgainAfterTenSeconds(t *testing.T) {
	r, reader, c := newRegistry(t)
	fake := startFake(t, fakeruntime.Options{})
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one"})
	exec := mustClient(t, r, newRuntime(fake.URL, guarded("")))
	if got := r.Secrets("r"); got != nil {
		t.Fatalf("secrets before the first call: %d", len(got))
	}
	probe := func() {
		t.Helper()
		if _, err := exec.Probe(t.Context()); err != nil {
			t.Fatalf("probe: %v", err)
		}
	}
	probe()
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-two"})
	c.advance(gatewaytoken.TTL - time.Millisecond)
	probe()
	c.advance(time.Millisecond)
	probe()
	if diff := cmp.Diff([]string{"token-one", "token-one", "token-two"}, tokens(fake)); diff != "" {
		t.Fatalf("tokens sent (-want +got):\n%s", diff)
	}
	if got := reader.count(); got != 2 {
		t.Fatalf("%d reads of the Secret, want 2", got)
	}
	// A call with the older one may be under way still.
	if diff := cmp.Diff([]string{"token-two", "token-one"}, r.Secrets("r")); diff != "" {
		t.Fatalf("secrets to redact (-want +got):\n%s", diff)
	}
}

func TestARefusedGatewayTokenIsReadAnewAtMostOnceASecond(t *testing.T) {
	r, reader, c := newRegistry(t)
	fake := startFake(t, fakeruntime.Options{GatewayToken: "token-two"})
	// The line break that ends the file is no part of what is sent and refused.
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one\n"})
	exec := mustClient(t, r, newRuntime(fake.URL, guarded("")))
	call := func(wantRefused bool, wantReads int) {
		t.Helper()
		_, err := exec.Cancel(t.Context(), executor.CancelRequest{SessionID: "s"})
		if executor.IsGatewayRejected(err) != wantRefused {
			t.Fatalf("cancel: %v; refused should be %v", err, wantRefused)
		}
		if got := reader.count(); got != wantReads {
			t.Fatalf("%d reads of the Secret, want %d", got, wantReads)
		}
	}
	call(true, 1)
	call(true, 1)
	c.advance(gatewaytoken.RefusedTTL)
	call(true, 2)
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-two"})
	c.advance(gatewaytoken.RefusedTTL - time.Millisecond)
	call(true, 2)
	if diff := cmp.Diff([]string{"token-one\n"}, r.Secrets("r")); diff != "" {
		t.Fatalf("secrets to redact (-want +got):\n%s", diff)
	}
	c.advance(time.Millisecond)
	call(false, 3)
	c.advance(gatewaytoken.TTL - time.Millisecond)
	call(false, 3)
}

func TestGatewayTokenThatCannotBeRead(t *testing.T) {
	cases := map[string]func(*secrets){
		"no Secret":     func(*secrets) {},
		"another type":  func(s *secrets) { s.set("Opaque", map[string]string{"token": "token-one"}) },
		"nothing in it": func(s *secrets) { s.set(v1alpha1.SecretTypeGatewayToken, nil) },
		"another key": func(s *secrets) {
			s.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"other": "token-one"})
		},
		"no API server":       func(s *secrets) { s.err = errors.New("connection refused") },
		"no right to read it": func(s *secrets) { s.err = apierrors.NewForbidden(schema.GroupResource{}, "gateway", errors.New("no")) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			r, reader, _ := newRegistry(t)
			fake := startFake(t, fakeruntime.Options{})
			change(reader)
			exec := mustClient(t, r, newRuntime(fake.URL, guarded("token")))
			_, err := exec.Probe(t.Context())
			if err == nil || len(fake.Calls()) != 0 {
				t.Fatalf("probe: %v, with %d calls; want an error and no call without the token", err, len(fake.Calls()))
			}
			if !errors.Is(err, ErrTokenUnavailable) || !executor.IsTransient(err) {
				t.Fatalf("probe: %v, want %v, which may pass", err, ErrTokenUnavailable)
			}
			// A task's user must not learn how the operator keeps it; an operator must.
			if _, shown := executor.CodeOf(err); strings.Contains(shown, "Secret") || strings.Contains(shown, namespace) {
				t.Fatalf("a task would show %q", shown)
			}
			if cause := errors.Unwrap(err); cause == nil || !strings.Contains(cause.Error(), namespace+"/gateway") {
				t.Fatalf("cause = %v, want one that names the Secret", cause)
			}
			// It is looked for at every call until it is there.
			reader.mu.Lock()
			reader.err = nil
			reader.mu.Unlock()
			reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one"})
			if _, err := exec.Probe(t.Context()); err != nil {
				t.Fatalf("probe with the token: %v", err)
			}
		})
	}
}

func TestGatewayTokenOfAKeyOfItsOwn(t *testing.T) {
	r, reader, _ := newRegistry(t)
	fake := startFake(t, fakeruntime.Options{})
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one", "mine": "token-mine"})
	if _, err := mustClient(t, r, newRuntime(fake.URL, guarded("mine"))).Probe(t.Context()); err != nil {
		t.Fatalf("probe: %v", err)
	}
	if diff := cmp.Diff([]string{"token-mine"}, tokens(fake)); diff != "" {
		t.Fatalf("tokens sent (-want +got):\n%s", diff)
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	r, reader, c := newRegistry(t)
	fake := startFake(t, fakeruntime.Options{})
	reader.set(v1alpha1.SecretTypeGatewayToken, map[string]string{"token": "token-one"})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 20 {
				exec, err := r.For(newRuntime(fake.URL, guarded(""), func(a *v1alpha1.AgentRuntime) {
					a.Generation = int64(1 + n/5)
					a.Spec.RequestTimeoutSeconds = int32(5 + n/5)
				}))
				if err != nil {
					t.Errorf("For: %v", err)
					return
				}
				// A client that is replaced meanwhile works for those who hold it.
				if _, err := exec.Probe(t.Context()); err != nil {
					t.Errorf("probe: %v", err)
				}
				r.Secrets("r")
				c.advance(time.Second)
				if i == 0 && n%7 == 0 {
					r.Forget("r")
				}
			}
		})
	}
	group.Wait()
	r.Forget("r")
}
