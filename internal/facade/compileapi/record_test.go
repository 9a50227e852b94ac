package compileapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// shown reads the task through the API.
func (r *rig) shown(task *v1alpha1.CompileTask) map[string]any {
	r.t.Helper()
	return r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "").result(r.t, http.StatusOK)
}

func TestStatusAndStage(t *testing.T) {
	salvaged := func(t *v1alpha1.CompileTask) {
		becomes(v1alpha1.CompileTaskCompleted, "compile: whatever")(t)
		t.Status.Conditions[1].Reason = v1alpha1.ReasonSalvaged
	}
	cases := map[string]struct {
		change func(*v1alpha1.CompileTask)
		want   []any
	}{
		"new":                             {nil, []any{"pending", "queued"}},
		"waiting":                         {becomes("", "queued"), []any{"pending", "queued"}},
		"submitting":                      {becomes(v1alpha1.CompileTaskRunning, ""), []any{"running", "submitting"}},
		"submitted while still queued":    {becomes(v1alpha1.CompileTaskRunning, "queued"), []any{"running", "submitting"}},
		"running, the executor's words":   {becomes(v1alpha1.CompileTaskRunning, "compile: agent"), []any{"running", "compile: agent"}},
		"cancelling keeps the last stage": {becomes(v1alpha1.CompileTaskCancelling, "writing"), []any{"cancelling", "writing"}},
		"cancelling before a stage":       {becomes(v1alpha1.CompileTaskCancelling, ""), []any{"cancelling", "queued"}},
		"completed":                       {becomes(v1alpha1.CompileTaskCompleted, "completed"), []any{"completed", "completed"}},
		"completed, with a prefix":        {becomes(v1alpha1.CompileTaskCompleted, "compile: completed"), []any{"completed", "completed"}},
		"completed, in another stage":     {becomes(v1alpha1.CompileTaskCompleted, "writing"), []any{"completed", "completed"}},
		"salvaged":                        {becomes(v1alpha1.CompileTaskCompleted, "compile: salvaged"), []any{"completed", "salvaged"}},
		"salvaged, by its reason":         {salvaged, []any{"completed", "salvaged"}},
		"failed in a stage":               {becomes(v1alpha1.CompileTaskFailed, "compile: writing"), []any{"failed", "writing"}},
		"only one prefix is dropped":      {becomes(v1alpha1.CompileTaskFailed, "compile: compile: x"), []any{"failed", "compile: x"}},
		"failed before a stage":           {becomes(v1alpha1.CompileTaskFailed, ""), []any{"failed", "queued"}},
		"cancelled":                       {becomes(v1alpha1.CompileTaskCancelled, "compile: writing"), []any{"cancelled", "cancelled"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			got := r.shown(r.seed("one", tc.change))
			if diff := cmp.Diff(tc.want, []any{got["status"], got["stage"]}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordOfACompletedTask(t *testing.T) {
	r := newRig(t)
	update := metav1.NewMicroTime(noon.Add(2 * time.Second))
	task := r.seed("one", func(task *v1alpha1.CompileTask) {
		becomes(v1alpha1.CompileTaskCompleted, "completed")(task)
		task.Status.UpdateTime = &update
		task.Status.SessionID, task.Spec.Instruction = "session-1", "do"
		task.Status.Canonical = &v1alpha1.CanonicalRequest{From: []string{"viking://resources/x"}, To: "viking://resources/y", Skill: "viking://agent/skills/z"}
		task.Status.Meta = &runtime.RawExtension{Raw: []byte(`{"token_usage":{"total":12345678901234567890,"api_key":"s3cret"},"request":{"forged":true},"user_key":"s3cret"}`)}
		task.Status.Result = &runtime.RawExtension{Raw: []byte(`{"pages":[{"n":1.50,"USER_KEY":"s3cret"}],"ok":"<a&b>"}`)}
		task.Status.Error = &v1alpha1.TaskError{Code: "X", Message: "left over"}
	})
	got := r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "")
	want := map[string]any{
		"task_id": task.TaskID(), "task_type": "compile", "status": "completed", "stage": "completed", "resource_id": "viking://resources/x",
		"created_at": json.Number("1772366400.000000"), "updated_at": json.Number("1772366402.123456"),
		"created_at_iso": "2026-03-01T12:00:00.000000Z", "updated_at_iso": "2026-03-01T12:00:02.123456Z",
		"result": map[string]any{"pages": []any{map[string]any{"n": json.Number("1.50")}}, "ok": "<a&b>"}, "error": nil,
		"meta": map[string]any{
			"request":     map[string]any{"from": []any{"viking://resources/x"}, "to": "viking://resources/y", "skill": "viking://agent/skills/z", "instruction": "do"},
			"token_usage": map[string]any{"total": json.Number("12345678901234567890")},
		},
		"processing_seconds": json.Number("1.500000"),
	}
	if diff := cmp.Diff(want, got.result(t, http.StatusOK)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for _, hidden := range []string{"s3cret", "alice", "session-1", "forged"} {
		if strings.Contains(got.body, hidden) {
			t.Errorf("%s is shown: %s", hidden, got.body)
		}
	}
}

func TestResultOnlyOfCompletedTasks(t *testing.T) {
	r := newRig(t)
	for _, phase := range []v1alpha1.CompileTaskPhase{"", v1alpha1.CompileTaskRunning, v1alpha1.CompileTaskFailed, v1alpha1.CompileTaskCancelled} {
		task := r.seed("one", func(task *v1alpha1.CompileTask) {
			becomes(phase, "writing")(task)
			task.Status.Result = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
		})
		if got := r.shown(task); got["result"] != nil {
			t.Errorf("%s: result %v", phase, got["result"])
		}
	}
}

func TestErrorText(t *testing.T) {
	failed := func(message string) func(*v1alpha1.CompileTask) {
		return func(task *v1alpha1.CompileTask) {
			becomes(v1alpha1.CompileTaskFailed, "writing")(task)
			task.Status.Error = &v1alpha1.TaskError{Code: "UNAVAILABLE", Message: message}
		}
	}
	cases := map[string]struct{ message, want string }{
		"harmless":      {"the executor is away", "UNAVAILABLE: the executor is away"},
		"a token":       {"key sk-abc123 and Bearer x.y-z", "UNAVAILABLE: key [REDACTED] and [REDACTED]"},
		"too long":      {strings.Repeat("ü", 501), "UNAVAILABLE: " + strings.Repeat("ü", 500) + "...[truncated]"},
		"already cut":   {strings.Repeat("x", 500) + "...[truncated]", "UNAVAILABLE: " + strings.Repeat("x", 500) + "...[truncated]"},
		"just fits":     {strings.Repeat("x", 500), "UNAVAILABLE: " + strings.Repeat("x", 500)},
		"another token": {"ghp_0123456789", "UNAVAILABLE: [REDACTED]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if got := r.shown(r.seed("one", failed(tc.message)))["error"]; got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUpdateTimeNeverGoesBack(t *testing.T) {
	early, late := metav1.NewMicroTime(noon.Add(-time.Hour)), metav1.NewMicroTime(noon.Add(time.Hour))
	cancelled := func(at string, update *metav1.MicroTime) func(*v1alpha1.CompileTask) {
		return func(task *v1alpha1.CompileTask) {
			task.Spec.Cancel, task.Status.UpdateTime = true, update
			task.Annotations = map[string]string{v1alpha1.AnnotationCancelRequestedAt: at}
		}
	}
	cases := map[string]struct {
		change func(*v1alpha1.CompileTask)
		want   string
	}{
		"never changed":                 {nil, "2026-03-01T12:00:00.000000Z"},
		"a clock that was behind":       {func(task *v1alpha1.CompileTask) { task.Status.UpdateTime = &early }, "2026-03-01T12:00:00.000000Z"},
		"a change":                      {func(task *v1alpha1.CompileTask) { task.Status.UpdateTime = &late }, "2026-03-01T13:00:00.123456Z"},
		"a cancel that nobody has seen": {cancelled("2026-03-01T12:30:00.000001Z", nil), "2026-03-01T12:30:00.000001Z"},
		"a cancel before a change": {func(task *v1alpha1.CompileTask) {
			cancelled("2026-03-01T12:30:00.000001Z", &late)(task)
			task.Status.Phase = v1alpha1.CompileTaskCancelling
		}, "2026-03-01T13:00:00.123456Z"},
		"a cancel by a clock that was behind": {cancelled("2026-03-01T12:30:00.000001Z", &late), "2026-03-01T13:00:00.123457Z"},
		"a cancel whose time nobody noted":    {cancelled("", &late), "2026-03-01T13:00:00.123457Z"},
		"a time that is none":                 {cancelled("tomorrow", nil), "2026-03-01T12:00:00.000001Z"},
		"a time without a cancel": {func(task *v1alpha1.CompileTask) {
			cancelled("2026-03-01T12:30:00.000001Z", nil)(task)
			task.Spec.Cancel = false
		}, "2026-03-01T12:00:00.000000Z"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if got := r.shown(r.seed("one", tc.change))["updated_at_iso"]; got != tc.want {
				t.Errorf("updated at %v, want %s", got, tc.want)
			}
		})
	}
}

func TestResultsThatCantBeRead(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskCompleted, "completed"))
	for name, err := range map[string]error{"its Payload is gone": notFound("p"), "no key opens it": fmt.Errorf("open: %w", sealed.ErrUnreadable)} {
		r.tasks.resultErr = err
		got := r.shown(task)
		if meta, _ := got["meta"].(map[string]any); got["result"] != nil || meta["result_unavailable"] != true {
			t.Errorf("%s: result %v, meta %v", name, got["result"], meta)
		}
	}
	for _, err := range []error{apierrors.NewServiceUnavailable("etcd"), errors.New("load the key ring")} {
		r.tasks.resultErr = err
		r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "").fails(t, http.StatusServiceUnavailable, "UNAVAILABLE")
	}
	r.tasks.resultErr, r.tasks.result = nil, json.RawMessage(`{"from":"a payload"}`)
	if diff := cmp.Diff(map[string]any{"from": "a payload"}, r.shown(task)["result"]); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestSealedArgsThatCantBeOpened(t *testing.T) {
	r := newRig(t)
	r.create(`{"args":{"n":1e2},` + plainBody[1:])
	r.tasks.ring = newRing(t)
	got := r.shown(r.the())
	meta, _ := got["meta"].(map[string]any)
	request, _ := meta["request"].(map[string]any)
	if meta["args_unavailable"] != true || request["args"] != nil {
		t.Errorf("meta %v", meta)
	}
}
