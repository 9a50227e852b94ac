package interop

import (
	"path/filepath"
	"testing"

	testenv "github.com/agentruntime/operator/test/envtest"
)

// TestInterop runs all clients against one running operator.
func TestInterop(t *testing.T) {
	l := newLab(t)
	t.Run("the Python SDK", l.testPython)
	t.Run("the TypeScript client", l.testTypeScript)
	t.Run("the Go client", l.testGo)
	t.Run("arctl with an API key", l.testArctlDirect)
	t.Run("arctl with a kubeconfig", l.testArctlAggregated)
	t.Run("the smoke test through the facade", l.testSmokeDirect)
	t.Run("the smoke test through the API server", l.testSmokeAggregated)
	t.Run("schemathesis", l.testSchemathesis)
}

func (l *lab) testPython(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(testenv.Root(), "test", "interop", "python", "checks.py"))
	must(t, err)
	var want []string
	for _, kind := range []string{"sync", "async"} {
		for _, name := range append(sharedChecks(), "an invalid URI is told with its reason") {
			want = append(want, kind+": "+name)
		}
	}
	l.runScript(t, "python", want, []string{"SSL_CERT_FILE=" + l.authority}, built(t, "python", "bin", "python"), script)
	l.expectExactNumber(t, "viking://resources/quick/sync-python")
	l.expectExactNumber(t, "viking://resources/quick/async-python")
}

func (l *lab) testTypeScript(t *testing.T) {
	want := append(sharedChecks(),
		"an aborted request is aborted",
		"a server that takes too long is a deadline exceeded",
		"no server is unavailable")
	l.runScript(t, "typescript", want, []string{"NODE_EXTRA_CA_CERTS=" + l.authority}, "node", built(t, "typescript", "dist", "checks.js"))
}
