package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

func TestGateway(t *testing.T) {
	const token = "the-gateway-token"
	tokens := []string{"older-token", token}
	for name, tc := range map[string]struct {
		loopback  bool
		tokens    []string
		h         headers
		code      int
		challenge bool
	}{
		"no token configured, open listener":       {false, nil, nil, 503, false},
		"no token configured, some token shown":    {false, nil, headers{"X-Gateway-Token", "x"}, 503, false},
		"required and missing":                     {false, tokens, nil, 401, true},
		"wrong":                                    {false, tokens, headers{"X-Gateway-Token", "wrong"}, 403, true},
		"a prefix of the token":                    {false, tokens, headers{"X-Gateway-Token", token[:5]}, 403, true},
		"right":                                    {false, tokens, headers{"X-Gateway-Token", token}, 202, false},
		"the older of two, while they are rotated": {false, tokens, headers{"X-Gateway-Token", "older-token"}, 202, false},
		"loopback on both ends":                    {true, tokens, nil, 202, false},
		"loopback, nothing configured":             {true, nil, nil, 202, false},
		"loopback, with a wrong token":             {true, tokens, headers{"X-Gateway-Token", "wrong"}, 403, true},
		"loopback, some token, none configured":    {true, nil, headers{"X-Gateway-Token", "x"}, 202, false},
		"loopback, but proxied from elsewhere":     {true, tokens, headers{"X-Forwarded-For", "192.0.2.1"}, 401, true},
		"proxied, with the token":                  {true, tokens, headers{"Forwarded", "for=192.0.2.1", "X-Gateway-Token", token}, 202, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(c *Config) {
				c.ListenerLoopback = tc.loopback
				c.GatewayTokens = func() []string { return tc.tokens }
			})
			a := s.post(runtimeapi.PathTasks, taskBody(wiki), append(user(alice), tc.h...))
			if a.code != tc.code || (a.header.Get("X-VikingBot-Gateway") == "true") != tc.challenge {
				t.Errorf("create = %d %s %v", a.code, a.body, a.header)
			}
			if strings.Contains(string(a.body), token) {
				t.Error("the answer tells the token")
			}
			if prepared, _ := s.engine.counts(); (prepared == 1) != (tc.code == 202) {
				t.Errorf("the engine was asked %d times", prepared)
			}
			a = s.post(runtimeapi.PathStatus, sessionBody("x"), append(user(alice), tc.h...))
			if want := map[bool]int{true: 404, false: tc.code}[tc.code == 202]; a.code != want || a.header.Get("Preference-Applied") != "wait" {
				t.Errorf("status = %d %v, want %d", a.code, a.header, want)
			}
			// Probes are open to anyone.
			resp, err := s.web.Client().Get(s.web.URL + PathHealth)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("health: %v, %v", resp, err)
			}
			_ = resp.Body.Close()
		})
	}
}

func TestFromLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "127.9.9.9:1": true, "192.0.2.1:1": false, "[2001:db8::1]:1": false,
		"@": false, "": false, "localhost:1": false,
	} {
		if got := fromLoopback(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%q: %v, want %v", addr, got, want)
		}
	}
}

// verifier knows a few tokens.
type verifier map[string]string

func (v verifier) Verify(_ context.Context, token string) (string, error) {
	switch name := v[token]; name {
	case "":
		return "", ErrBadToken
	case "outage":
		return "", errors.New("connection refused")
	default:
		return name, nil
	}
}

