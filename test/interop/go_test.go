package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/test/interop/goclient"
)

// client is the Go client of a person.
func (l *lab) client(p person, change ...func(*goclient.Options)) *goclient.Client {
	options := goclient.Options{URL: l.plane.FacadeURL(), APIKey: p.key, Transport: l.transport()}
	for _, change := range change {
		change(&options)
	}
	return goclient.New(options)
}

// transport trusts the facade's authority and nobody else.
func (l *lab) transport() *http.Transport {
	roots := x509.NewCertPool()
	if pem, err := os.ReadFile(l.authority); err == nil {
		roots.AppendCertsFromPEM(pem)
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
}

func source(run string) string { return "viking://resources/source-" + run }

func request(to, run string) goclient.CompileRequest {
	return goclient.CompileRequest{
		From: []string{source(run)}, To: "viking://resources/" + to + "/" + run, Skill: "viking://agent/skills/wiki",
	}
}

// goChecks makes the checks through the Go client.
type goChecks struct {
	*goclient.Client
	lab         *lab
	run         string
	given       input
	quick, slow string
}

func (l *lab) testGo(t *testing.T) {
	const run = "go"
	c := &goChecks{Client: l.client(l.user), lab: l, run: run, given: l.input(t, run)}
	var got report
	for _, check := range c.all() {
		result := struct {
			Name   string `json:"name"`
			Passed bool   `json:"passed"`
			Detail string `json:"detail"`
		}{Name: check.name, Passed: true}
		if err := check.do(t.Context()); err != nil {
			result.Passed, result.Detail = false, err.Error()
		}
		got.Checks = append(got.Checks, result)
	}
	got.judge(t, sharedChecks())
	l.expectExactNumber(t, "viking://resources/quick/"+run)
}

type check struct {
	name string
	do   func(context.Context) error
}

func (c *goChecks) all() []check {
	return []check{
		{"compile answers a pending task", c.compile},
		{"instruction and args come back as they were sent", c.asked},
		{"a task completes with its result", c.complete},
		{"a completed task can't be cancelled", c.cancelCompleted},
		{"options without a value are not sent", c.bare},
		{"lists filter by source, type and status", c.filter},
		{"lists keep to their limit", c.limit},
		{"a list of nothing is empty", c.nothing},
		{"a limit out of bounds is an invalid argument", c.badLimit},
		{"a running task is cancelling once cancelled", c.cancel},
		{"a cancelled task ends as cancelled", c.cancelled},
		{"a cancel may be repeated", c.cancelAgain},
		{"an unknown task is nothing", c.isNothing(unknownTask)},
		{"a foreign task is nothing", c.isNothing(c.given.ForeignTask)},
		{"cancel of an unknown task is not found", c.cancelUnknown},
		{"an unknown field is an invalid argument", c.extra},
		{"a wrong key is unauthenticated", c.createAs(person{key: "sk-ar-" + strings.Repeat("A", 43)}, "UNAUTHENTICATED", http.StatusUnauthorized)},
		{"a key without a role is denied", c.createAs(c.lab.powerless, "PERMISSION_DENIED", http.StatusForbidden)},
		{"an idempotency key for another request is a conflict", c.conflict},
		{"the server is healthy", c.health},
		{"a profile may be asked for", c.listsWith(func(o *goclient.Options) { o.Profile = true })},
		{"the base URL may end in a slash", c.listsWith(func(o *goclient.Options) { o.URL += "/" })},
	}
}

func exactArgs() map[string]any {
	return map[string]any{"exact": json.Number(exactNumber), "deep": map[string]any{"list": []any{json.Number("1"), nil}}}
}

func (c *goChecks) compile(ctx context.Context) error {
	wanted := request("quick", c.run)
	wanted.Instruction, wanted.Args = "Write a wiki.", exactArgs()
	task, err := c.Compile(ctx, wanted)
	c.quick = task.Text("task_id")
	return errors.Join(err, want(task, map[string]any{"status": "pending", "stage": "queued", "resource_id": source(c.run)}))
}

func (c *goChecks) asked(ctx context.Context) error {
	task, err := c.GetTask(ctx, c.quick)
	return errors.Join(err, want(requestOf(task), map[string]any{"instruction": "Write a wiki.", "args": exactArgs()}))
}

func (c *goChecks) complete(ctx context.Context) error {
	task, err := c.until(ctx, c.quick, "completed")
	return errors.Join(err, want(task, map[string]any{"stage": "completed", "error": nil, "result": map[string]any{"status": "ok"}}))
}

func (c *goChecks) cancelCompleted(ctx context.Context) error {
	_, err := c.CancelTask(ctx, c.quick)
	return wantError(err, "FAILED_PRECONDITION", http.StatusPreconditionFailed)
}

func (c *goChecks) bare(ctx context.Context) error {
	task, err := c.Compile(ctx, request("bare", c.run))
	asked := requestOf(task)
	_, instructed := asked["instruction"]
	if _, parametrised := asked["args"]; instructed || parametrised || asked == nil {
		return errors.Join(err, fmt.Errorf("the request came back as %v", asked))
	}
	return err
}

func (c *goChecks) filter(ctx context.Context) error {
	tasks, err := c.ListTasks(ctx, goclient.Filter{ResourceID: source(c.run), TaskType: "compile", Status: "completed"})
	if len(tasks) == 0 {
		return errors.Join(err, errors.New("the list is empty"))
	}
	for _, task := range tasks {
		err = errors.Join(err, want(task, map[string]any{"resource_id": source(c.run), "task_type": "compile", "status": "completed"}))
	}
	return err
}

func (c *goChecks) limit(ctx context.Context) error {
	tasks, err := c.ListTasks(ctx, goclient.Filter{ResourceID: source(c.run), Limit: 1})
	return errors.Join(err, wantLength(tasks, 1))
}

func (c *goChecks) nothing(ctx context.Context) error {
	tasks, err := c.ListTasks(ctx, goclient.Filter{Status: "no-such-status"})
	if tasks == nil {
		return errors.Join(err, errors.New("null is no list"))
	}
	return errors.Join(err, wantLength(tasks, 0))
}

func (c *goChecks) badLimit(ctx context.Context) error {
	_, err := c.ListTasks(ctx, goclient.Filter{Limit: 201})
	return wantError(err, "INVALID_ARGUMENT", http.StatusBadRequest)
}

func (c *goChecks) cancel(ctx context.Context) error {
	task, err := c.Compile(ctx, request("slow", c.run))
	if err != nil {
		return err
	}
	c.slow = task.Text("task_id")
	if _, err := c.until(ctx, c.slow, "running"); err != nil {
		return err
	}
	task, err = c.CancelTask(ctx, c.slow)
	return errors.Join(err, want(task, map[string]any{"status": "cancelling"}))
}

func (c *goChecks) cancelled(ctx context.Context) error {
	task, err := c.until(ctx, c.slow, "cancelled")
	return errors.Join(err, want(task, map[string]any{"stage": "cancelled", "result": nil}))
}

func (c *goChecks) cancelAgain(ctx context.Context) error {
	task, err := c.CancelTask(ctx, c.slow)
	return errors.Join(err, want(task, map[string]any{"status": "cancelled"}))
}

func (c *goChecks) isNothing(id string) func(context.Context) error {
	return func(ctx context.Context) error {
		task, err := c.GetTask(ctx, id)
		if task != nil {
			return fmt.Errorf("there is the task %v", task)
		}
		return err
	}
}

func (c *goChecks) cancelUnknown(ctx context.Context) error {
	_, err := c.CancelTask(ctx, unknownTask)
	return wantError(err, "NOT_FOUND", http.StatusNotFound)
}

func (c *goChecks) extra(ctx context.Context) error {
	wanted := request("extra", c.run)
	wanted.Extra = map[string]any{"mode": "fast"}
	_, err := c.Compile(ctx, wanted)
	return wantError(err, "INVALID_ARGUMENT", http.StatusBadRequest)
}

func (c *goChecks) createAs(p person, code string, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.lab.client(p).Compile(ctx, request("refused", c.run))
		return wantError(err, code, status)
	}
}

