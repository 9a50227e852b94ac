package compiletask

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

// full is a task with something in every field that trimming might take.
func full(conditions ...metav1.Condition) *v1alpha1.CompileTask {
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "t", UID: "uid", ResourceVersion: "7", Generation: 2,
			Finalizers:    []string{v1alpha1.FinalizerCancelOnDelete, "other"},
			Labels:        map[string]string{"a": "b"},
			Annotations:   map[string]string{v1alpha1.AnnotationRequestID: "req", v1alpha1.AnnotationCancelRequestedAt: "then", "c": strings.Repeat("x", 1000)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/a"}, To: "viking://resources/b", Skill: "viking://agent/skills/c",
			Instruction: "do", Args: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}, RuntimeName: "r", Cancel: true,
			TTLSecondsAfterFinished: ptr.To[int32](5), TTLSecondsAfterFailed: ptr.To[int32](9),
			Requester: v1alpha1.Requester{Username: "alice", Groups: []string{"g"}},
		},
		Status: v1alpha1.CompileTaskStatus{
			Conditions: conditions, Phase: v1alpha1.CompileTaskRunning, Stage: "s", TaskID: "id", RuntimeName: "r",
			CompletionTime: &metav1.MicroTime{Time: epoch}, Result: &runtime.RawExtension{Raw: []byte(`{}`)},
			ResultSummary: &v1alpha1.ResultSummary{Created: 1}, Error: &v1alpha1.TaskError{Code: "X", Message: "y"},
		},
	}
}

func trimmed(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	task = task.DeepCopy()
	trim(task)
	return task
}

func TestTrimKeepsWhatIsLeftToDoAfterTheEnd(t *testing.T) {
	for _, end := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed, v1alpha1.ConditionCancelled} {
		t.Run(end, func(t *testing.T) {
			task := full(metav1.Condition{Type: end, Status: metav1.ConditionTrue, Reason: "R", Message: "long"})
			task.Status.SessionID = "s1"
			got := trimmed(task)
			if !got.Terminal() || got.DerivePhase() != task.DerivePhase() || got.TaskID() != task.TaskID() || got.EffectiveRuntimeName() != "r" {
				t.Errorf("trimmed it reads %v, %s, %s on %s", got.Terminal(), got.DerivePhase(), got.TaskID(), got.EffectiveRuntimeName())
			}
			wantTTL, wantBounded := task.TTLSeconds()
			if ttl, bounded := got.TTLSeconds(); ttl != wantTTL || bounded != wantBounded {
				t.Errorf("TTL %d, %v; want %d, %v", ttl, bounded, wantTTL, wantBounded)
			}
			if !hasFinalizer(got) || !needsPass(got) || !got.Status.CompletionTime.Equal(task.Status.CompletionTime) {
				t.Error("what is left to do after the end is lost")
			}
			if diff := cmp.Diff([]any{task.UID, task.ResourceVersion, task.Finalizers, "s1", "alice"},
				[]any{got.UID, got.ResourceVersion, got.Finalizers, got.Status.SessionID, got.Spec.Requester.Username}); diff != "" {
				t.Errorf("trimmed (-want +got):\n%s", diff)
			}
			if got.Labels != nil || got.Annotations != nil || got.ManagedFields != nil || got.Spec.From != nil ||
				got.Status.Result != nil || got.Status.Conditions[0].Message != "" {
				t.Errorf("what nobody needs is kept: %+v", got)
			}
		})
	}
}

func TestTrimKeepsTheRequestUntilItIsSubmitted(t *testing.T) {
	waiting := metav1.Condition{Type: v1alpha1.ConditionSubmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTargetBusy, Message: "m"}
	got := trimmed(full(waiting))
	if got.Spec.Instruction != "do" || got.Spec.Args == nil || got.Status.Conditions[0].Message != "m" {
		t.Error("the request of a task that waits is lost")
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.AnnotationRequestID: "req", v1alpha1.AnnotationCancelRequestedAt: "then"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	running := full(metav1.Condition{Type: v1alpha1.ConditionSubmitted, Status: metav1.ConditionTrue})
	running.Status.SessionID = "s1"
	got = trimmed(running)
	if got.Spec.Args != nil || got.Spec.To == "" || got.Status.Stage != "s" {
		t.Error("a running task keeps its arguments, or lost what its passes need")
	}
}

func TestTrimKeepsSealedBodiesAsLongAsTheyAreNeeded(t *testing.T) {
	submitted := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionSubmitted, Status: status}
	}
	ended := metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}
	body := &v1alpha1.SealedBody{Data: []byte("x"), Size: 1, Keys: []string{"k"}}
	request := &v1alpha1.RESTRequest{Mark: "m", TraceParent: "t"}
	cases := map[string]struct {
		conditions            []metav1.Condition
		session               string
		wantArgs, credentials *v1alpha1.SealedBody
		wantRequest           *v1alpha1.RESTRequest
	}{
		"waiting":          {conditions: []metav1.Condition{submitted(metav1.ConditionFalse)}, wantArgs: body, credentials: body, wantRequest: request},
		"being submitted":  {conditions: []metav1.Condition{submitted(metav1.ConditionUnknown)}, wantArgs: body, credentials: body, wantRequest: request},
		"running":          {conditions: []metav1.Condition{submitted(metav1.ConditionTrue)}, session: "s", credentials: body, wantRequest: request},
		"ended":            {conditions: []metav1.Condition{ended}, session: "s", credentials: &v1alpha1.SealedBody{}},
		"never even begun": {conditions: []metav1.Condition{ended}, credentials: &v1alpha1.SealedBody{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := full(tc.conditions...)
			task.Finalizers, task.Spec.TTLSecondsAfterFinished, task.Spec.TTLSecondsAfterFailed = nil, nil, nil
			task.Status.SessionID = tc.session
			task.Spec.SealedArgs, task.Spec.SealedCredentials, task.Spec.RESTRequest = body, body, request
			got := trimmed(task)
			if diff := cmp.Diff([]any{tc.wantArgs, tc.credentials, tc.wantRequest}, []any{got.Spec.SealedArgs, got.Spec.SealedCredentials, got.Spec.RESTRequest}); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if !needsPass(got) {
				t.Error("what is left to be erased is lost")
			}
			task.Spec.SealedCredentials = nil
			if got := trimmed(task); got.Spec.SealedCredentials != nil || needsPass(got) != !got.Terminal() {
				t.Error("a task without credentials seems to have some")
			}
		})
	}
}