func TestWhoTheUserIs(t *testing.T) {
	const gw = "gw"
	tokens := verifier{"sa": "system:serviceaccount:docs:builder", "oidc": "alice@example.com", "down": "outage"}
	trusted := func(account, user string, more ...string) headers {
		h := headers{runtimeapi.HeaderGatewayToken, gw}
		if account != "" {
			h = append(h, runtimeapi.HeaderAccount, account)
		}
		if user != "" {
			h = append(h, runtimeapi.HeaderUser, user)
		}
		return append(h, more...)
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		h      headers
		want   runtime.Principal
		code   int // when refused
	}{
		"an opaque key":                            {h: user("k"), want: runtime.Principal{Account: "default", User: keyUser("k")}},
		"a key wins over a bearer token":           {h: user("k", "Authorization", "Bearer other"), want: runtime.Principal{Account: "default", User: keyUser("k")}},
		"another default account":                  {change: func(c *Config) { c.DefaultAccount = "team" }, h: user("k"), want: runtime.Principal{Account: "team", User: keyUser("k")}},
		"headers without the token are ignored":    {h: user("k", runtimeapi.HeaderAccount, "x", runtimeapi.HeaderUser, "y"), want: runtime.Principal{Account: "default", User: keyUser("k")}},
		"only headers, without the token":          {h: headers{runtimeapi.HeaderAccount, "x", runtimeapi.HeaderUser, "y"}, code: 401},
		"headers with the token":                   {h: trusted("acct", "alice"), want: runtime.Principal{Account: "acct", User: "alice"}},
		"headers with the token, beside a key":     {h: trusted("acct", "alice", "X-API-Key", "k"), want: runtime.Principal{Account: "acct", User: "alice"}},
		"an account header beside a key":           {h: trusted("acct", "", "X-API-Key", "k"), want: runtime.Principal{Account: "acct", User: keyUser("k")}},
		"an account header alone":                  {h: trusted("acct", ""), code: 401},
		"a user header alone":                      {h: trusted("", "alice", "X-API-Key", "k"), code: 400},
		"an account that is no DNS label":          {h: trusted("a:b", "alice"), code: 400},
		"an account with capitals":                 {h: trusted("Acct", "alice"), code: 400},
		"a user that is no user id":                {h: trusted("acct", "a/../b"), code: 400},
		"a user with a colon":                      {h: trusted("acct", "a:b"), code: 400},
		"a user that is too long":                  {h: trusted("acct", strings.Repeat("u", 129)), code: 400},
		"headers trusted on loopback":              {change: func(c *Config) { c.TrustLoopbackIdentity = true }, h: headers{runtimeapi.HeaderAccount, "x", runtimeapi.HeaderUser, "y"}, want: runtime.Principal{Account: "x", User: "y"}},
		"a ServiceAccount's token":                 {change: func(c *Config) { c.Tokens = tokens }, h: user("sa"), want: runtime.Principal{Account: "docs", User: viking.UserID("system:serviceaccount:docs:builder")}},
		"the same as a bearer token":               {change: func(c *Config) { c.Tokens = tokens }, h: headers{"Authorization", "Bearer sa"}, want: runtime.Principal{Account: "docs", User: viking.UserID("system:serviceaccount:docs:builder")}},
		"the same with a trusted account":          {change: func(c *Config) { c.Tokens = tokens }, h: trusted("other", "", "X-API-Key", "sa"), want: runtime.Principal{Account: "other", User: viking.UserID("system:serviceaccount:docs:builder")}},
		"a person's token":                         {change: func(c *Config) { c.Tokens = tokens }, h: user("oidc"), want: runtime.Principal{Account: "default", User: "alice@example.com"}},
		"a bad token":                              {change: func(c *Config) { c.Tokens = tokens }, h: user("bad"), code: 401},
		"a token that can't be checked":            {change: func(c *Config) { c.Tokens = tokens }, h: user("down"), code: 503},
		"no token":                                 {change: func(c *Config) { c.Tokens = tokens }, code: 401},
		"trusted headers where tokens are checked": {change: func(c *Config) { c.Tokens = tokens }, h: trusted("acct", "alice"), want: runtime.Principal{Account: "acct", User: "alice"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(c *Config) {
				c.GatewayTokens = func() []string { return []string{gw} }
				if tc.change != nil {
					tc.change(c)
				}
			})
			a := s.post(runtimeapi.PathTasks, taskBody(wiki), tc.h)
			if tc.code != 0 {
				if prepared, _ := s.engine.counts(); a.code != tc.code || prepared != 0 {
					t.Errorf("create = %d %s, engine asked %d times", a.code, a.body, prepared)
				}
				return
			}
			if a.code != 202 {
				t.Fatalf("create = %d %s", a.code, a.body)
			}
			if diff := cmp.Diff(tc.want, s.engine.prepared[0].Principal); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
			if b := s.post(runtimeapi.PathStatus, sessionBody(a.session()), tc.h); b.code != 200 {
				t.Errorf("status by the same caller = %d %s", b.code, b.body)
			}
			if b := s.status(a.session(), "someone-else"); b.code == 200 {
				t.Errorf("status by another = %d %s", b.code, b.body)
			}
		})
	}
}

