package access_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// tokenServer answers TokenReviews and notes the audiences that were asked for.
type tokenServer struct {
	answer func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus
	code   int
	asked  [][]string
	count  atomic.Int32
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count.Add(1)
	var review authenticationv1.TokenReview
	if json.NewDecoder(r.Body).Decode(&review) != nil || s.code != 0 {
		http.Error(w, "no", s.code)
		return
	}
	s.asked = append(s.asked, review.Spec.Audiences)
	review.Status = s.answer(review.Spec)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

// keys knows one API key.
type keys struct{ caller access.Caller }

func (k keys) Authenticate(_ context.Context, key access.Secret) (access.Caller, error) {
	if string(key) != "sk-ar-good" {
		return access.Caller{}, access.Invalid(nil)
	}
	return k.caller, nil
}

func newAuthenticator(t *testing.T, server *tokenServer, change func(*access.Options)) *access.Authenticator {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: listener.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	options := access.Options{Reviews: client.AuthenticationV1(), OperatorNamespace: "ops"}
	if change != nil {
		change(&options)
	}
	authenticator, err := access.NewAuthenticator(options)
	if err != nil {
		t.Fatalf("NewAuthenticator: %v", err)
	}
	return authenticator
}

// jwt is an unsigned token with the claims.
func jwt(claims string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

func requestWith(credential string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if credential != "" {
		r.Header.Set("X-API-Key", credential)
	}
	// Never looked at.
	r.Header.Set("X-Remote-User", "root")
	r.Header.Set("Impersonate-User", "root")
	return r
}

func yes(user authenticationv1.UserInfo) func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	return func(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: user}
	}
}

func no(authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
}

func onlyAPIServer(spec authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: len(spec.Audiences) == 0, User: authenticationv1.UserInfo{Username: "alice"}}
}

