package interop

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	testenv "github.com/agentruntime/operator/test/envtest"
	"github.com/agentruntime/operator/test/interop/goclient"
)

const (
	schemathesisTimeout = 4 * time.Minute
	// schemathesisKey is the Idempotency-Key that schemathesis.toml knows.
	schemathesisKey = "interop-schemathesis"
)

// testSchemathesis has schemathesis ask whatever the API's own document allows, and
// what it does not, and hold the answers against it. What it does not check, and why,
// is in schemathesis.toml.
func (l *lab) testSchemathesis(t *testing.T) {
	keyed := l.client(l.user, func(o *goclient.Options) { o.Header = http.Header{"Idempotency-Key": {schemathesisKey}} })
	_, err := keyed.Compile(t.Context(), request("schemathesis", "schemathesis"))
	must(t, err)
	config, err := filepath.Abs(filepath.Join(testenv.Root(), "test", "interop", "schemathesis.toml"))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), schemathesisTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, built(t, "python", "bin", "schemathesis"),
		"--config-file", config, "run", l.plane.FacadeURL()+"/openapi.json")
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "INTEROP_API_KEY="+l.user.key, "INTEROP_AUTHORITY="+l.authority, "NO_PROXY=localhost")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("schemathesis: %v\n%s", err, out)
	}
	// A run that asked nothing has nothing to complain about.
	tested := regexp.MustCompile(`Tested: (\d+)`).FindSubmatch(out)
	// It leaves out the one that the document came by.
	if operations := l.countOperations(t) - 1; tested == nil || string(tested[1]) != strconv.Itoa(operations) {
		t.Errorf("schemathesis did not test %d operations:\n%s", operations, out)
	}
	t.Logf("%s", out)
}

// countOperations counts the operations of the API's document.
func (l *lab) countOperations(t *testing.T) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.plane.FacadeURL()+"/openapi.json", http.NoBody)
	must(t, err)
	response, err := (&http.Client{Transport: l.transport()}).Do(r)
	must(t, err)
	defer response.Body.Close()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&document))
	operations := 0
	for _, path := range document.Paths {
		operations += len(path)
	}
	return operations
}
