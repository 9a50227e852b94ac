package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDisplayName(t *testing.T) {
	for arg0, want := range map[string]string{
		"/usr/bin/arctl": "arctl", "arctl.test": "arctl",
		"/usr/bin/kubectl-agentruntime": "kubectl agentruntime", "kubectl-agentruntime.exe": "kubectl agentruntime",
	} {
		if got := displayName(arg0); got != want {
			t.Errorf("%s: %q, want %q", arg0, got, want)
		}
	}
}

func TestUsageNamesTheProgramAsItIsCalled(t *testing.T) {
	got := runWith(t, program{name: "kubectl agentruntime"}, "task", "get", "--help")
	if got.code != 0 || !strings.Contains(got.out, "kubectl agentruntime task get ID") {
		t.Errorf("%+v", got)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := arctl(t, "completion", shell); got.code != 0 || !strings.Contains(got.out, "arctl") {
			t.Errorf("%s: exit code %d, %s", shell, got.code, got.err)
		}
	}
}

func TestVersion(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion":"v1.37.2"}`)
			return
		}
		fmt.Fprint(w, `{"status":"ok","version":"v0.1.0"}`)
	})
	if got := arctl(t, append(direct(f.URL), "version")...); got.code != 0 || !strings.HasPrefix(got.out, "Client: v1.2.3 (") ||
		!strings.HasSuffix(got.out, "Server: facade v0.1.0 ("+f.URL+")\n") {
		t.Errorf("%+v", got)
	}
	if got := arctl(t, "--kubeconfig", f.kubeconfig(t), "version", "-o", "json"); !strings.Contains(got.out, `"version": "v1.37.2"`) {
		t.Errorf("%+v", got)
	}
	f.Close()
	if got := arctl(t, append(direct(f.URL), "version")...); got.code != 0 || !strings.Contains(got.err, "the server can't be asked") {
		t.Errorf("%+v", got)
	}
}

func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ok(w, 200, "[]") }))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	if got := arctl(t, append(direct(server.URL), "task", "list")...); got.code != 1 || !strings.Contains(got.err, "certificate") {
		t.Errorf("an unknown certificate: %+v", got)
	}
	got := arctl(t, append(direct(server.URL), "--insecure-skip-tls-verify", "task", "list", "-o", "json")...)
	if got.code != 0 || got.out != "[]\n" || !strings.HasPrefix(got.err, "warning: ") {
		t.Errorf("unchecked: %+v", got)
	}
}

func TestRuntimeList(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"agentruntime.dev/v1alpha1","kind":"AgentRuntimeList","metadata":{},"items":[
{"metadata":{"name":"builtin","annotations":{"agentruntime.dev/is-default-runtime":"true"}},"spec":{"url":"https://r:1944","maxConcurrentTasks":10},
"status":{"runningTasks":2,"conditions":[{"type":"Ready","status":"True","reason":"ProbeSucceeded"}]}},
{"metadata":{"name":"other"},"spec":{"url":"https://o","maxConcurrentTasks":5}}]}`)
	})
	kubeconfig := f.kubeconfig(t)
	want := `NAME      READY     REASON           DEFAULT   RUNNING   AGE         WAITING   HELD POLLS   URL
builtin   True      ProbeSucceeded   yes       2/10      <unknown>   ?         <none>       https://r:1944
other     Unknown   <none>           no        ?/5       <unknown>   ?         <none>       https://o
`
	if got := arctl(t, "--kubeconfig", kubeconfig, "runtime", "list", "-o", "wide"); got.code != 0 || got.out != want {
		t.Errorf("exit code %d (%s), stdout:\n%s", got.code, got.err, got.out)
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "runtime", "list", "-o", "name"); got.out != "agentruntime.agentruntime.dev/builtin\nagentruntime.agentruntime.dev/other\n" {
		t.Errorf("%+v", got)
	}
	if got := arctl(t, "--kubeconfig", kubeconfig, "runtime", "list", "-o", "yaml"); !strings.Contains(got.out, "kind: AgentRuntimeList") {
		t.Errorf("%+v", got)
	}
}

func TestHintsGoWhereTheCommandWent(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { ok(w, 202, record("pending", "queued", "")) })
	keyFile := filepath.Join(t.TempDir(), "a key")
	if err := os.WriteFile(keyFile, []byte("sk-test"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runWith(t, program{}, slices.Concat(compileArgs, []string{"-n", "demo", "--server", f.URL, "--api-key-file", keyFile})...)
	want := "follow it with: arctl --api-key-file='" + keyFile + "' --namespace=demo --server=" + f.URL + " task watch " + taskID
	if got.code != 0 || !strings.Contains(got.err, want) {
		t.Errorf("exit code %d, stderr %q, want %q in it", got.code, got.err, want)
	}
	got = runWith(t, program{}, slices.Concat(compileArgs, []string{"--server", f.URL, "--api-key", "sk-hidden"})...)
	if strings.Contains(got.err, "sk-hidden") {
		t.Errorf("a hint shows the key: %q", got.err)
	}
}
