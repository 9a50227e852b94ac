package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func taskOf(condition string) *v1alpha1.CompileTask {
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "t", UID: "u1"},
		Spec:       v1alpha1.CompileTaskSpec{To: "viking://resources/w"},
	}
	if condition != "" {
		task.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}}
	}
	return task
}

func TestExamineFindsWhatFallsShort(t *testing.T) {
	t.Parallel()
	once := fakeruntime.KeyReport{Executions: 1, Sessions: []string{"s1"}, Status: runtimeapi.StatusCompleted}
	twice := fakeruntime.KeyReport{Executions: 2, Sessions: []string{"s1", "s2"}, Status: runtimeapi.StatusCompleted}
	running := fakeruntime.KeyReport{Executions: 1, Sessions: []string{"s1"}, Status: runtimeapi.StatusRunning}
	cases := map[string]struct {
		kind      kind
		condition string
		change    func(*v1alpha1.CompileTask)
		entry     fakeruntime.KeyReport
		keys      []string
		want      func(findings) bool
	}{
		"a good task has no fault": {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: once, want: func(f findings) bool {
			return f.completed == 1 && f.lost+len(f.secondKeys)+len(f.secondRuns)+len(f.neverRun)+len(f.wrongEnd)+len(f.stuck)+len(f.runsOn)+len(f.unknown) == 0
		}},
		"a task that has not ended is lost":     {kind: kindQuick, entry: once, want: func(f findings) bool { return f.lost == 1 }},
		"a second execution shows":              {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: twice, want: func(f findings) bool { return len(f.secondRuns) == 1 }},
		"a second key shows":                    {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: once, keys: []string{"cmp_u1", "other"}, want: func(f findings) bool { return len(f.secondKeys) == 1 }},
		"two keys of a shared target are right": {kind: kindShared, condition: v1alpha1.ConditionComplete, entry: once, keys: []string{"cmp_u1", "other"}, want: func(f findings) bool { return len(f.secondKeys) == 0 }},
		"an end without an execution shows":     {kind: kindQuick, condition: v1alpha1.ConditionComplete, want: func(f findings) bool { return len(f.neverRun) == 1 }},
		"completed while it runs shows":         {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: running, want: func(f findings) bool { return len(f.wrongEnd) == 1 }},
		"cancelled while it runs shows":         {kind: kindCancelled, condition: v1alpha1.ConditionCancelled, entry: running, want: func(f findings) bool { return len(f.runsOn) == 1 }},
		"cancelled without a run is right":      {kind: kindCancelled, condition: v1alpha1.ConditionCancelled, want: func(f findings) bool { return len(f.neverRun)+len(f.wrongEnd)+len(f.runsOn) == 0 }},
		"a foreign session shows": {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: once,
			change: func(task *v1alpha1.CompileTask) { task.Status.SessionID = "s9" }, want: func(f findings) bool { return len(f.wrongEnd) == 1 }},
		"a finalizer left shows": {kind: kindQuick, condition: v1alpha1.ConditionComplete, entry: once,
			change: func(task *v1alpha1.CompileTask) { task.Finalizers = []string{"x"} }, want: func(f findings) bool { return len(f.stuck) == 1 }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := taskOf(c.condition)
			if c.change != nil {
				c.change(task)
			}
			report := fakeruntime.Report{
				Keys:  map[string]fakeruntime.KeyReport{},
				Tasks: map[string]fakeruntime.TaskReport{task.Spec.To: {Keys: c.keys}},
			}
			if c.entry.Executions > 0 {
				report.Keys[task.TaskID()] = c.entry
			}
			got := examine([]*made{{task: task, kind: c.kind}}, map[types.UID]*v1alpha1.CompileTask{task.UID: task}, report)
			if !c.want(got) {
				t.Errorf("unexpected findings %+v", got)
			}
		})
	}
}

func TestExamineFindsKeysOfNoTask(t *testing.T) {
	t.Parallel()
	got := examine(nil, nil, fakeruntime.Report{Keys: map[string]fakeruntime.KeyReport{"stray": {}}})
	if diff := cmp.Diff([]string{"stray"}, got.unknown); diff != "" {
		t.Errorf("unknown keys (-want +got):\n%s", diff)
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	cases := map[string]struct {
		runs []execution
		want int
	}{
		"one after the other":                {[]execution{{"b", at(2), at(3)}, {"a", at(1), at(2)}}, 0},
		"one during the other":               {[]execution{{"a", at(1), at(4)}, {"b", at(2), at(3)}}, 1},
		"two during one":                     {[]execution{{"a", at(1), at(9)}, {"b", at(2), at(3)}, {"c", at(4), at(5)}}, 2},
		"after one that never ended":         {[]execution{{"a", at(1), time.Time{}}, {"b", at(2), at(3)}}, 1},
		"a last one that goes on is allowed": {[]execution{{"a", at(1), at(2)}, {"b", at(2), time.Time{}}}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := overlaps("w", c.runs); len(got) != c.want {
				t.Errorf("overlaps %q, want %d", got, c.want)
			}
		})
	}
}

func TestBackward(t *testing.T) {
	t.Parallel()
	early, late := metav1.NewMicroTime(noon), metav1.NewMicroTime(noon.Add(time.Second))
	cases := map[string]struct {
		before, after *v1alpha1.CompileTask
		status        [2]v1alpha1.CompileTaskStatus
		want          int
	}{
		"an end that stays":        {before: taskOf(v1alpha1.ConditionComplete), after: taskOf(v1alpha1.ConditionComplete)},
		"an end taken back":        {before: taskOf(v1alpha1.ConditionComplete), after: taskOf(""), want: 1},
		"another end":              {before: taskOf(v1alpha1.ConditionComplete), after: taskOf(v1alpha1.ConditionCancelled), want: 1},
		"a session forgotten":      {status: [2]v1alpha1.CompileTaskStatus{{SessionID: "s"}, {}}, want: 1},
		"another runtime":          {status: [2]v1alpha1.CompileTaskStatus{{RuntimeName: "a"}, {RuntimeName: "b"}}, want: 1},
		"a time that goes back":    {status: [2]v1alpha1.CompileTaskStatus{{UpdateTime: &late}, {UpdateTime: &early}}, want: 1},
		"a time that goes on":      {status: [2]v1alpha1.CompileTaskStatus{{UpdateTime: &early}, {UpdateTime: &late}}},
		"a start that changes":     {status: [2]v1alpha1.CompileTaskStatus{{StartTime: &early}, {StartTime: &late}}, want: 1},
		"a session that is filled": {status: [2]v1alpha1.CompileTaskStatus{{}, {SessionID: "s"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := c.before, c.after
			if before == nil {
				before, after = taskOf(""), taskOf("")
				before.Status, after.Status = c.status[0], c.status[1]
			}
			if got := backward(before, after); len(got) != c.want {
				t.Errorf("faults %q, want %d", got, c.want)
			}
		})
	}
}
