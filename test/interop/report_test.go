package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtimeapi"
	testenv "github.com/agentruntime/operator/test/envtest"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// sharedChecks are made through every client. A client that leaves one out fails.
func sharedChecks() []string {
	return []string{
		"compile answers a pending task",
		"instruction and args come back as they were sent",
		"a task completes with its result",
		"a completed task can't be cancelled",
		"options without a value are not sent",
		"lists filter by source, type and status",
		"lists keep to their limit",
		"a list of nothing is empty",
		"a limit out of bounds is an invalid argument",
		"a running task is cancelling once cancelled",
		"a cancelled task ends as cancelled",
		"a cancel may be repeated",
		"an unknown task is nothing",
		"a foreign task is nothing",
		"cancel of an unknown task is not found",
		"an unknown field is an invalid argument",
		"a wrong key is unauthenticated",
		"a key without a role is denied",
		"an idempotency key for another request is a conflict",
		"the server is healthy",
		"a profile may be asked for",
		"the base URL may end in a slash",
	}
}

// report is what a client's checks found.
type report struct {
	Checks []struct {
		Name   string `json:"name"`
		Passed bool   `json:"passed"`
		Detail string `json:"detail"`
	} `json:"checks"`
}

// input is what the scripts read.
type input struct {
	URL          string `json:"url"`
	Run          string `json:"run"`
	Key          string `json:"key"`
	PowerlessKey string `json:"powerless_key"`
	ForeignTask  string `json:"foreign_task"`
}

func (l *lab) input(t *testing.T, run string) input {
	t.Helper()
	foreign, err := l.client(l.other).Compile(t.Context(), request("foreign", run))
	must(t, err)
	return input{
		URL: l.plane.FacadeURL(), Run: run, Key: l.user.key, PowerlessKey: l.powerless.key,
		ForeignTask: foreign.Text("task_id"),
	}
}

const scriptTimeout = 2 * time.Minute

// runScript runs a client's script and judges its report.
func (l *lab) runScript(t *testing.T, run string, want, environment []string, program string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	given, err := json.Marshal(l.input(t, run))
	must(t, err)
	var out, failures bytes.Buffer
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(given), &out, &failures
	// A home of its own: what a client's user has set up there does not count.
	command.Env = append(command.Environ(), append(environment, "HOME="+t.TempDir(), "NO_PROXY=localhost")...)
	if err := command.Run(); err != nil {
		t.Fatalf("run %s: %v\n%s", program, err, failures.String())
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("read the report: %v\n%s\n%s", err, out.String(), failures.String())
	}
	got.judge(t, want)
}

// judge wants exactly these checks, each of them passed.
func (r report) judge(t *testing.T, want []string) {
	t.Helper()
	var made []string
	for _, check := range r.Checks {
		made = append(made, check.Name)
		if !check.Passed {
			t.Errorf("%s: %s", check.Name, check.Detail)
		}
	}
	slices.Sort(made)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), made); diff != "" {
		t.Errorf("the checks made (-want +got):\n%s", diff)
	}
}

// sentArgs is the text of the args that reached the executor for a target.
func (l *lab) sentArgs(t *testing.T, to string) string {
	t.Helper()
	for _, call := range l.executor.Calls(fakeruntime.OpCreate) {
		var create struct {
			Payload runtimeapi.CompilePayload `json:"payload"`
		}
		must(t, json.Unmarshal(call.Body, &create))
		if create.Payload.To == to {
			return string(create.Payload.Args)
		}
	}
	t.Errorf("no task for %s reached the executor", to)
	return ""
}

// expectExactNumber wants a number in the args that no float64 holds.
func (l *lab) expectExactNumber(t *testing.T, to string) {
	t.Helper()
	if args := l.sentArgs(t, to); !strings.Contains(args, exactNumber) {
		t.Errorf("the executor got the args %s, which lack %s", args, exactNumber)
	}
}

const exactNumber = "12345678901234567890"

// built is the path of something that make interop puts below bin.
func built(t *testing.T, path ...string) string {
	t.Helper()
	found, err := filepath.Abs(filepath.Join(append([]string{testenv.Root(), "bin", "interop"}, path...)...))
	must(t, err)
	if _, err := os.Stat(found); err != nil {
		t.Fatalf("run this by make interop: %v", err)
	}
	return found
}
