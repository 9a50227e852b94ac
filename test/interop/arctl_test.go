package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/agentruntime/operator/test/interop/goclient"
)

// Exit codes of arctl that scripts build on.
const (
	exitUsage    = 2
	exitDenied   = 3
	exitNotFound = 4
)

// cli is arctl with a way to the server.
type cli struct {
	program     string
	run         string
	environment []string
	arguments   []string
}

func (l *lab) testArctlDirect(t *testing.T) {
	c := cli{program: l.plane.Binary("arctl"), run: "arctl-direct"}
	c.arguments = []string{"--server", l.plane.FacadeURL() + "/", "--certificate-authority", l.authority}
	c.environment = []string{"ARCTL_API_KEY=" + l.user.key}
	l.checkArctl(t, c)
	powerless := c
	powerless.environment = []string{"ARCTL_API_KEY=" + l.powerless.key}
	powerless.refused(t, exitDenied, "PERMISSION_DENIED", powerless.compile("refused")...)
}

func (l *lab) testArctlAggregated(t *testing.T) {
	kubeconfig, err := l.kubeconfig(t.Context(), l.user)
	must(t, err)
	c := cli{program: l.plane.Binary("arctl"), run: "arctl-aggregated"}
	c.arguments = []string{"--kubeconfig", kubeconfig, "--namespace", namespace}
	l.waitForAggregation(t)
	l.checkArctl(t, c)
}

func (l *lab) checkArctl(t *testing.T, c cli) {
	t.Helper()
	quick := c.ok(t, c.compile("quick", "--args", `{"exact":`+exactNumber+`}`)...)
	if !strings.HasPrefix(quick, "cmp_") {
		t.Fatalf("compile printed %q instead of an id", quick)
	}
	l.expectEnd(t, c, quick, "completed")
	l.expectExactNumber(t, "viking://resources/quick/"+c.run)
	if text := c.ok(t, "task", "status", quick); !strings.Contains(text, "completed") {
		t.Errorf("task status printed %q", text)
	}
	if list := c.ok(t, "task", "list", "--status", "completed", "-o", "name"); !strings.Contains(list, quick) {
		t.Errorf("task list lacks %s:\n%s", quick, list)
	}
	slow := c.ok(t, c.compile("slow")...)
	if task := c.record(t, "task", "cancel", slow, "--wait", "-o", "json"); task.Text("status") != "cancelled" {
		t.Errorf("task cancel --wait printed %v", task)
	}
	if task := c.record(t, "task", "cancel", slow, "-o", "json"); task.Text("status") != "cancelled" {
		t.Errorf("a repeated task cancel printed %v", task)
	}
	c.refused(t, exitUsage, "FAILED_PRECONDITION", "task", "cancel", quick)
	c.refused(t, exitUsage, "--args", c.compile("quick", "--args", "[]")...)
	c.refused(t, exitNotFound, "NOT_FOUND", "task", "status", unknownTask)
}

// expectEnd waits by task watch until a task has ended.
func (l *lab) expectEnd(t *testing.T, c cli, id, status string) {
	t.Helper()
	c.ok(t, "task", "watch", id)
	if task := c.record(t, "task", "get", id, "-o", "json"); task.Text("status") != status {
		t.Errorf("task get printed %v instead of status %s", task, status)
	}
}

// compile are the arguments of a create.
func (c cli) compile(to string, more ...string) []string {
	r := request(to, c.run)
	return append([]string{"compile", "--from", r.From[0], "--to", r.To, "--skill", r.Skill}, more...)
}

// ok wants exit code 0 and returns what was printed.
func (c cli) ok(t *testing.T, arguments ...string) string {
	t.Helper()
	out, failures, code := c.call(t, arguments)
	if code != 0 {
		t.Fatalf("arctl %s: exit code %d\n%s", strings.Join(arguments, " "), code, failures)
	}
	return strings.TrimSpace(out)
}

func (c cli) record(t *testing.T, arguments ...string) goclient.Task {
	t.Helper()
	var task goclient.Task
	must(t, json.Unmarshal([]byte(c.ok(t, arguments...)), &task))
	return task
}

// refused wants an exit code and a word of the error.
func (c cli) refused(t *testing.T, code int, word string, arguments ...string) {
	t.Helper()
	_, failures, got := c.call(t, arguments)
	if got != code || !strings.Contains(failures, word) {
		t.Errorf("arctl %s: exit code %d instead of %d, or no %s:\n%s", strings.Join(arguments, " "), got, code, word, failures)
	}
}

func (c cli) call(t *testing.T, arguments []string) (printed, failures string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, c.program, append(c.arguments, arguments...)...)
	command.Env = append(os.Environ(), c.environment...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("run arctl: %v", err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}
