package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// secretServer is as much of an API server as keeps Secrets of one namespace.
func secretServer(t *testing.T) (*fake, map[string]*corev1.Secret) {
	t.Helper()
	var mutex sync.Mutex
	secrets := map[string]*corev1.Secret{}
	const path = "/api/v1/namespaces/agentruntime-system/secrets"
	var f *fake
	f = serve(t, func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		name := strings.TrimPrefix(r.URL.Path, path+"/")
		switch {
		case r.Method == http.MethodPost && r.URL.Path == path:
			secret := &corev1.Secret{}
			f.mutex.Lock()
			body := f.bodies[len(f.bodies)-1]
			f.mutex.Unlock()
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, secret); err != nil {
				t.Errorf("decode the Secret: %v", err)
			}
			secret.UID = "uid-1"
			secrets[secret.Name] = secret
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(secret)
		case r.Method == http.MethodGet && r.URL.Path == path:
			list := corev1.SecretList{}
			list.APIVersion, list.Kind = "v1", "SecretList"
			for _, secret := range secrets {
				list.Items = append(list.Items, *secret)
			}
			_ = json.NewEncoder(w).Encode(list)
		case secrets[name] == nil:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not found","reason":"NotFound","code":404}`)
		case r.Method == http.MethodDelete:
			delete(secrets, name)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		default:
			_ = json.NewEncoder(w).Encode(secrets[name])
		}
	})
	return f, secrets
}

func TestAPIKeyLifecycle(t *testing.T) {
	f, secrets := secretServer(t)
	kubeconfig := f.kubeconfig(t)
	forward := filepath.Join(t.TempDir(), "forward")
	if err := os.WriteFile(forward, []byte("ov-forwarded\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "create", "--as-user", "alice@example.com", "--as-group", "devs",
		"-n", "team-a", "--expires", "720h", "--forward-key-file", forward, "--description", "CI of team-a")
	key := strings.TrimSuffix(got.out, "\n")
	if got.code != 0 || !strings.HasPrefix(key, "sk-ar-") || len(key) != len("sk-ar-")+43 || strings.Contains(got.err, key) {
		t.Fatalf("%+v", got)
	}
	if len(secrets) != 1 {
		t.Fatalf("%d Secrets", len(secrets))
	}
	var secret *corev1.Secret
	for _, secret = range secrets {
		if strings.Contains(fmt.Sprint(secret.Data, secret.Name), key) || string(secret.Data["forward-key"]) != "ov-forwarded" {
			t.Errorf("Secret %+v", secret)
		}
	}
	list := arctl(t, "--kubeconfig", kubeconfig, "apikey", "list", "-o", "wide")
	for _, want := range []string{secret.Name, "alice@example.com", "team-a", "devs", "CI of team-a", "yes"} {
		if !strings.Contains(list.out, want) {
			t.Errorf("the list lacks %s:\n%s", want, list.out)
		}
	}
	for _, format := range []string{"json", "yaml", "name", "wide"} {
		if got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "list", "-o", format); strings.Contains(got.out, "ov-forwarded") || got.code != 0 {
			t.Errorf("-o %s: %+v", format, got)
		}
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "revoke", key); got.code != 2 || strings.Contains(got.err, key) || len(secrets) != 1 {
		t.Errorf("a key on the command line: %+v", got)
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "revoke", "ffff0000ffff"); got.code != 4 {
		t.Errorf("an unknown prefix: %+v", got)
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "revoke", secret.Name[:len("apikey-")+6]); got.code != 0 || len(secrets) != 0 {
		t.Errorf("revoke by prefix: %+v", got)
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "apikey", "revoke", secret.Name); got.code != 4 {
		t.Errorf("revoke again: %+v", got)
	}
}

func TestAPIKeyRevokeByTheKeyItself(t *testing.T) {
	f, secrets := secretServer(t)
	kubeconfig := f.kubeconfig(t)
	made := arctl(t, "--kubeconfig", kubeconfig, "apikey", "create", "--as-user", "system:serviceaccount:team-a:ci", "-n", "team-a")
	p := program{in: strings.NewReader(made.out)}
	if got := runWith(t, p, "--kubeconfig", kubeconfig, "apikey", "revoke", "--key-file", "-"); got.code != 0 || len(secrets) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPIKeyCreateRefuses(t *testing.T) {
	f, secrets := secretServer(t)
	kubeconfig := f.kubeconfig(t)
	tests := map[string][]string{
		"no user":                    {"-n", "team-a"},
		"no namespace":               {"--as-user", "alice"},
		"the cluster's masters":      {"--as-user", "alice", "--as-group", "system:masters", "-n", "team-a"},
		"nodes":                      {"--as-user", "system:node:n1", "-n", "team-a"},
		"the nodes' group":           {"--as-user", "alice", "--as-group", "system:nodes", "-n", "team-a"},
		"the controller manager":     {"--as-user", "system:kube-controller-manager", "-n", "team-a"},
		"the API server":             {"--as-user", "system:apiserver", "-n", "team-a"},
		"kube-system":                {"--as-user", "system:serviceaccount:kube-system:x", "-n", "team-a"},
		"the manager":                {"--as-user", "system:serviceaccount:agentruntime-system:agentruntime-manager", "-n", "team-a"},
		"nobody":                     {"--as-user", "system:anonymous", "-n", "team-a"},
		"an expiry in the past":      {"--as-user", "alice", "-n", "team-a", "--expires", "-1h"},
		"a namespace of many":        {"--as-user", "alice", "-n", "Team A"},
		"a forward key that is none": {"--as-user", "alice", "-n", "team-a", "--forward-key-file", "-"},
		"a way to lose the key":      {"--as-user", "alice", "-n", "team-a", "-o", "name"},
	}
	for name, arguments := range tests {
		t.Run(name, func(t *testing.T) {
			got := arctl(t, append([]string{"--kubeconfig", kubeconfig, "apikey", "create"}, arguments...)...)
			if got.code != 2 || got.out != "" || strings.Count(got.err, "\n") != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
	if seen := f.seen(); len(seen) > 0 || len(secrets) > 0 {
		t.Errorf("requests were made: %v", seen)
	}
	if got := arctl(t, append(direct(f.URL), "apikey", "list")...); got.code != 2 {
		t.Errorf("with --server: %+v", got)
	}
}
