package impersonate_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/impersonate"
)

// recorder keeps the headers that were sent.
type recorder struct{ sent []http.Header }

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, request.Header)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// body tells whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func newRequest(t *testing.T, who *v1alpha1.Requester) (*http.Request, *body) {
	t.Helper()
	content := &body{Reader: strings.NewReader("{}")}
	ctx := t.Context()
	if who != nil {
		ctx = impersonate.WithUser(ctx, *who)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/x", content)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer own"}, "Impersonate-User": {"root"}, "Impersonate-Group": {"system:masters"},
		"Impersonate-Extra-Scopes": {"all"}, "impersonate-uid": {"0"},
	}
	return r, content
}

func TestTransportSends(t *testing.T) {
	cases := map[string]struct {
		who    v1alpha1.Requester
		extras []string
		want   http.Header
	}{
		"a user by name alone": {
			who: v1alpha1.Requester{Username: "alice"}, want: http.Header{"Impersonate-User": {"alice"}},
		},
		"all of a user": {
			who: v1alpha1.Requester{
				Username: "älice@example.com", UID: "u-1", Groups: []string{"docs", "system:authenticated"},
				Extra: map[string]v1alpha1.ExtraValue{"authentication.kubernetes.io/credential-id": {"a", "b"}},
			},
			want: http.Header{
				"Impersonate-User": {"älice@example.com"}, "Impersonate-Uid": {"u-1"}, "Impersonate-Group": {"docs", "system:authenticated"},
				"Impersonate-Extra-Authentication.kubernetes.io%2fcredential-Id": {"a", "b"},
			},
		},
		"an extra that was allowed, whatever is in its key": {
			who:    v1alpha1.Requester{Username: "alice", Extra: map[string]v1alpha1.ExtraValue{"100%: é": {"x"}}},
			extras: []string{"100%: é"},
			want:   http.Header{"Impersonate-User": {"alice"}, "Impersonate-Extra-100%25%3a%20%c3%A9": {"x"}},
		},
		"an extra without values": {
			who:  v1alpha1.Requester{Username: "alice", Extra: map[string]v1alpha1.ExtraValue{"authentication.kubernetes.io/credential-id": {}}},
			want: http.Header{"Impersonate-User": {"alice"}},
		},
		"a ServiceAccount by name alone": {
			who: v1alpha1.Requester{
				Username: "system:serviceaccount:docs:robot", UID: "u-2", Groups: []string{"system:serviceaccounts"},
				Extra: map[string]v1alpha1.ExtraValue{"authentication.kubernetes.io/pod-name": {"p"}},
			},
			want: http.Header{"Impersonate-User": {"system:serviceaccount:docs:robot"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base := &recorder{}
			r, _ := newRequest(t, &tc.who)
			before := r.Header.Clone()
			answer, err := impersonate.New(base, impersonate.Options{OperatorNamespace: "ops", Extras: tc.extras}).RoundTrip(r)
			if err != nil {
				t.Fatalf("RoundTrip: %v", err)
			}
			_ = answer.Body.Close()
			tc.want["Authorization"] = []string{"Bearer own"}
			got := http.Header{}
			for key, values := range base.sent[0] {
				got[foldExtra(key)] = values
			}
			want := http.Header{}
			for key, values := range tc.want {
				want[foldExtra(key)] = values
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, r.Header); diff != "" {
				t.Errorf("the request was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// foldExtra spells a header's name in one way: names are the same in any case.
func foldExtra(name string) string { return strings.ToLower(name) }

func TestTransportFailsClosed(t *testing.T) {
	extra := func(user, key string) *v1alpha1.Requester {
		return &v1alpha1.Requester{Username: user, Extra: map[string]v1alpha1.ExtraValue{key: {"x"}}}
	}
	cases := map[string]struct {
		who         *v1alpha1.Requester
		want        error
		wantMessage string
	}{
		"no user":                          {want: impersonate.ErrNoUser},
		"a user without a name":            {who: &v1alpha1.Requester{UID: "u-1"}, want: impersonate.ErrNoUser},
		"an admin":                         {who: &v1alpha1.Requester{Username: "root", Groups: []string{"system:masters"}}, want: access.ErrForbidden},
		"the operator":                     {who: &v1alpha1.Requester{Username: "system:serviceaccount:ops:agentruntime-manager"}, want: access.ErrForbidden},
		"anonymous":                        {who: &v1alpha1.Requester{Username: "system:anonymous"}, want: access.ErrUnauthenticated},
		"an extra that is not allowed":     {who: extra("alice", "scopes"), want: access.ErrForbidden, wantMessage: `extra "scopes"`},
		"an extra in another case":         {who: extra("alice", "Authentication.Kubernetes.io/credential-id"), want: access.ErrForbidden},
		"a ServiceAccount's odd extra":     {who: extra("system:serviceaccount:docs:robot", "scopes"), want: access.ErrForbidden, wantMessage: `extra "scopes"`},
		"a name with a line break":         {who: &v1alpha1.Requester{Username: "alice\r\nImpersonate-Group: x"}, want: access.ErrForbidden, wantMessage: "user"},
		"a name that HTTP would trim":      {who: &v1alpha1.Requester{Username: "alice "}, want: access.ErrForbidden},
		"a group that HTTP would trim":     {who: &v1alpha1.Requester{Username: "alice", Groups: []string{"\tdocs"}}, want: access.ErrForbidden, wantMessage: "group"},
		"an empty group":                   {who: &v1alpha1.Requester{Username: "alice", Groups: []string{""}}, want: access.ErrForbidden},
		"a uid with a control character":   {who: &v1alpha1.Requester{Username: "alice", UID: "\x7f"}, want: access.ErrForbidden},
		"an empty value of an allowed one": {who: &v1alpha1.Requester{Username: "alice", Extra: map[string]v1alpha1.ExtraValue{"authentication.kubernetes.io/credential-id": {""}}}, want: access.ErrForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base := &recorder{}
			r, content := newRequest(t, tc.who)
			answer, err := impersonate.New(base, impersonate.Options{OperatorNamespace: "ops"}).RoundTrip(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.wantMessage) {
				t.Errorf("RoundTrip: %v; want %v with %q", err, tc.want, tc.wantMessage)
			}
			if len(base.sent) != 0 || !content.closed {
				t.Errorf("sent %d requests, body closed %v", len(base.sent), content.closed)
			}
		})
	}
}
