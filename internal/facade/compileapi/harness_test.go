package compileapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

// rig is the dialect over tasks in memory, without a network.
type rig struct {
	t        testing.TB
	tasks    *memoryTasks
	rights   *rights
	runtimes *oneRuntime
	keys     fixedRing
	now      time.Time
	mux      *http.ServeMux
	// info is what each request comes with.
	info httpapi.Info
}

func newRig(t testing.TB) *rig {
	t.Helper()
	ring := newRing(t)
	r := &rig{
		t: t, tasks: newMemoryTasks(ring), keys: fixedRing{ring}, now: noon,
		rights:   newRights("alice get own", "alice create", "alice use", "bob get own", "bob create", "bob use", "root get any"),
		runtimes: &oneRuntime{runtime: runtimeOf("")},
		info: httpapi.Info{
			ID: "req-1", TraceParent: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
			Caller: access.Caller{User: v1alpha1.Requester{Username: "alice"}}, Namespace: "docs",
		},
	}
	r.rebuild()
	return r
}

// rebuild makes the dialect anew, at the rig's time.
func (r *rig) rebuild() {
	r.t.Helper()
	now := r.now
	api, err := New(Config{
		Tasks: r.tasks, Authorizer: r.rights, Runtimes: r.runtimes, Keys: r.keys, Now: func() time.Time { return now },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mux = http.NewServeMux()
	for _, route := range api.Routes() {
		r.mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, req *http.Request) {
			if err := route.Handle(w, req); err != nil {
				wire.Fail(w, err)
			}
		})
	}
}

func (r *rig) as(username string) *rig {
	other := *r
	other.info.Caller = access.Caller{User: v1alpha1.Requester{Username: username}}
	return &other
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(request *http.Request) answer {
	r.t.Helper()
	recorder := httptest.NewRecorder()
	info := r.info
	r.mux.ServeHTTP(recorder, request.WithContext(httpapi.WithInfo(request.Context(), &info)))
	return answer{status: recorder.Code, header: recorder.Header(), body: recorder.Body.String()}
}

func (r *rig) request(ctx context.Context, method, target, body string, headers ...string) *http.Request {
	request := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return request
}

func (r *rig) call(method, target, body string, headers ...string) answer {
	r.t.Helper()
	return r.do(r.request(r.t.Context(), method, target, body, headers...))
}

// result decodes a success.
func (a answer) result(t testing.TB, wantStatus int) map[string]any {
	t.Helper()
	var envelope struct {
		Status string         `json:"status"`
		Result map[string]any `json:"result"`
	}
	a.decode(t, &envelope)
	if a.status != wantStatus || envelope.Status != "ok" {
		t.Fatalf("answer %d %s, want %d and ok", a.status, a.body, wantStatus)
	}
	return envelope.Result
}

func (a answer) decode(t testing.TB, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("decode %q: %v", a.body, err)
	}
}

type toldError struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// fails decodes an error.
func (a answer) fails(t testing.TB, wantStatus int, wantCode string) toldError {
	t.Helper()
	var envelope struct {
		Status string    `json:"status"`
		Error  toldError `json:"error"`
	}
	a.decode(t, &envelope)
	if a.status != wantStatus || envelope.Status != "error" || envelope.Error.Code != wantCode || envelope.Error.Message == "" {
		t.Fatalf("answer %d %s, want %d %s", a.status, a.body, wantStatus, wantCode)
	}
	return envelope.Error
}

const plainBody = `{"from":["viking://resources/research"],"to":"viking://resources/wiki","skill":"viking://agent/skills/llm-wiki"}`

func (r *rig) create(body string, headers ...string) map[string]any {
	r.t.Helper()
	return r.call(http.MethodPost, "/api/v1/compile", body, headers...).result(r.t, http.StatusAccepted)
}

// the returns the only stored task.
func (r *rig) the() *v1alpha1.CompileTask {
	r.t.Helper()
	all := r.tasks.all()
	if len(all) != 1 {
		r.t.Fatalf("%d tasks are stored, want 1", len(all))
	}
	return all[0]
}

// seed stores a task of alice's, as kubectl makes them.
func (r *rig) seed(name string, change func(*v1alpha1.CompileTask)) *v1alpha1.CompileTask {
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "docs", Name: name, CreationTimestamp: metav1.NewTime(noon.Truncate(time.Second))},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/a", "viking://resources/b"}, To: "viking://resources/wiki",
			Skill: "viking://agent/skills/llm-wiki", Requester: v1alpha1.Requester{Username: "alice"},
		},
	}
	if change != nil {
		change(task)
	}
	return r.tasks.put(task)
}

func isTrue(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

// becomes gives a task the conditions of a phase.
func becomes(phase v1alpha1.CompileTaskPhase, stage string) func(*v1alpha1.CompileTask) {
	return func(t *v1alpha1.CompileTask) {
		t.Status.Stage = stage
		submitted := isTrue(v1alpha1.ConditionSubmitted, v1alpha1.ReasonAccepted)
		start, end := metav1.NewMicroTime(noon), metav1.NewMicroTime(noon.Add(1500*time.Millisecond))
		switch phase {
		case v1alpha1.CompileTaskRunning:
			t.Status.Conditions = []metav1.Condition{submitted}
			t.Status.StartTime = &start
		case v1alpha1.CompileTaskCancelling:
			t.Status.Conditions, t.Spec.Cancel = []metav1.Condition{submitted}, true
		case v1alpha1.CompileTaskCompleted:
			t.Status.Conditions = []metav1.Condition{submitted, isTrue(v1alpha1.ConditionComplete, v1alpha1.ReasonCompleted)}
			t.Status.StartTime, t.Status.CompletionTime = &start, &end
		case v1alpha1.CompileTaskFailed:
			t.Status.Conditions = []metav1.Condition{submitted, isTrue(v1alpha1.ConditionFailed, v1alpha1.ReasonExecutorFailed)}
			t.Status.StartTime, t.Status.CompletionTime = &start, &end
		case v1alpha1.CompileTaskCancelled:
			t.Status.Conditions = []metav1.Condition{isTrue(v1alpha1.ConditionCancelled, v1alpha1.ReasonCancelledByUser)}
			t.Spec.Cancel, t.Status.CompletionTime = true, &end
		}
	}
}
