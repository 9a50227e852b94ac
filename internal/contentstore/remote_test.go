package contentstore

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func webServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL
}

func newRemote(t *testing.T, url string, change ...func(*RemoteConfig)) *Remote {
	t.Helper()
	cfg := RemoteConfig{BaseURL: url}
	for _, c := range change {
		c(&cfg)
	}
	remote, err := NewRemote(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remote.Close)
	return remote
}

func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const docsURI = "viking://resources/docs"

func statDocs(t *testing.T, r *Remote) (Info, error) {
	t.Helper()
	return r.For("ov-key").Stat(t.Context(), alice, uri(t, docsURI))
}

func TestRemoteAsksAsTheFactsSay(t *testing.T) {
	var got []string
	url := webServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery, r.Header.Get("X-API-Key"),
			r.Header.Get("X-Gateway-Token"), r.Header.Get("X-OpenViking-Account"), r.Header.Get("X-OpenViking-User"))
		_, _ = io.WriteString(w, `{"status":"ok","result":{"isDir":false,"size":3}}`)
	})
	remote := newRemote(t, url+"/ov/", func(c *RemoteConfig) {
		c.GatewayToken = func(context.Context) (string, error) { return "tok\n", nil }
	})
	info, err := remote.For(" ov-key ").Stat(t.Context(), alice, uri(t, "viking://resources/a & b%20+.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Info{URI: "viking://resources/a & b%20+.md", Size: 3}, info); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"GET /ov/api/v1/fs/stat?uri=viking%3A%2F%2Fresources%2Fa+%26+b%2520%2B.md", "ov-key", "tok", "team-a", "alice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRemoteErrorsHaveAKindAndTellNoSecret(t *testing.T) {
	failure := func(code string) string {
		return `{"status":"error","error":{"code":"` + code + `","message":"ov-key at http://10.0.0.5/secret"}}`
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		want   Kind
	}{
		"missing":                            {says(404, failure("NOT_FOUND")), KindNotFound},
		"a route that is missing":            {says(404, "404 page not found"), KindUnavailable},
		"a framework's missing route":        {says(404, `{"detail":"Not Found"}`), KindUnavailable},
		"a protocol's missing route":         {says(404, `{"detail":{"code":"NOT_FOUND"},"error":{"code":"NOT_FOUND"}}`), KindUnavailable},
		"another's":                          {says(403, failure("PERMISSION_DENIED")), KindDenied},
		"another's, in plain words":          {says(403, "no"), KindDenied},
		"an unknown key":                     {says(401, failure("UNAUTHENTICATED")), KindUnauthenticated},
		"a bad URI":                          {says(400, failure("INVALID_URI")), KindInvalid},
		"a schema's refusal":                 {says(422, `{"detail":[]}`), KindInvalid},
		"not a directory":                    {says(412, failure("FAILED_PRECONDITION")), KindInvalid},
		"busy":                               {says(409, failure("CONFLICT")), KindConflict},
		"too many":                           {says(429, failure("RESOURCE_EXHAUSTED")), KindExhausted},
		"too large":                          {says(400, failure("RESOURCE_EXHAUSTED")), KindExhausted},
		"broken":                             {says(500, failure("INTERNAL")), KindUnavailable},
		"broken, with a code of a request's": {says(500, failure("NOT_FOUND")), KindUnavailable},
		"away":                               {says(503, failure("UNAVAILABLE")), KindUnavailable},
		"an unknown code":                    {says(418, failure("ov-key")), KindUnavailable},
		"a redirect":                         {says(302, "", "Location", "http://10.0.0.5/"), KindUnavailable},
		"no JSON":                            {says(200, "<html>10.0.0.5</html>"), KindUnavailable},
		"half an answer":                     {says(200, `{"status":"ok","result":{"isD`), KindUnavailable},
		"a body cut short":                   {says(200, `{"status":"ok"}`, "Content-Length", "500"), KindUnavailable},
		"an error with 200":                  {says(200, failure("NOT_FOUND")), KindUnavailable},
		"no kind":                            {says(200, `{"status":"ok","result":{"name":"docs"}}`), KindUnavailable},
		"an oversized answer":                {says(200, strings.Repeat(" ", 5<<20)), KindExhausted},
		"a gateway that refuses":             {says(403, failure("PERMISSION_DENIED"), "X-VikingBot-Gateway", "true"), KindDenied},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := statDocs(t, newRemote(t, webServer(t, tc.answer)))
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != tc.want {
				t.Fatalf("Stat: %v, want %s", err, tc.want)
			}
			for _, secret := range []string{"ov-key", "10.0.0.5", "127.0.0.1"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells %q: %v", secret, err)
				}
			}
		})
	}
}

