package compiletask

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Reasons of events beyond those shared with conditions.
const (
	eventStageChanged = "StageChanged"
	eventActionRun    = "Run"
	eventActionWait   = "Wait"
	eventActionCancel = "Cancel"
)

// maxNoteBytes is the API server's bound of an event's note.
const maxNoteBytes = 1024

func (r *Reconciler) event(s *scope, eventType, reason, action, note string) {
	// The recorder copies what it needs; TypeMeta is empty on objects read through
	// a typed client and is filled in from the scheme.
	r.Recorder.Eventf(s.task, nil, eventType, reason, action, "%s", clip(note, maxNoteBytes))
}

// waitingEvent tells of a wait that someone has to end. Waiting for one's turn is
// ordinary, and stands in the condition.
func (r *Reconciler) waitingEvent(s *scope, reason, message string) {
	switch reason {
	case v1alpha1.ReasonTargetBusy, v1alpha1.ReasonRuntimeBusy, v1alpha1.ReasonSuspended:
	default:
		r.event(s, corev1.EventTypeWarning, reason, eventActionWait, message)
	}
}

// recordEvents tells what the write from before to the present object changed.
func (r *Reconciler) recordEvents(before *v1alpha1.CompileTask, s *scope, in input) {
	if before.Status.SessionID == "" && s.task.Status.SessionID != "" {
		r.event(s, corev1.EventTypeNormal, v1alpha1.ReasonAccepted, eventActionRun, "The executor has accepted the task as session "+s.task.Status.SessionID)
	} else if before.Status.SessionID != "" && before.Status.Stage != s.task.Status.Stage {
		r.event(s, corev1.EventTypeNormal, eventStageChanged, eventActionRun, "Stage "+s.task.Status.Stage)
	}
	wasFailing, failing := unreachable(before), unreachable(s.task)
	if failing != "" && wasFailing == "" {
		r.event(s, corev1.EventTypeWarning, v1alpha1.ReasonCallFailed, eventActionRun, failing)
	}
	if in.stopping() && before.Status.Phase != s.task.Status.Phase && s.task.Status.Phase == v1alpha1.CompileTaskCancelling {
		r.event(s, corev1.EventTypeNormal, string(v1alpha1.CompileTaskCancelling), eventActionCancel, "The executor is asked to stop the task")
	}
}

// unreachable is why calls fail, "" when they do not.
func unreachable(task *v1alpha1.CompileTask) string {
	for _, condition := range task.Status.Conditions {
		if condition.Type == v1alpha1.ConditionExecutorReachable && condition.Status == "False" {
			return condition.Message
		}
	}
	return ""
}

// endEvent tells how the task ended. A quick task's conditions tell its story, so
// a good end makes an event only for one that was on record as running.
func (r *Reconciler) endEvent(s *scope, end *ending, outlived bool) {
	switch {
	case end.condition == v1alpha1.ConditionFailed, end.reason == v1alpha1.ReasonCancelUnconfirmed, end.reason == v1alpha1.ReasonSalvaged:
		r.event(s, corev1.EventTypeWarning, end.reason, eventActionRun, end.message)
	case outlived:
		r.event(s, corev1.EventTypeNormal, end.reason, eventActionRun, end.message)
	}
}
