package access_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// counting answers what it is told and counts.
type counting struct {
	allowed bool
	err     error
	asked   int
}

func (c *counting) Allowed(context.Context, v1alpha1.Requester, authorizationv1.ResourceAttributes) (bool, string, error) {
	c.asked++
	return c.allowed, "role x", c.err
}

func TestCachedAuthorizer(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	broken := errors.New("no answer")
	cases := map[string]struct {
		inner     counting
		wait      time.Duration
		wantAsked int
	}{
		"a yes is remembered":           {inner: counting{allowed: true}, wait: access.CacheTTL - 1, wantAsked: 1},
		"a no is remembered":            {inner: counting{}, wait: access.CacheTTL - 1, wantAsked: 1},
		"a yes ends":                    {inner: counting{allowed: true}, wait: access.CacheTTL + 1, wantAsked: 2},
		"a no ends":                     {inner: counting{}, wait: access.CacheTTL + 1, wantAsked: 2},
		"a failure is never remembered": {inner: counting{err: broken}, wantAsked: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(start)
			authorizer := access.NewCachedAuthorizer(&tc.inner, 0, now)
			for range 2 {
				allowed, _, err := authorizer.Allowed(t.Context(), alice, authorizationv1.ResourceAttributes{Verb: "get"})
				if allowed != tc.inner.allowed || !errors.Is(err, tc.inner.err) {
					t.Errorf("Allowed = %v, %v; want %v, %v", allowed, err, tc.inner.allowed, tc.inner.err)
				}
				if tc.inner.err != nil && !errors.Is(err, access.ErrUnavailable) {
					t.Errorf("error %v is not ErrUnavailable", err)
				}
				now.SetTime(now.Now().Add(tc.wait))
			}
			if tc.inner.asked != tc.wantAsked {
				t.Errorf("asked %d times, want %d", tc.inner.asked, tc.wantAsked)
			}
		})
	}
}

func TestCachedAuthorizerTellsQuestionsApart(t *testing.T) {
	base := authorizationv1.ResourceAttributes{Verb: "get", Group: "g", Version: "v", Resource: "r", Namespace: "n"}
	change := func(do func(*v1alpha1.Requester, *authorizationv1.ResourceAttributes)) func() (v1alpha1.Requester, authorizationv1.ResourceAttributes) {
		return func() (v1alpha1.Requester, authorizationv1.ResourceAttributes) {
			user, attrs := *alice.DeepCopy(), base
			do(&user, &attrs)
			return user, attrs
		}
	}
	questions := map[string]func() (v1alpha1.Requester, authorizationv1.ResourceAttributes){
		"the first":    change(func(*v1alpha1.Requester, *authorizationv1.ResourceAttributes) {}),
		"another name": change(func(u *v1alpha1.Requester, _ *authorizationv1.ResourceAttributes) { u.Username = "bob" }),
		"another uid":  change(func(u *v1alpha1.Requester, _ *authorizationv1.ResourceAttributes) { u.UID = "u-2" }),
		"other groups": change(func(u *v1alpha1.Requester, _ *authorizationv1.ResourceAttributes) { u.Groups = []string{"ops"} }),
		"other extras": change(func(u *v1alpha1.Requester, _ *authorizationv1.ResourceAttributes) {
			u.Extra["scopes"] = v1alpha1.ExtraValue{"a"}
		}),
		"another verb":      change(func(_ *v1alpha1.Requester, a *authorizationv1.ResourceAttributes) { a.Verb = "list" }),
		"another namespace": change(func(_ *v1alpha1.Requester, a *authorizationv1.ResourceAttributes) { a.Namespace = "m" }),
		"a subresource":     change(func(_ *v1alpha1.Requester, a *authorizationv1.ResourceAttributes) { a.Subresource = "own" }),
		"an object's name":  change(func(_ *v1alpha1.Requester, a *authorizationv1.ResourceAttributes) { a.Name = "x" }),
		"a selector": change(func(_ *v1alpha1.Requester, a *authorizationv1.ResourceAttributes) {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: "x"}
		}),
	}
	inner := &counting{allowed: true}
	authorizer := access.NewCachedAuthorizer(inner, 0, nil)
	for name, question := range questions {
		before := inner.asked
		for range 2 {
			user, attrs := question()
			if _, _, err := authorizer.Allowed(t.Context(), user, attrs); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if inner.asked != before+1 {
			t.Errorf("%s was asked %d times, want 1", name, inner.asked-before)
		}
	}
}

func TestTaskQuestions(t *testing.T) {
	attrs := func(subresource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Verb: "get", Group: "agentruntime.dev", Version: "v1alpha1", Resource: "compiletasks", Subresource: subresource, Namespace: "docs",
		}
	}
	cases := map[string]struct {
		ask         func(context.Context, access.Authorizer, v1alpha1.Requester, string) (access.Decision, error)
		want        authorizationv1.ResourceAttributes
		wantMessage string
	}{
		"own tasks":     {ask: access.CanReadOwn, want: attrs("own"), wantMessage: `grant the verb "get" on compiletasks.agentruntime.dev/own in namespace "docs"`},
		"other's tasks": {ask: access.CanReadAny, want: attrs("any"), wantMessage: `grant the verb "get" on compiletasks.agentruntime.dev/any in namespace "docs"`},
		"all tasks":     {ask: access.CanListAny, want: attrs("any"), wantMessage: `grant the verb "get" on compiletasks.agentruntime.dev/any in namespace "docs"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			authorizer := &scripted{allow: tc.want}
			if got, err := tc.ask(t.Context(), authorizer, alice, "docs"); err != nil || !got.Allowed || got.Message != "" {
				t.Errorf("decision = %+v, %v; want allowed", got, err)
			}
			if diff := cmp.Diff([]authorizationv1.ResourceAttributes{tc.want}, authorizer.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			got, err := tc.ask(t.Context(), &scripted{}, alice, "docs")
			if err != nil || got.Allowed || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("decision = %+v, %v; want a message with %q", got, err, tc.wantMessage)
			}
			broken := errors.New("no answer")
			if got, err := tc.ask(t.Context(), &scripted{err: broken}, alice, "docs"); got.Allowed || !errors.Is(err, broken) {
				t.Errorf("decision = %+v, %v; want %v", got, err, broken)
			}
		})
	}
}
