package apikey_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
)

// shelf holds Secrets by name.
type shelf struct {
	secrets map[string]*corev1.Secret
	err     error
	read    int
}

func (s *shelf) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	s.read++
	if s.err != nil {
		return nil, s.err
	}
	if secret, ok := s.secrets[name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func TestLookup(t *testing.T) {
	key := apikey.Mint()
	broken := errors.New("no answer")
	cases := map[string]struct {
		key        access.Secret
		change     func(*corev1.Secret)
		err        error
		later      time.Duration
		want       access.Caller
		wantErr    error
		wantReason access.Reason
		wantCause  string
	}{
		"a key": {want: access.Caller{
			User:   v1alpha1.Requester{Username: "alice@example.com", UID: "u-1", Groups: []string{"docs", "ops", "system:authenticated"}},
			Method: access.MethodAPIKey, Namespace: "team-a", Forward: "ov-key",
		}},
		"another key":                {key: apikey.Mint(), wantErr: access.ErrUnauthenticated, wantReason: access.ReasonInvalid},
		"a key of another form":      {key: "sk-ar-short", wantErr: access.ErrUnauthenticated, wantReason: access.ReasonInvalid},
		"a key whose time is over":   {later: time.Hour, wantErr: access.ErrUnauthenticated, wantReason: access.ReasonExpired},
		"a hash that only begins so": {change: func(s *corev1.Secret) { s.Data["sha256"][63] ^= 1 }, wantErr: access.ErrUnauthenticated, wantReason: access.ReasonInvalid, wantCause: "SHA-256"},
		"a Secret of another type":   {change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, wantErr: access.ErrUnauthenticated, wantReason: access.ReasonInvalid, wantCause: "type"},
		"a Secret with a fault":      {change: func(s *corev1.Secret) { s.Data["expires"] = []byte("x") }, wantErr: access.ErrUnauthenticated, wantReason: access.ReasonInvalid, wantCause: "RFC 3339"},
		"an admin's":                 {change: func(s *corev1.Secret) { s.Data["groups"] = []byte(`["system:masters"]`) }, wantErr: access.ErrForbidden},
		"an outage":                  {err: broken, wantErr: access.ErrUnavailable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			secret := mustEncode(t, key, fullGrant())
			if tc.change != nil {
				tc.change(secret)
			}
			asked := tc.key
			if asked == "" {
				asked = key
			}
			store := &shelf{secrets: map[string]*corev1.Secret{secret.Name: secret}, err: tc.err}
			got, err := apikey.NewLookup(store, 0, clocktesting.NewFakePassiveClock(now.Add(tc.later))).Authenticate(t.Context(), asked)
			if !errors.Is(err, tc.wantErr) || (tc.wantErr == nil && err != nil) {
				t.Fatalf("Authenticate: %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
			if unauthenticated, ok := errors.AsType[*access.UnauthenticatedError](err); ok {
				if unauthenticated.Reason != tc.wantReason {
					t.Errorf("reason %s, want %s", unauthenticated.Reason, tc.wantReason)
				}
				if cause := unauthenticated.Cause; tc.wantCause != "" && (cause == nil || !strings.Contains(cause.Error(), tc.wantCause)) {
					t.Errorf("cause %v, want one with %q", cause, tc.wantCause)
				}
				if strings.Contains(err.Error(), string(asked)) {
					t.Error("the error shows the key")
				}
			}
		})
	}
}

func TestLookupRemembers(t *testing.T) {
	key := apikey.Mint()
	secret := mustEncode(t, key, fullGrant())
	cases := map[string]struct {
		store    shelf
		key      access.Secret
		wait     time.Duration
		wantRead int
	}{
		"a key":                  {store: shelf{secrets: map[string]*corev1.Secret{secret.Name: secret}}, key: key, wait: access.CacheTTL - 1, wantRead: 1},
		"a key for a while":      {store: shelf{secrets: map[string]*corev1.Secret{secret.Name: secret}}, key: key, wait: access.CacheTTL + 1, wantRead: 2},
		"that there is none":     {key: key, wait: access.CacheTTL - 1, wantRead: 1},
		"no failure":             {store: shelf{err: errors.New("no answer")}, key: key, wantRead: 2},
		"nothing of what is odd": {key: "sk-ar-odd", wantRead: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(now)
			lookup := apikey.NewLookup(&tc.store, 0, clock)
			for range 2 {
				_, _ = lookup.Authenticate(t.Context(), tc.key)
				clock.SetTime(clock.Now().Add(tc.wait))
			}
			if tc.store.read != tc.wantRead {
				t.Errorf("read %d times, want %d", tc.store.read, tc.wantRead)
			}
		})
	}
}

func TestExpiryCountsWhateverIsRemembered(t *testing.T) {
	key, clock := apikey.Mint(), clocktesting.NewFakePassiveClock(now)
	grant := fullGrant()
	grant.Expires = now.Add(2 * time.Second)
	secret := mustEncode(t, key, grant)
	store := &shelf{secrets: map[string]*corev1.Secret{secret.Name: secret}}
	lookup := apikey.NewLookup(store, 0, clock)
	if _, err := lookup.Authenticate(t.Context(), key); err != nil {
		t.Fatalf("Authenticate: %v", err)
	}
	clock.SetTime(grant.Expires)
	_, err := lookup.Authenticate(t.Context(), key)
	unauthenticated, ok := errors.AsType[*access.UnauthenticatedError](err)
	if !ok || unauthenticated.Reason != access.ReasonExpired || store.read != 1 {
		t.Errorf("Authenticate: %v after %d reads, want expired after 1", err, store.read)
	}
}
