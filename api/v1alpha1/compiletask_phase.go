package v1alpha1

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DerivePhase sums up the task in one word. It is the only source of
// status.phase: a pure function of the spec's intent and the conditions, so that
// a task whose cancel was just accepted reads as Cancelling before any
// controller has seen it.
func (t *CompileTask) DerivePhase() CompileTaskPhase {
	switch {
	case t.hasCondition(ConditionComplete):
		return CompileTaskCompleted
	case t.hasCondition(ConditionFailed):
		return CompileTaskFailed
	case t.hasCondition(ConditionCancelled):
		return CompileTaskCancelled
	case t.Spec.Cancel:
		return CompileTaskCancelling
	}
	submitted := meta.FindStatusCondition(t.Status.Conditions, ConditionSubmitted)
	if submitted == nil || submitted.Status == metav1.ConditionFalse {
		return CompileTaskPending
	}
	return CompileTaskRunning
}

// Terminal reports whether the task has ended. An ended task never changes its
// outcome.
func (t *CompileTask) Terminal() bool {
	return t.hasCondition(ConditionComplete) || t.hasCondition(ConditionFailed) || t.hasCondition(ConditionCancelled)
}

func (t *CompileTask) hasCondition(conditionType string) bool {
	return meta.IsStatusConditionTrue(t.Status.Conditions, conditionType)
}

// restName matches the names of tasks made through the REST API.
var restName = regexp.MustCompile(`^cmp-[0-9a-f]{32}$`)

// TaskIDPrefix begins every task id.
const TaskIDPrefix = "cmp_"

// TaskID returns the task's one identity: its id on the wire and, byte for byte,
// the executor's Idempotency-Key. An object named cmp-<32 hex>, as the REST API
// names them, carries it in its name; any other has "cmp_" and its uid without
// dashes. It is empty for an object that the API server has not stored.
func (t *CompileTask) TaskID() string {
	if restName.MatchString(t.Name) {
		return TaskIDPrefix + strings.TrimPrefix(t.Name, "cmp-")
	}
	if t.UID == "" {
		return ""
	}
	return TaskIDPrefix + strings.ReplaceAll(string(t.UID), "-", "")
}

// EffectiveRuntimeName is the runtime the task is bound to: the one recorded in
// status, else the one named in spec, else empty.
func (t *CompileTask) EffectiveRuntimeName() string {
	if t.Status.RuntimeName != "" {
		return t.Status.RuntimeName
	}
	return t.Spec.RuntimeName
}

// TTLSeconds is how long an ended task is kept after its end, and whether it has
// a bound at all.
func (t *CompileTask) TTLSeconds() (int32, bool) {
	if t.hasCondition(ConditionFailed) && t.Spec.TTLSecondsAfterFailed != nil {
		return *t.Spec.TTLSecondsAfterFailed, true
	}
	if t.Spec.TTLSecondsAfterFinished != nil {
		return *t.Spec.TTLSecondsAfterFinished, true
	}
	return 0, false
}
