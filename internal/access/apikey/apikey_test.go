package apikey_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func fullGrant() apikey.Grant {
	return apikey.Grant{
		Username: "alice@example.com", UID: "u-1", Groups: []string{"docs", "ops"}, Namespace: "team-a",
		Expires: now.Add(time.Hour), ForwardKey: "ov-key", Description: "Alice's laptop",
	}
}

func mustEncode(t *testing.T, key access.Secret, grant apikey.Grant) *corev1.Secret {
	t.Helper()
	secret, err := apikey.Encode("ops", key, grant, now)
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	return secret
}

func TestMint(t *testing.T) {
	key, other := apikey.Mint(), apikey.Mint()
	if string(key) == string(other) || len(key) != len("sk-ar-")+43 || !apikey.WellFormed(key) {
		t.Errorf("a key of %d bytes, well formed %v", len(key), apikey.WellFormed(key))
	}
	if shown := fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key, key); strings.Contains(shown, "sk-ar-") {
		t.Error("a key shows when printed")
	}
}

func TestWellFormed(t *testing.T) {
	good := "sk-ar-" + strings.Repeat("A", 43)
	for name, tc := range map[string]struct {
		key  string
		want bool
	}{
		"as minted":                      {good, true},
		"another prefix":                 {"sk-xx-" + strings.Repeat("A", 43), false},
		"too short":                      {good[:len(good)-1], false},
		"too long":                       {good + "A", false},
		"other characters":               {good[:len(good)-1] + "=", false},
		"a second spelling of the bytes": {good[:len(good)-1] + "B", false},
		"a line break within":            {good[:len(good)-1] + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := apikey.WellFormed(access.Secret(tc.key)); got != tc.want {
				t.Errorf("WellFormed = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	key := access.Secret("sk-ar-" + strings.Repeat("A", 43))
	immutable := true
	secret := mustEncode(t, key, fullGrant())
	if len(secret.Data["sha256"]) != 64 || secret.Name != "apikey-"+string(secret.Data["sha256"][:32]) || secret.Name != apikey.SecretName(key) {
		t.Errorf("Secret %s holds %q", secret.Name, secret.Data["sha256"])
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: secret.Name, Labels: map[string]string{"agentruntime.dev/api-key": "true"}},
		Type:       "agentruntime.dev/api-key",
		Immutable:  &immutable,
		Data: map[string][]byte{
			"sha256": secret.Data["sha256"], "username": []byte("alice@example.com"), "uid": []byte("u-1"),
			"groups": []byte(`["docs","ops"]`), "namespace": []byte("team-a"), "expires": []byte("2026-01-01T01:00:00Z"),
			"forward-key": []byte("ov-key"), "description": []byte("Alice's laptop"),
		},
	}
	if diff := cmp.Diff(want, secret); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprint(secret), string(key)) {
		t.Error("the Secret holds the key")
	}
	least := mustEncode(t, key, apikey.Grant{Username: "alice", Namespace: "team-a"})
	if len(least.Data) != 3 {
		t.Errorf("a grant of nothing else holds %d entries, want 3", len(least.Data))
	}
}

func TestDecodeGivesWhatWasEncoded(t *testing.T) {
	for name, grant := range map[string]apikey.Grant{
		"everything":       fullGrant(),
		"the least":        {Username: "alice", Namespace: "team-a"},
		"a ServiceAccount": {Username: "system:serviceaccount:team-a:ci", Namespace: "team-b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := apikey.Decode(mustEncode(t, apikey.Mint(), grant))
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if diff := cmp.Diff(grant, got); diff != "" {
				t.Errorf("grant (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	good := apikey.Mint()
	cases := map[string]struct {
		key         access.Secret
		change      func(*apikey.Grant)
		wantMessage string
		wantErr     error
	}{
		"a key of another form":          {key: "sk-ar-x", change: func(*apikey.Grant) {}, wantMessage: "form"},
		"no user":                        {change: func(g *apikey.Grant) { g.Username = "" }, wantMessage: "username"},
		"space round the user":           {change: func(g *apikey.Grant) { g.Username = "alice " }, wantMessage: "username"},
		"a user of two lines":            {change: func(g *apikey.Grant) { g.Username = "a\nImpersonate-Group: x" }, wantMessage: "control"},
		"a user that is no text":         {change: func(g *apikey.Grant) { g.Username = "a\xff" }, wantMessage: "text"},
		"a user that is too long":        {change: func(g *apikey.Grant) { g.Username = strings.Repeat("a", 1025) }, wantMessage: "1024"},
		"a uid with a tab":               {change: func(g *apikey.Grant) { g.UID = "u\t1" }, wantMessage: "uid"},
		"an empty group":                 {change: func(g *apikey.Grant) { g.Groups = []string{""} }, wantMessage: "groups"},
		"a group twice":                  {change: func(g *apikey.Grant) { g.Groups = []string{"a", "b", "a"} }, wantMessage: "once"},
		"too many groups":                {change: func(g *apikey.Grant) { g.Groups = make([]string, 257) }, wantMessage: "256"},
		"groups of a ServiceAccount":     {change: func(g *apikey.Grant) { g.Username = "system:serviceaccount:team-a:ci" }, wantMessage: "ServiceAccount"},
		"no namespace":                   {change: func(g *apikey.Grant) { g.Namespace = "" }, wantMessage: "namespace"},
		"a namespace that is none":       {change: func(g *apikey.Grant) { g.Namespace = "Team.A" }, wantMessage: "namespace"},
		"an expiry that is over":         {change: func(g *apikey.Grant) { g.Expires = now }, wantMessage: "expired"},
		"a key to forward with a space":  {change: func(g *apikey.Grant) { g.ForwardKey = "sec ret" }, wantMessage: "printable"},
		"a key to forward without end":   {change: func(g *apikey.Grant) { g.ForwardKey = access.Secret(strings.Repeat("k", 16<<10+1)) }, wantMessage: "16 KiB"},
		"a description without end":      {change: func(g *apikey.Grant) { g.Description = strings.Repeat("d", 1025) }, wantMessage: "description"},
		"an admin":                       {change: func(g *apikey.Grant) { g.Groups = []string{"system:masters"} }, wantMessage: "system:masters", wantErr: access.ErrForbidden},
		"a node":                         {change: func(g *apikey.Grant) { g.Username = "system:node:n1" }, wantMessage: "system:node:n1", wantErr: access.ErrForbidden},
		"the operator itself":            {change: func(g *apikey.Grant) { g.Username, g.Groups = "system:serviceaccount:ops:agentruntime-manager", nil }, wantErr: access.ErrForbidden},
		"a ServiceAccount of the system": {change: func(g *apikey.Grant) { g.Username, g.Groups = "system:serviceaccount:kube-system:x", nil }, wantErr: access.ErrForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			grant, key := fullGrant(), good
			tc.change(&grant)
			if tc.key != "" {
				key = tc.key
			}
			_, err := apikey.Encode("ops", key, grant, now)
			if err == nil || !strings.Contains(err.Error(), tc.wantMessage) || (tc.wantErr != nil && !errors.Is(err, tc.wantErr)) {
				t.Fatalf("Encode: %v; want %q, %v", err, tc.wantMessage, tc.wantErr)
			}
			if strings.Contains(err.Error(), "sec ret") || strings.Contains(err.Error(), string(key)) {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	set := func(name, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[name] = []byte(value) }
	}
	cases := map[string]struct {
		change      func(*corev1.Secret)
		wantMessage string
		wantErr     error
	}{
		"another type":            {change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, wantMessage: "type"},
		"one that no list shows":  {change: func(s *corev1.Secret) { s.Labels = nil }, wantMessage: "agentruntime.dev/api-key=true"},
		"a label of another kind": {change: func(s *corev1.Secret) { s.Labels[apikey.Label] = "false" }, wantMessage: "agentruntime.dev/api-key=true"},
		"one that is on its way":  {change: func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }, wantMessage: "deleted"},
		"no hash":                 {change: func(s *corev1.Secret) { delete(s.Data, "sha256") }, wantMessage: "SHA-256"},
		"a hash in capitals":      {change: func(s *corev1.Secret) { s.Data["sha256"] = []byte(strings.ToUpper(string(s.Data["sha256"]))) }, wantMessage: "SHA-256"},
		"another key's name":      {change: func(s *corev1.Secret) { s.Name = apikey.SecretName("x") }, wantMessage: "SHA-256"},
		"a field that is unknown": {change: set("expire", "2026-01-01T00:00:00Z"), wantMessage: `"expire" is no field`},
		"a time of another form":  {change: set("expires", "tomorrow"), wantMessage: "RFC 3339"},
		"an empty time":           {change: set("expires", ""), wantMessage: "RFC 3339"},
		"the zero time":           {change: set("expires", "0001-01-01T00:00:00Z"), wantMessage: "RFC 3339"},
		"groups of another form":  {change: set("groups", "docs"), wantMessage: "JSON array"},
		"groups that are null":    {change: set("groups", "null"), wantMessage: "JSON array"},
		"groups of numbers":       {change: set("groups", "[1]"), wantMessage: "JSON array"},
		"no user":                 {change: func(s *corev1.Secret) { delete(s.Data, "username") }, wantMessage: "username"},
		"no namespace":            {change: func(s *corev1.Secret) { delete(s.Data, "namespace") }, wantMessage: "namespace"},
		"an admin":                {change: set("groups", `["system:masters"]`), wantMessage: "system:masters", wantErr: access.ErrForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			secret := mustEncode(t, apikey.Mint(), fullGrant())
			tc.change(secret)
			_, err := apikey.Decode(secret)
			if err == nil || !strings.Contains(err.Error(), tc.wantMessage) || (tc.wantErr != nil && !errors.Is(err, tc.wantErr)) {
				t.Errorf("Decode: %v; want %q, %v", err, tc.wantMessage, tc.wantErr)
			}
		})
	}
}

func TestGrantUser(t *testing.T) {
	for name, tc := range map[string]struct {
		grant apikey.Grant
		want  v1alpha1.Requester
	}{
		"a person": {fullGrant(), v1alpha1.Requester{Username: "alice@example.com", UID: "u-1", Groups: []string{"docs", "ops", "system:authenticated"}}},
		"a ServiceAccount": {apikey.Grant{Username: "system:serviceaccount:team-a:ci"}, v1alpha1.Requester{
			Username: "system:serviceaccount:team-a:ci",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.grant.User()); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
		})
	}
}