func TestRemoteFollowsNoRedirect(t *testing.T) {
	var followed atomic.Bool
	elsewhere := webServer(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	url := webServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	if _, err := statDocs(t, newRemote(t, url)); !IsUnavailable(err) || followed.Load() {
		t.Errorf("Stat: %v, followed: %t", err, followed.Load())
	}
}

func TestRemoteGivesUpOnASlowServer(t *testing.T) {
	url := webServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	remote := newRemote(t, url, func(c *RemoteConfig) { c.Timeout = 50 * time.Millisecond })
	_, err := statDocs(t, remote)
	if want := docsURI + ": the content store can't be asked: no answer within 50ms"; !IsUnavailable(err) || err.Error() != want {
		t.Errorf("Stat: %v, want %s", err, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := remote.For("k").Stat(ctx, alice, uri(t, docsURI)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stat whose caller's time is over: %v", err)
	}
}

func TestRemoteAsksTwiceWhenAConnectionBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		broken, wantCalls int32
		want              Kind
	}{
		"once":   {1, 2, ""},
		"always": {9, 2, KindUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			url := webServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) <= tc.broken {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, `{"status":"ok","result":{"isDir":true}}`)
			})
			_, err := statDocs(t, newRemote(t, url))
			if (err == nil) != (tc.want == "") || err != nil && KindOf(err) != tc.want {
				t.Errorf("Stat: %v", err)
			}
			if calls.Load() != tc.wantCalls {
				t.Errorf("%d calls, want %d", calls.Load(), tc.wantCalls)
			}
		})
	}
}

