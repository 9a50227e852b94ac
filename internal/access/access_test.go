package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

var alice = v1alpha1.Requester{
	Username: "alice", UID: "u-1", Groups: []string{"docs"},
	Extra: map[string]v1alpha1.ExtraValue{"scopes": {"a", "b"}},
}

// reviewServer answers SubjectAccessReviews as status says and notes what was asked.
func reviewServer(t *testing.T, code int, status authorizationv1.SubjectAccessReviewStatus) (*access.SubjectAccessReviews, *[]authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	asked := &[]authorizationv1.SubjectAccessReviewSpec{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("decode review: %v", err)
		}
		*asked = append(*asked, review.Spec)
		review.Status = status
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("encode review: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	return access.NewSubjectAccessReviews(client.AuthorizationV1()), asked
}

func TestSubjectAccessReviews(t *testing.T) {
	cases := map[string]struct {
		user    v1alpha1.Requester
		code    int
		status  authorizationv1.SubjectAccessReviewStatus
		want    bool
		wantErr bool
	}{
		"an allowance allows":                {user: alice, code: http.StatusCreated, status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, want: true},
		"no opinion denies":                  {user: alice, code: http.StatusCreated},
		"a denial wins over an allowance":    {user: alice, code: http.StatusCreated, status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}},
		"a failure is neither, and an error": {user: alice, code: http.StatusForbidden, status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, wantErr: true},
		"a user without a name is denied":    {code: http.StatusCreated, status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			authorizer, asked := reviewServer(t, tc.code, tc.status)
			attrs := authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "docs", Name: "key"}
			got, _, err := authorizer.Allowed(t.Context(), tc.user, attrs)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Fatalf("Allowed = %v, %v; want %v, error %v", got, err, tc.want, tc.wantErr)
			}
			if tc.user.Username == "" {
				return
			}
			want := []authorizationv1.SubjectAccessReviewSpec{{
				ResourceAttributes: &attrs, User: "alice", UID: "u-1", Groups: []string{"docs"},
				Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
			}}
			if diff := cmp.Diff(want, *asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllowedEndsWithItsContext(t *testing.T) {
	authorizer, _ := reviewServer(t, http.StatusCreated, authorizationv1.SubjectAccessReviewStatus{Allowed: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	allowed, _, err := authorizer.Allowed(ctx, alice, authorizationv1.ResourceAttributes{Verb: "get"})
	if allowed || !errors.Is(err, context.Canceled) {
		t.Errorf("Allowed = %v, %v; want false, canceled", allowed, err)
	}
}

// scripted allows exactly one set of attributes.
type scripted struct {
	allow authorizationv1.ResourceAttributes
	err   error
	asked []authorizationv1.ResourceAttributes
}

func (s *scripted) Allowed(_ context.Context, _ v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error) {
	s.asked = append(s.asked, attrs)
	return s.err == nil && attrs == s.allow, "role x", s.err
}

type question func(context.Context, access.Authorizer, v1alpha1.Requester, string, string) (access.Decision, error)

func TestDecisions(t *testing.T) {
	use := authorizationv1.ResourceAttributes{Verb: "use", Group: "agentruntime.dev", Version: "v1alpha1", Resource: "agentruntimes", Name: "x"}
	useInNamespace := use
	useInNamespace.Namespace = "docs"
	get := authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "secrets", Namespace: "docs", Name: "x"}
	token := authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token", Namespace: "docs", Name: "x"}
	other := authorizationv1.ResourceAttributes{Verb: "none"}
	cases := map[string]struct {
		ask         question
		allow       authorizationv1.ResourceAttributes
		wantAsked   []authorizationv1.ResourceAttributes
		wantMessage string
	}{
		"a runtime by the namespace":     {ask: access.CanUseRuntime, allow: useInNamespace, wantAsked: []authorizationv1.ResourceAttributes{useInNamespace}},
		"a runtime cluster-wide":         {ask: access.CanUseRuntime, allow: use, wantAsked: []authorizationv1.ResourceAttributes{useInNamespace, use}},
		"a runtime by nothing":           {ask: access.CanUseRuntime, allow: other, wantAsked: []authorizationv1.ResourceAttributes{useInNamespace, use}, wantMessage: `grant the verb "use" on agentruntimes.agentruntime.dev/x`},
		"a Secret":                       {ask: access.CanGetSecret, allow: get, wantAsked: []authorizationv1.ResourceAttributes{get}},
		"a Secret by nothing":            {ask: access.CanGetSecret, allow: other, wantAsked: []authorizationv1.ResourceAttributes{get}, wantMessage: `grant the verb "get" on secrets/x in namespace "docs"`},
		"a token":                        {ask: access.CanCreateToken, allow: token, wantAsked: []authorizationv1.ResourceAttributes{token}},
		"a ServiceAccount by its naming": {ask: access.CanCreateToken, allow: other, wantAsked: []authorizationv1.ResourceAttributes{token}, wantMessage: `grant the verb "create" on serviceaccounts/token for x in namespace "docs"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			authorizer := &scripted{allow: tc.allow}
			got, err := tc.ask(t.Context(), authorizer, alice, "docs", "x")
			if err != nil {
				t.Fatalf("decide: %v", err)
			}
			if diff := cmp.Diff(tc.wantAsked, authorizer.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if got.Allowed != (tc.wantMessage == "") || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("decision = %+v, want message with %q", got, tc.wantMessage)
			}
			if strings.Contains(got.Message, "role x") {
				t.Errorf("message %q shows the authorizer's reason", got.Message)
			}
		})
	}
}

func TestDecisionsPassErrorsOn(t *testing.T) {
	broken := errors.New("no answer")
	for name, ask := range map[string]question{
		"runtime": access.CanUseRuntime, "secret": access.CanGetSecret, "token": access.CanCreateToken,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t.Context(), &scripted{err: broken}, alice, "docs", "x")
			if got.Allowed || !errors.Is(err, broken) {
				t.Errorf("decision = %+v, %v; want not allowed, %v", got, err, broken)
			}
		})
	}
}