func TestAuthenticate(t *testing.T) {
	aliceInfo := authenticationv1.UserInfo{
		Username: "alice", UID: "u-1", Groups: []string{"docs"}, Extra: map[string]authenticationv1.ExtraValue{"e": {"1"}},
	}
	aliceCaller := access.Caller{Method: access.MethodToken, User: v1alpha1.Requester{
		Username: "alice", UID: "u-1", Groups: []string{"docs", "system:authenticated"}, Extra: map[string]v1alpha1.ExtraValue{"e": {"1"}},
	}}
	keyed := access.Caller{Method: access.MethodAPIKey, Namespace: "docs", User: v1alpha1.Requester{Username: "alice"}}
	cases := map[string]struct {
		server     *tokenServer
		credential string
		keys       access.APIKeys
		want       access.Caller
		wantErr    error
		wantAsked  [][]string
	}{
		"an opaque token":                     {server: &tokenServer{answer: yes(aliceInfo)}, credential: "t", want: aliceCaller, wantAsked: [][]string{nil}},
		"a token for the API server":          {server: &tokenServer{answer: yes(aliceInfo)}, credential: jwt(`{"aud":["https://kubernetes.default"]}`), want: aliceCaller, wantAsked: [][]string{nil}},
		"a token for the facade":              {server: &tokenServer{answer: yes(aliceInfo)}, credential: jwt(`{"aud":"agentruntime-facade"}`), want: aliceCaller, wantAsked: [][]string{{"agentruntime-facade"}}},
		"a token for several":                 {server: &tokenServer{answer: yes(aliceInfo)}, credential: jwt(`{"aud":["x","agentruntime-facade"]}`), want: aliceCaller, wantAsked: [][]string{{"agentruntime-facade"}}},
		"an OIDC client of the facade's name": {server: &tokenServer{answer: onlyAPIServer}, credential: jwt(`{"aud":"agentruntime-facade"}`), want: access.Caller{Method: access.MethodToken, User: v1alpha1.Requester{Username: "alice", Groups: []string{"system:authenticated"}}}, wantAsked: [][]string{{"agentruntime-facade"}, nil}},
		"a token that only looks like a JWT":  {server: &tokenServer{answer: no}, credential: "a.b!.c", wantErr: access.ErrUnauthenticated, wantAsked: [][]string{nil}},
		"a JWT without claims":                {server: &tokenServer{answer: no}, credential: jwt(`[]`), wantErr: access.ErrUnauthenticated, wantAsked: [][]string{nil}},
		"a refused token":                     {server: &tokenServer{answer: no}, credential: "t", wantErr: access.ErrUnauthenticated, wantAsked: [][]string{nil}},
		"a token of nobody":                   {server: &tokenServer{answer: yes(authenticationv1.UserInfo{})}, credential: "t", wantErr: access.ErrUnauthenticated, wantAsked: [][]string{nil}},
		"a token of one who is never served":  {server: &tokenServer{answer: yes(authenticationv1.UserInfo{Username: "x", Groups: []string{"system:masters"}})}, credential: "t", wantErr: access.ErrForbidden, wantAsked: [][]string{nil}},
		"an API server that can't say":        {server: &tokenServer{code: http.StatusForbidden}, credential: "t", wantErr: access.ErrUnavailable},
		"no credential":                       {server: &tokenServer{}, wantErr: access.ErrUnauthenticated},
		"an API key":                          {server: &tokenServer{}, credential: "sk-ar-good", keys: keys{keyed}, want: keyed},
		"an API key that is unknown":          {server: &tokenServer{}, credential: "sk-ar-bad", keys: keys{keyed}, wantErr: access.ErrUnauthenticated},
		"an API key where there are none":     {server: &tokenServer{}, credential: "sk-ar-good", wantErr: access.ErrUnauthenticated},
		"an API key of one who is not served": {server: &tokenServer{}, credential: "sk-ar-good", keys: keys{access.Caller{User: v1alpha1.Requester{Username: "system:kube-proxy"}}}, wantErr: access.ErrForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			authenticator := newAuthenticator(t, tc.server, func(o *access.Options) { o.Keys = tc.keys })
			got, err := authenticator.Authenticate(requestWith(tc.credential))
			if !errors.Is(err, tc.wantErr) || (tc.wantErr == nil && err != nil) {
				t.Fatalf("Authenticate: %v, want %v", err, tc.wantErr)
			}
			if tc.credential != "" && err != nil && len(tc.credential) > 1 && strings.Contains(err.Error(), tc.credential) {
				t.Errorf("error %q shows the credential", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAsked, tc.server.asked); diff != "" {
				t.Errorf("asked for audiences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuthenticateRemembers(t *testing.T) {
	cases := map[string]struct {
		server *tokenServer
		wait   time.Duration
		want   int32
	}{
		"a good token":              {server: &tokenServer{answer: yes(authenticationv1.UserInfo{Username: "alice"})}, wait: access.CacheTTL - 1, want: 1},
		"a good token for its time": {server: &tokenServer{answer: yes(authenticationv1.UserInfo{Username: "alice"})}, wait: access.CacheTTL + 1, want: 2},
		"a refused token":           {server: &tokenServer{answer: no}, wait: access.CacheTTL - 1, want: 1},
		"no failure":                {server: &tokenServer{code: http.StatusForbidden}, want: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			authenticator := newAuthenticator(t, tc.server, func(o *access.Options) { o.Clock = now })
			for range 2 {
				_, _ = authenticator.Authenticate(requestWith("t"))
				now.SetTime(now.Now().Add(tc.wait))
			}
			if got := tc.server.count.Load(); got != tc.want {
				t.Errorf("asked %d times, want %d", got, tc.want)
			}
		})
	}
}

func TestAuthenticateEndsWithTheRequest(t *testing.T) {
	authenticator := newAuthenticator(t, &tokenServer{answer: no}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := authenticator.Authenticate(requestWith("t").WithContext(ctx))
	if !errors.Is(err, access.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Authenticate: %v, want unavailable and canceled", err)
	}
}

func TestNewAuthenticatorChecksItsOptions(t *testing.T) {
	server := &tokenServer{answer: no}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: listener.URL}).AuthenticationV1()
	for name, options := range map[string]access.Options{
		"no client":        {OperatorNamespace: "ops"},
		"no namespace":     {Reviews: client},
		"a negative bound": {Reviews: client, OperatorNamespace: "ops", MaxReviews: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := access.NewAuthenticator(options); err == nil {
				t.Error("NewAuthenticator took them")
			}
		})
	}
}