func TestTheForwardedKeyDoesNotMatterBesideTrustedHeaders(t *testing.T) {
	s := newStack(t, func(c *Config) { c.TrustLoopbackIdentity = true })
	who := headers{runtimeapi.HeaderAccount, "a", runtimeapi.HeaderUser, "u", runtimeapi.HeaderIdempotencyKey, "cmp_1"}
	first := s.create(wiki, append(who, "X-API-Key", "old"))
	if again := s.create(wiki, append(who, "X-API-Key", "new")); again != first {
		t.Errorf("replay with a new key = %s, want %s", again, first)
	}
}

// reviewServer is an API server that answers TokenReviews.
type reviewServer struct {
	asked  atomic.Int32
	answer func(authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, int)
}

func (r *reviewServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	var review authenticationv1.TokenReview
	if req.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" || json.NewDecoder(req.Body).Decode(&review) != nil {
		http.Error(w, "what?", http.StatusBadRequest)
		return
	}
	status, code := r.answer(review.Spec)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Status = status
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(review)
}

func reviewer(t *testing.T, r *reviewServer, audience string) *TokenReviewer {
	t.Helper()
	api := httptest.NewServer(r)
	t.Cleanup(api.Close)
	cfg := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := authenticationclient.NewForConfigAndClient(cfg, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	return NewTokenReviewer(client.TokenReviews(), audience)
}

func TestTokenReview(t *testing.T) {
	good := authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{"runtime"}, User: authenticationv1.UserInfo{Username: "alice"},
	}
	changed := func(f func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
		s := *good.DeepCopy()
		f(&s)
		return s
	}
	for name, tc := range map[string]struct {
		status   authenticationv1.TokenReviewStatus
		code     int
		audience string
		want     string
		bad      bool
		outage   bool
	}{
		"a good token":                     {status: good, audience: "runtime", want: "alice"},
		"a good token of the API server's": {status: changed(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }), want: "alice"},
		"a token that is not good":         {status: authenticationv1.TokenReviewStatus{Error: "expired"}, audience: "runtime", bad: true},
		"a token for another audience":     {status: changed(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"other"} }), audience: "runtime", bad: true},
		"an authenticator that knows no audiences": {
			status: changed(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }), audience: "runtime", bad: true},
		"nobody":            {status: changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:anonymous" }), audience: "runtime", bad: true},
		"a nameless user":   {status: changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "" }), audience: "runtime", outage: true},
		"an API server off": {code: 500, audience: "runtime", outage: true},
	} {
		t.Run(name, func(t *testing.T) {
			var spec authenticationv1.TokenReviewSpec
			api := &reviewServer{answer: func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, int) {
				spec = s
				if tc.code != 0 {
					return tc.status, tc.code
				}
				return tc.status, http.StatusCreated
			}}
			r := reviewer(t, api, tc.audience)
			got, err := r.Verify(t.Context(), "token-text")
			if got != tc.want || errors.Is(err, ErrBadToken) != tc.bad || (err != nil && !tc.bad) != tc.outage {
				t.Errorf("Verify = %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "token-text") {
				t.Errorf("the error tells the token: %v", err)
			}
			if tc.code == 0 && (spec.Token != "token-text" || (tc.audience != "") != (len(spec.Audiences) == 1)) {
				t.Errorf("asked %+v", spec)
			}
		})
	}
}