func (c *goChecks) conflict(ctx context.Context) error {
	keyed := c.lab.client(c.lab.user, func(o *goclient.Options) {
		o.Header = http.Header{"Idempotency-Key": {"interop-go-0000000001"}}
	})
	first, err := keyed.Compile(ctx, request("keyed", c.run))
	if err != nil {
		return err
	}
	repeat, err := keyed.Compile(ctx, request("keyed", c.run))
	if err := errors.Join(err, want(repeat, map[string]any{"task_id": first["task_id"]})); err != nil {
		return err
	}
	_, err = keyed.Compile(ctx, request("keyed-otherwise", c.run))
	return wantError(err, "CONFLICT", http.StatusConflict)
}

func (c *goChecks) health(ctx context.Context) error {
	healthy, err := c.Health(ctx)
	if !healthy {
		return errors.Join(err, errors.New("it is not healthy"))
	}
	return err
}

func (c *goChecks) listsWith(change func(*goclient.Options)) func(context.Context) error {
	return func(ctx context.Context) error {
		tasks, err := c.lab.client(c.lab.user, change).ListTasks(ctx, goclient.Filter{Limit: 1})
		return errors.Join(err, wantLength(tasks, 1))
	}
}

// until polls a task until it has a status.
func (c *goChecks) until(ctx context.Context, id, status string) (goclient.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		task, err := c.GetTask(ctx, id)
		if err != nil || task.Text("status") == status {
			return task, err
		}
		select {
		case <-ctx.Done():
			return task, fmt.Errorf("task %s did not become %s", id, status)
		case <-ticker.C:
		}
	}
}

// requestOf is what a record says that was asked for.
func requestOf(task goclient.Task) map[string]any {
	meta, _ := task["meta"].(map[string]any)
	asked, _ := meta["request"].(map[string]any)
	return asked
}

// want compares some members.
func want(got, members map[string]any) error {
	have := map[string]any{}
	for name := range members {
		value, ok := got[name]
		if !ok {
			return fmt.Errorf("there is no %s in %v", name, got)
		}
		have[name] = value
	}
	if diff := cmp.Diff(members, have); diff != "" {
		return fmt.Errorf("unexpected (-want +got):\n%s", diff)
	}
	return nil
}

func wantLength(tasks []goclient.Task, length int) error {
	if len(tasks) != length {
		return fmt.Errorf("there are %d tasks instead of %d", len(tasks), length)
	}
	return nil
}

func wantError(err error, code string, status int) error {
	failure, ok := errors.AsType[*goclient.Error](err)
	if !ok || failure.Code != code || failure.Status != status || failure.Message == "" {
		return fmt.Errorf("wanted %s (%d), got %w", code, status, err)
	}
	return nil
}