func TestCacheOptionsTrimOnlyTasks(t *testing.T) {
	transform := CacheOptions().Transform
	got, err := transform(full())
	if task, ok := got.(*v1alpha1.CompileTask); err != nil || !ok || task.ManagedFields != nil {
		t.Errorf("transformed into %T, %v", got, err)
	}
	other := &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	if _, err := transform(other); err != nil || len(other.ManagedFields) != 1 {
		t.Errorf("another object is changed, or %v", err)
	}
}

// listing is a reader that knows some tasks.
type listing struct {
	client.Reader
	tasks []v1alpha1.CompileTask
	err   error
}

func (l listing) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, ok := into.(*v1alpha1.CompileTaskList); ok {
		list.Items = l.tasks
	}
	return l.err
}

func TestMetricsCountTasksByPhase(t *testing.T) {
	completed := *full(metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue})
	pending := *full()
	pending.Spec.Cancel = false
	registry := prometheus.NewRegistry()
	reader := listing{tasks: []v1alpha1.CompileTask{completed, *trimmed(&completed), pending, *full()}}
	metrics, err := NewMetrics(registry, reader)
	if err != nil {
		t.Fatalf("new metrics: %v", err)
	}
	if n, err := testutil.GatherAndCount(registry, "agentruntime_compiletask_tasks"); err != nil || n != 0 {
		t.Errorf("a process that does not lead counts %d phases, %v", n, err)
	}
	metrics.leads()
	const want = `
# HELP agentruntime_compiletask_tasks Number of CompileTasks by phase.
# TYPE agentruntime_compiletask_tasks gauge
agentruntime_compiletask_tasks{phase="Cancelled"} 0
agentruntime_compiletask_tasks{phase="Cancelling"} 1
agentruntime_compiletask_tasks{phase="Completed"} 2
agentruntime_compiletask_tasks{phase="Failed"} 0
agentruntime_compiletask_tasks{phase="Pending"} 1
agentruntime_compiletask_tasks{phase="Running"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "agentruntime_compiletask_tasks"); err != nil {
		t.Error(err)
	}
	if _, err := NewMetrics(registry, reader); err == nil {
		t.Error("metrics are registered twice without an error")
	}
	failing := prometheus.NewRegistry()
	blind, err := NewMetrics(failing, listing{err: errors.New("no cache")})
	if err != nil {
		t.Fatalf("new metrics: %v", err)
	}
	blind.leads()
	if n, err := testutil.GatherAndCount(failing, "agentruntime_compiletask_tasks"); err == nil {
		t.Errorf("without a cache %d values and no error", n)
	}
}

func TestMetricsOfCallsAndEnds(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, listing{})
	if err != nil {
		t.Fatalf("new metrics: %v", err)
	}
	for outcome, err := range map[string]error{
		"ok": nil, "ended": context.Canceled, "transient": &executor.Error{Code: "UNAVAILABLE", Transient: true},
		"not_found": &executor.Error{Code: "NOT_FOUND", HTTPStatus: 404, Op: executor.OpPoll}, "permanent": &executor.Error{Code: "X", HTTPStatus: 400},
	} {
		if got := outcomeOf(err); got != outcome {
			t.Errorf("outcome of %v: %s, want %s", err, got, outcome)
		}
		m.call(opPoll, err, time.Second)
	}
	at, task := newAttempts().of(version("1", "")), full()
	m.admitted(at, task, epoch)
	m.admitted(at, task, epoch)
	m.ended(task, &ending{condition: v1alpha1.ConditionFailed, endLag: -1}, epoch)
	task.Status.StartTime = &metav1.MicroTime{Time: epoch}
	m.ended(task, &ending{condition: v1alpha1.ConditionComplete, endLag: time.Millisecond}, epoch.Add(time.Minute))
	for name, want := range map[string]int{"queue_wait_seconds": 1, "run_seconds": 1, "executor_call_seconds": 5, "end_lag_seconds": 1} {
		if got, err := testutil.GatherAndCount(registry, "agentruntime_compiletask_"+name); err != nil || got != want {
			t.Errorf("%s: %d series, %v; want %d", name, got, err, want)
		}
	}
}