func TestTokenReviewsAreRemembered(t *testing.T) {
	api := &reviewServer{answer: func(s authenticationv1.TokenReviewSpec) (authenticationv1.TokenReviewStatus, int) {
		return authenticationv1.TokenReviewStatus{Authenticated: s.Token == "good", User: authenticationv1.UserInfo{Username: s.Token}}, 201
	}}
	r := reviewer(t, api, "")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if name, err := r.Verify(t.Context(), "good"); name != "good" || err != nil {
				t.Errorf("good = %q, %v", name, err)
			}
			if _, err := r.Verify(t.Context(), "bad"); !errors.Is(err, ErrBadToken) {
				t.Errorf("bad = %v", err)
			}
		})
	}
	wg.Wait()
	if n := api.asked.Load(); n > 4 {
		t.Errorf("asked %d times", n)
	}
}

// countingReviews answers without a network, so that time can be simulated.
type countingReviews struct {
	authenticationclient.TokenReviewInterface
	asked int
}

func (c *countingReviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	c.asked++
	review.Status.Authenticated = review.Spec.Token == "good"
	review.Status.User.Username = "alice"
	return review, nil
}

func TestTokenReviewsAreForgottenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &countingReviews{}
		r := NewTokenReviewer(api, "")
		ask := func(token string, after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			_, _ = r.Verify(t.Context(), token)
			if api.asked != want {
				t.Errorf("%s after %s: asked %d times, want %d", token, after, api.asked, want)
			}
		}
		ask("good", 0, 1)
		ask("good", 9*time.Second, 1)
		ask("good", 2*time.Second, 2)
		ask("bad", 0, 3)
		ask("bad", time.Second, 3)
		ask("bad", 2*time.Second, 4)
	})
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newStack(t, func(c *Config) {
		c.Metrics = NewMetrics(registry)
		c.Limits.AdmittedPerUser = 1
	})
	g := newGate()
	s.engine.run = g.run
	h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
	id := s.create(wiki, h)
	receive(t, g.began)
	s.create(wiki, h)
	s.post(runtimeapi.PathTasks, taskBody(wiki), user(alice))
	s.post(runtimeapi.PathTasks, `{}`, user(alice))
	s.post(runtimeapi.PathTasks, taskBody(wiki), nil)
	poll := s.asyncStatus(id, runtimeapi.HeaderPrefer, "wait=60")
	s.awaitHeld(1)
	want := `
# HELP agentruntime_runtime_creates_total Create requests by outcome.
# TYPE agentruntime_runtime_creates_total counter
agentruntime_runtime_creates_total{outcome="created"} 1
agentruntime_runtime_creates_total{outcome="exhausted"} 1
agentruntime_runtime_creates_total{outcome="invalid"} 1
agentruntime_runtime_creates_total{outcome="replayed"} 1
agentruntime_runtime_creates_total{outcome="unauthenticated"} 1
# HELP agentruntime_runtime_held_polls Status requests being held.
# TYPE agentruntime_runtime_held_polls gauge
agentruntime_runtime_held_polls 1
# HELP agentruntime_runtime_sessions Sessions that have not ended, by status.
# TYPE agentruntime_runtime_sessions gauge
agentruntime_runtime_sessions{status="cancelling"} 0
agentruntime_runtime_sessions{status="pending"} 0
agentruntime_runtime_sessions{status="running"} 1
`
	names := []string{"agentruntime_runtime_creates_total", "agentruntime_runtime_held_polls", "agentruntime_runtime_sessions"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	close(g.let)
	receive(t, poll)
	s.assertIdle()
	want = `
# HELP agentruntime_runtime_sessions_finished_total Sessions that ended, by status.
# TYPE agentruntime_runtime_sessions_finished_total counter
agentruntime_runtime_sessions_finished_total{status="completed"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "agentruntime_runtime_sessions_finished_total"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"agentruntime_runtime_queue_wait_seconds", "agentruntime_runtime_run_seconds"} {
		if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
}
