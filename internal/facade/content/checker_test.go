package content

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/viking"
)

// secrets has one Secret, whatever it is asked for.
type secrets struct {
	client.Reader

	mu    sync.Mutex
	kind  string
	value string
	asked []string
}

func (s *secrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, key.String())
	secret, ok := into.(*corev1.Secret)
	if !ok {
		return errors.New("asked for something else")
	}
	secret.Type = corev1.SecretType(s.kind)
	secret.Data = map[string][]byte{"token": []byte(s.value)}
	return nil
}

// seen is what a content store got to know of a request.
type seen struct{ Token, Account, User, Key string }

// fakeStore says of every URI that it is a directory.
func fakeStore(t *testing.T) (url string, requests func() []seen) {
	t.Helper()
	var mu sync.Mutex
	var all []seen
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, seen{
			r.Header.Get("X-Gateway-Token"), r.Header.Get("X-OpenViking-Account"),
			r.Header.Get("X-OpenViking-User"), r.Header.Get("X-API-Key"),
		})
		_, _ = fmt.Fprint(w, `{"status":"ok","result":{"isDir":true}}`)
	}))
	t.Cleanup(web.Close)
	return web.URL, func() []seen {
		mu.Lock()
		defer mu.Unlock()
		return append([]seen(nil), all...)
	}
}

func newRuntime(uid, url string, guarded bool) *v1alpha1.AgentRuntime {
	runtime := &v1alpha1.AgentRuntime{}
	runtime.Name, runtime.UID, runtime.Generation = "r-"+uid, types.UID(uid), 1
	runtime.Spec.ContentStore = &v1alpha1.ContentStoreReference{URL: url}
	if guarded {
		runtime.Spec.ContentStore.GatewayTokenSecretRef = &v1alpha1.SecretKeyReference{Name: "gateway"}
	}
	return runtime
}

func newChecker(t *testing.T, reader client.Reader) *Checker {
	t.Helper()
	c := NewChecker(reader, "operator", 0)
	t.Cleanup(c.Close)
	return c
}

func docs(t *testing.T) viking.URI {
	t.Helper()
	uri, fault := viking.Parse("uri", "viking://resources/docs")
	if fault != nil {
		t.Fatal(fault)
	}
	return uri
}

func TestWhatIsShownForACaller(t *testing.T) {
	cases := map[string]struct {
		guarded bool
		forward access.Secret
		want    seen
	}{
		"the gateway token speaks for the user":   {true, "", seen{"tok", "team-a", "alice", ""}},
		"a forwarded key goes beside it":          {true, "ov-key", seen{"tok", "team-a", "alice", "ov-key"}},
		"without it a forwarded key stands alone": {false, "ov-key", seen{"", "", "", "ov-key"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			url, requests := fakeStore(t)
			reader := &secrets{kind: string(v1alpha1.SecretTypeGatewayToken), value: "tok\n"}
			files, err := newChecker(t, reader).Reader(newRuntime("1", url, tc.guarded), access.Caller{Forward: tc.forward})
			if err != nil {
				t.Fatal(err)
			}
			info, err := files.Stat(t.Context(), contentstore.Principal{Account: "team-a", User: "alice"}, docs(t))
			if err != nil || !info.Dir {
				t.Fatalf("Stat = %+v, %v", info, err)
			}
			if diff := cmp.Diff([]seen{tc.want}, requests()); diff != "" {
				t.Error(diff)
			}
			if tc.guarded && reader.asked[0] != "operator/gateway" {
				t.Errorf("token read from %s", reader.asked[0])
			}
			if text := fmt.Sprintf("%v %+v %#v", files, files, files); strings.Contains(text, "ov-key") {
				t.Errorf("the reader shows its key: %s", text)
			}
		})
	}
}

func TestWithoutACredentialNothingIsAsked(t *testing.T) {
	url, requests := fakeStore(t)
	_, err := newChecker(t, &secrets{}).Reader(newRuntime("1", url, false), access.Caller{})
	if !contentstore.IsUnauthenticated(err) || len(requests()) != 0 {
		t.Errorf("Reader: %v, after %d requests", err, len(requests()))
	}
}

func TestARuntimeWithoutAStoreHasNoReader(t *testing.T) {
	if files, err := newChecker(t, &secrets{}).Reader(&v1alpha1.AgentRuntime{}, access.Caller{}); files != nil || err != nil {
		t.Errorf("Reader = %v, %v", files, err)
	}
}

func TestWhatCannotBeUsedIsUnavailable(t *testing.T) {
	url, requests := fakeStore(t)
	checker := newChecker(t, &secrets{kind: "Opaque", value: "tok"})
	files, err := checker.Reader(newRuntime("1", url, true), access.Caller{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = files.Stat(t.Context(), contentstore.Principal{Account: "team-a", User: "alice"}, docs(t))
	if !contentstore.IsUnavailable(err) || len(requests()) != 0 {
		t.Errorf("Stat with a Secret of another type: %v, after %d requests", err, len(requests()))
	}
	if text := err.Error(); strings.Contains(text, "Opaque") || strings.Contains(text, "operator") {
		t.Errorf("the user is told %q", text)
	}
	if _, err := checker.Reader(newRuntime("2", "ftp://10.0.0.5", true), access.Caller{}); !contentstore.IsUnavailable(err) ||
		strings.Contains(err.Error(), "10.0.0.5") {
		t.Errorf("Reader of a bad URL: %v", err)
	}
}

func TestClientsAreKeptAndBounded(t *testing.T) {
	url, _ := fakeStore(t)
	checker := newChecker(t, &secrets{})
	use := func(runtime *v1alpha1.AgentRuntime) *contentstore.Remote {
		t.Helper()
		if _, err := checker.Reader(runtime, access.Caller{Forward: "k"}); err != nil {
			t.Fatal(err)
		}
		return checker.stores[runtime.UID].remote
	}
	first := newRuntime("first", url, false)
	old := use(first)
	if use(first) != old {
		t.Error("the same runtime got another client")
	}
	newer := first.DeepCopy()
	newer.Generation = 2
	kept := use(newer)
	if kept == old {
		t.Error("a changed runtime kept its client")
	}
	if use(first) != kept {
		t.Error("an older state of the runtime got a client of its own")
	}
	for i := range 2 * maxStores {
		use(newRuntime(fmt.Sprint(i), url, false))
		if use(first) != kept {
			t.Fatal("a client in use was dropped")
		}
	}
	if got := len(checker.stores); got != maxStores {
		t.Errorf("%d clients are kept, want %d", got, maxStores)
	}
}
