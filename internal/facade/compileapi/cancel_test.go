package compileapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func (r *rig) cancelled(task *v1alpha1.CompileTask, body string) answer {
	r.t.Helper()
	return r.call(http.MethodPost, "/api/v1/tasks/"+task.TaskID()+"/cancel", body)
}

func TestCancel(t *testing.T) {
	cases := map[string]struct {
		phase       v1alpha1.CompileTaskPhase
		want        int
		wantState   string
		wantMessage string
		wantWrites  int
	}{
		"a pending task":    {phase: "", want: 200, wantState: "cancelling", wantWrites: 1},
		"a running task":    {phase: v1alpha1.CompileTaskRunning, want: 200, wantState: "cancelling", wantWrites: 1},
		"a cancelling task": {phase: v1alpha1.CompileTaskCancelling, want: 200, wantState: "cancelling"},
		"a cancelled task":  {phase: v1alpha1.CompileTaskCancelled, want: 200, wantState: "cancelled"},
		"a completed task":  {phase: v1alpha1.CompileTaskCompleted, want: 412, wantMessage: "Task is already completed"},
		"a failed task":     {phase: v1alpha1.CompileTaskFailed, want: 412, wantMessage: "Task is already failed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			task := r.seed("one", becomes(tc.phase, "agent"))
			got := r.cancelled(task, "")
			if r.tasks.cancels != tc.wantWrites {
				t.Errorf("%d writes, want %d", r.tasks.cancels, tc.wantWrites)
			}
			if tc.want != http.StatusOK {
				if told := got.fails(t, tc.want, "FAILED_PRECONDITION"); told.Message != tc.wantMessage {
					t.Errorf("message %q", told.Message)
				}
				return
			}
			result := got.result(t, http.StatusOK)
			if result["status"] != tc.wantState || result["task_id"] != task.TaskID() || got.header.Get("ETag") == "" {
				t.Errorf("record %v", result)
			}
			again := r.cancelled(task, "{}").result(t, http.StatusOK)
			if again["updated_at"] != result["updated_at"] || r.tasks.cancels != tc.wantWrites {
				t.Errorf("a repeat changed something: %v, %d writes", again, r.tasks.cancels)
			}
		})
	}
}

func TestAnAcceptedCancelMovesTheRecordsTime(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", nil)
	before := r.shown(task)["updated_at_iso"]
	after := r.cancelled(task, "").result(t, http.StatusOK)["updated_at_iso"]
	if fmt.Sprint(after) <= fmt.Sprint(before) {
		t.Errorf("updated at %v, before %v", after, before)
	}
}

func TestCancelBodies(t *testing.T) {
	cases := map[string]struct {
		body, contentType string
		want              int
	}{
		"none":                           {want: 200},
		"an empty object":                {body: "{}", contentType: "application/json", want: 200},
		"an empty object with space":     {body: " { } \n", contentType: "application/json", want: 200},
		"an empty object without a type": {body: "{}", want: 200},
		"only space":                     {body: " \n", want: 400},
		"a member":                       {body: `{"force":true}`, contentType: "application/json", want: 400},
		"a list":                         {body: "[]", want: 400},
		"null":                           {body: "null", want: 400},
		"no JSON":                        {body: "{", want: 400},
		"two objects":                    {body: "{}{}", want: 400},
		"too large":                      {body: strings.Repeat(" ", maxCancelBytes+1), want: 400},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			task := r.seed("one", nil)
			request := r.request(t.Context(), http.MethodPost, "/api/v1/tasks/"+task.TaskID()+"/cancel", tc.body)
			request.Header.Del("Content-Type")
			if tc.contentType != "" {
				request.Header.Set("Content-Type", tc.contentType)
			}
			if got := r.do(request); got.status != tc.want || tc.want == 400 && r.tasks.cancels != 0 {
				t.Errorf("answer %d %s, want %d", got.status, got.body, tc.want)
			}
		})
	}
}

func TestCancelThatComesTooLate(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
	r.tasks.cancelRace = becomes(v1alpha1.CompileTaskCompleted, "completed")
	r.cancelled(task, "").fails(t, http.StatusPreconditionFailed, "FAILED_PRECONDITION")
	task = r.seed("two", becomes(v1alpha1.CompileTaskRunning, "agent"))
	r.tasks.cancelRace = becomes(v1alpha1.CompileTaskCancelled, "")
	if got := r.cancelled(task, "").result(t, http.StatusOK); got["status"] != "cancelled" {
		t.Errorf("record %v", got)
	}
}

func TestCancelThatFails(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("compiletasks").GroupResource()
	cases := map[string]struct {
		err        error
		wantStatus int
		wantCode   string
	}{
		"the task went away":        {notFound("one"), 404, "NOT_FOUND"},
		"the caller may not":        {apierrors.NewForbidden(resource, "", errors.New("no")), 403, "PERMISSION_DENIED"},
		"it was changed meanwhile":  {apierrors.NewConflict(resource, "one", errors.New("old")), 409, "CONFLICT"},
		"the cluster is away":       {errors.New("dial"), 503, "UNAVAILABLE"},
		"the cluster is too loaded": {apierrors.NewTooManyRequests("x", 1), 429, "RESOURCE_EXHAUSTED"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			task := r.seed("one", nil)
			r.tasks.cancelErr = tc.err
			r.cancelled(task, "").fails(t, tc.wantStatus, tc.wantCode)
		})
	}
}