func TestRemoteTriesAReplacedGatewayTokenOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		next string
		ok   bool
		want []string
	}{
		"it was replaced": {"new", true, []string{"old", "new"}},
		"it was not":      {"old", false, []string{"old"}},
		"by a bad one":    {"bad", false, []string{"old", "bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent, refused []string
			url := webServer(t, func(w http.ResponseWriter, r *http.Request) {
				token := r.Header.Get("X-Gateway-Token")
				sent = append(sent, token)
				if token != "new" {
					w.Header().Set("X-VikingBot-Gateway", "true")
					w.WriteHeader(http.StatusForbidden)
					return
				}
				_, _ = io.WriteString(w, `{"status":"ok","result":{"isDir":true}}`)
			})
			remote := newRemote(t, url, func(c *RemoteConfig) {
				c.GatewayToken = func(context.Context) (string, error) {
					if len(refused) > 0 {
						return tc.next, nil
					}
					return "old", nil
				}
				c.GatewayRefused = func(token string) { refused = append(refused, token) }
			})
			_, err := remote.For("").Stat(t.Context(), alice, uri(t, docsURI))
			if (err == nil) != tc.ok || err != nil && !IsUnavailable(err) {
				t.Errorf("Stat: %v", err)
			}
			if diff := cmp.Diff(tc.want, sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemoteNeedsACredentialAndAKnownUser(t *testing.T) {
	var calls atomic.Int32
	url := webServer(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	guarded := func(token string, err error) func(*RemoteConfig) {
		return func(c *RemoteConfig) {
			c.GatewayToken = func(context.Context) (string, error) { return token, err }
		}
	}
	for name, tc := range map[string]struct {
		remote *Remote
		key    string
		who    Principal
		want   Kind
	}{
		"neither token nor key":        {newRemote(t, url), "", alice, KindUnauthenticated},
		"a key that no header carries": {newRemote(t, url), "a\r\nX-Evil: 1", alice, KindUnauthenticated},
		"a token that can't be read":   {newRemote(t, url, guarded("", errors.New("Secret operator/x"))), "k", alice, KindUnavailable},
		"an empty token":               {newRemote(t, url, guarded(" \n", nil)), "k", alice, KindUnavailable},
		"nobody":                       {newRemote(t, url, guarded("tok", nil)), "", Principal{Account: "team-a"}, KindInvalid},
		"an account out of the tree":   {newRemote(t, url), "k", Principal{Account: "..", User: "alice"}, KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.remote.For(tc.key).Stat(t.Context(), tc.who, uri(t, docsURI))
			if err == nil || KindOf(err) != tc.want {
				t.Errorf("Stat: %v, want %s", err, tc.want)
			}
			if strings.Contains(err.Error(), "Secret") {
				t.Errorf("the user is told how the token is kept: %v", err)
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls were made", calls.Load())
	}
}

func TestRemoteListingTrustsNothing(t *testing.T) {
	body := `{"status":"ok","skipped":1,"result":[
		{"rel_path":"b/x.md","isDir":false,"size":2,"uri":"viking://user/bob/x.md"},
		{"rel_path":"b/","isDir":true,"size":4096},
		{"rel_path":"b","isDir":true},
		{"rel_path":"a.md","isDir":false,"size":1},
		{"uri":"viking://resources/docs/b-c/","isDir":true},
		{"rel_path":".git/config","isDir":false}, {"rel_path":"b/.abstract.md","isDir":false},
		{"rel_path":"../../user/bob/x","isDir":false}, {"rel_path":"/etc/passwd","isDir":false},
		{"rel_path":"%2e%2e/x","isDir":false}, {"rel_path":"c/../../x","isDir":false},
		{"uri":"viking://user/bob/x.md","isDir":false}, {"name":"only a name","isDir":false},
		{"uri":"viking://resources/docs","isDir":true}]}`
	remote := newRemote(t, webServer(t, says(200, body)))
	got, err := remote.For("k").List(t.Context(), alice, uri(t, docsURI), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := Listing{Skipped: 8, Entries: []Info{
		{URI: docsURI + "/a.md", Path: "a.md", Size: 1},
		{URI: docsURI + "/b", Path: "b", Dir: true},
		{URI: docsURI + "/b/x.md", Path: "b/x.md", Size: 2},
		{URI: docsURI + "/b-c", Path: "b-c", Dir: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRemoteListingThatIsCutIsSaidToBe(t *testing.T) {
	entries := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"rel_path":"f%05d","isDir":false}`, i)
		}
		return "[" + strings.TrimPrefix(b.String(), ",") + "]"
	}
	for name, tc := range map[string]struct {
		body        string
		limit, want int
		truncated   bool
	}{
		"more than asked for":                 {`{"status":"ok","result":` + entries(6000) + `}`, 0, MaxListEntries, true},
		"as many as asked for":                {`{"status":"ok","result":` + entries(3) + `}`, 3, 3, false},
		"one more, cut in silence":            {`{"status":"ok","result":` + entries(4) + `}`, 3, 3, true},
		"fewer, since the server says so":     {`{"status":"ok","has_more":true,"result":` + entries(2) + `}`, 3, 2, true},
		"an empty directory":                  {`{"status":"ok","result":[]}`, 3, 0, false},
		"a negative limit means all one gets": {`{"status":"ok","result":` + entries(4) + `}`, -1, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			remote := newRemote(t, webServer(t, says(200, tc.body)))
			got, err := remote.For("k").List(t.Context(), alice, uri(t, docsURI), tc.limit)
			if err != nil || len(got.Entries) != tc.want || got.Truncated != tc.truncated {
				t.Errorf("List = %d entries, truncated %t, %v; want %d, %t", len(got.Entries), got.Truncated, err, tc.want, tc.truncated)
			}
		})
	}
}

func TestRemoteReadIsBounded(t *testing.T) {
	remote := newRemote(t, webServer(t, says(200, `{"status":"ok","result":"hello"}`)))
	file := uri(t, docsURI+"/a.md")
	if got, err := remote.For("k").Read(t.Context(), alice, file, 5); err != nil || string(got) != "hello" {
		t.Errorf("Read = %q, %v", got, err)
	}
	if _, err := remote.For("k").Read(t.Context(), alice, file, 4); !IsExhausted(err) {
		t.Errorf("Read over the limit: %v", err)
	}
	flood := newRemote(t, webServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ok","result":"`)
		for chunk := bytes.Repeat([]byte("x"), 64<<10); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	if _, err := flood.For("k").Read(t.Context(), alice, file, 100); !IsExhausted(err) {
		t.Errorf("Read of what does not end: %v", err)
	}
}

func TestRemoteTrustsOnlyItsBundle(t *testing.T) {
	web := httptest.NewTLSServer(says(200, `{"status":"ok","result":{"isDir":true}}`))
	t.Cleanup(web.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if _, err := statDocs(t, newRemote(t, web.URL, func(c *RemoteConfig) { c.CABundle = bundle })); err != nil {
		t.Errorf("Stat with the bundle: %v", err)
	}
	_, err := statDocs(t, newRemote(t, web.URL))
	if !IsUnavailable(err) || !strings.HasSuffix(err.Error(), "TLS: certificate not trusted") {
		t.Errorf("Stat without the bundle: %v", err)
	}
	for name, cfg := range map[string]RemoteConfig{
		"a URL with a password": {BaseURL: "https://u:hunter22@host"},
		"another scheme":        {BaseURL: "file:///hunter22"},
		"no certificate":        {BaseURL: "https://host", CABundle: []byte("hunter22")},
		"a negative timeout":    {BaseURL: "https://host", Timeout: -1},
	} {
		if _, err := NewRemote(cfg); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
