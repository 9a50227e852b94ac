package compiletask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

// writeStatus writes the status that change makes of the present one, on the
// condition that the object is still at the version this pass looked at. Nothing
// is written when nothing changes. Only metadata that identifies the object goes
// along: the rest of it may be trimmed in the cache, and the API server keeps its
// own.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, change func(*v1alpha1.CompileTaskStatus)) error {
	next := s.task.DeepCopy()
	change(&next.Status)
	if equality.Semantic.DeepEqual(s.task.Status, next.Status) && next.Status.Phase == next.DerivePhase() {
		return nil
	}
	next.Status.TaskID = next.TaskID()
	next.Status.ObservedGeneration = s.task.Generation
	next.Status.Phase = next.DerivePhase()
	next.Status.UpdateTime = changedAt(s.task, s.now)
	write := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.task.Namespace, Name: s.task.Name, UID: s.task.UID, ResourceVersion: s.task.ResourceVersion,
		},
		Status: next.Status,
	}
	if err := r.Client.Status().Update(ctx, write); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	s.task = write
	s.attempt.wrote(write.DeepCopy(), s.now)
	return nil
}

// following is the time of a change: now, but always after the change before it
// (spec decision 0.3, "timestamps").
func following(previous *metav1.MicroTime, now time.Time) *metav1.MicroTime {
	now = now.Truncate(time.Microsecond)
	if previous != nil && !now.After(previous.Time) {
		now = previous.Add(time.Microsecond)
	}
	return &metav1.MicroTime{Time: now}
}

// maxAhead is how far ahead of this process's clock a time that the REST API noted is
// taken for one: its clock may differ a little, and anyone may write the annotation.
const maxAhead = 10 * time.Second

// changedAt is the time of the next change of a task's status: now, but after the
// change before it, and after the REST API took a cancel, which its callers see as a
// change too.
func changedAt(task *v1alpha1.CompileTask, now time.Time) *metav1.MicroTime {
	previous := task.Status.UpdateTime
	asked, err := time.Parse(time.RFC3339Nano, task.Annotations[v1alpha1.AnnotationCancelRequestedAt])
	if err == nil && asked.Sub(now) <= maxAhead && (previous == nil || asked.After(previous.Time)) {
		previous = &metav1.MicroTime{Time: asked.Truncate(time.Microsecond)}
	}
	return following(previous, now)
}

// waitFor says in the task's status what it waits for, once for each kind of
// thing: whether it is its target or its runtime that is busy is one kind. What a
// person has to mend is said anew when it is something else.
func (r *Reconciler) waitFor(ctx context.Context, s *scope, reason, message string, retry time.Duration) (bool, ctrl.Result, error) {
	result := ctrl.Result{}
	if retry > 0 {
		result.RequeueAfter = jitter(retry)
	}
	if waitsFor(s.task, reason, message) && s.task.Status.Phase == s.task.DerivePhase() {
		return true, result, nil
	}
	err := r.writeStatus(ctx, s, func(status *v1alpha1.CompileTaskStatus) {
		status.Stage = v1alpha1.StageQueued
		setCondition(status, s, v1alpha1.ConditionSubmitted, metav1.ConditionFalse, reason, message)
	})
	if err != nil {
		return true, ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).V(2).Info("Task waits", "reason", reason)
	r.waitingEvent(s, reason, message)
	return true, result, nil
}

// waitsFor tells whether the task's status says so already.
func waitsFor(task *v1alpha1.CompileTask, reason, message string) bool {
	have := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSubmitted)
	if have == nil || have.Status != metav1.ConditionFalse || waitKind(have.Reason) != waitKind(reason) {
		return false
	}
	return waitKind(reason) == v1alpha1.ReasonTargetBusy || have.Message == clip(message, maxConditionBytes)
}

func waitKind(reason string) string {
	if reason == v1alpha1.ReasonRuntimeBusy {
		return v1alpha1.ReasonTargetBusy
	}
	return reason
}

// record brings the object up to date with what is known of the run: first the
// finalizer, then the status.
func (r *Reconciler) record(ctx context.Context, s *scope, in input) error {
	if err := r.addFinalizer(ctx, s); err != nil {
		return err
	}
	before := s.task.DeepCopy()
	err := r.writeStatus(ctx, s, func(status *v1alpha1.CompileTaskStatus) {
		if session := in.session(); session != "" {
			r.setAccepted(s, status, session, in)
		} else {
			r.setSubmitting(s, status)
		}
		setReachable(status, s, in)
		if observed := in.view.observed; observed != nil {
			setReport(status, observed)
		}
	})
	if err != nil {
		return err
	}
	if before.Status.SessionID == "" && s.task.Status.SessionID != "" {
		ctrl.LoggerFrom(ctx).Info("Executor accepted the task", "session", s.task.Status.SessionID, "AgentRuntime", s.task.Status.RuntimeName)
	}
	r.recordEvents(before, s, in)
	return nil
}

func (r *Reconciler) setSubmitting(s *scope, status *v1alpha1.CompileTaskStatus) {
	r.setBound(s, status)
	status.Stage = v1alpha1.StageSubmitting
	setCondition(status, s, v1alpha1.ConditionSubmitted, metav1.ConditionUnknown, v1alpha1.ReasonSubmitting,
		"The task is being sent to the executor; if the answer is lost it is sent again under the same key")
}

func (r *Reconciler) setAccepted(s *scope, status *v1alpha1.CompileTaskStatus, session string, in input) {
	r.setBound(s, status)
	status.SessionID = session
	status.CredentialFingerprint = ""
	if status.Stage == "" || status.Stage == v1alpha1.StageQueued {
		status.Stage = v1alpha1.StageSubmitting
	}
	if status.StartTime == nil {
		status.StartTime = microTime(in.view.started, s.now)
	}
	setCondition(status, s, v1alpha1.ConditionSubmitted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "The executor has accepted the task")
}

// setBound records which runtime has the task and what exactly was asked of it.
func (r *Reconciler) setBound(s *scope, status *v1alpha1.CompileTaskStatus) {
	if s.runtime != nil {
		status.RuntimeName = s.runtime.Name
	}
	status.Canonical = &v1alpha1.CanonicalRequest{From: s.request.From, To: s.request.To, Skill: s.request.Skill}
}

// setReachable says whether calls get through. While they keep failing for one
// reason the first message stays: each write costs, and they say much the same.
func setReachable(status *v1alpha1.CompileTaskStatus, s *scope, in input) {
	have := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionExecutorReachable)
	if in.view.failure == nil {
		if have != nil {
			setCondition(status, s, v1alpha1.ConditionExecutorReachable, metav1.ConditionTrue, v1alpha1.ReasonReachable, "Calls to the executor get through")
		}
		return
	}
	reason, message := callFailed(in)
	if have != nil && have.Status == metav1.ConditionFalse && have.Reason == reason {
		return
	}
	setCondition(status, s, v1alpha1.ConditionExecutorReachable, metav1.ConditionFalse, reason, message)
}

// callFailed tells why calls do not get through, as a reason and a message.
func callFailed(in input) (reason, message string) {
	var withheld withheldError
	if errors.As(in.view.failure, &withheld) {
		return withheld.reason, "No call can be made, and it is tried again: " + withheld.message
	}
	code, text := executor.CodeOf(in.view.failure)
	return v1alpha1.ReasonCallFailed, fmt.Sprintf("A %s call failed and is repeated: %s: %s", in.view.failedOp, code, text)
}

func setReport(status *v1alpha1.CompileTaskStatus, observed *executor.Observation) {
	if observed.Stage != "" && !observed.State.Terminal() {
		status.Stage = clipCharacters(observed.Stage, maxStage)
	}
	var have []byte
	if status.Meta != nil {
		have = status.Meta.Raw
	}
	if merged := mergeMembers(have, observed.Meta); !emptyObject(merged) && len(merged) <= v1alpha1.MaxMetaBytes {
		status.Meta = &runtime.RawExtension{Raw: merged}
	}
}

func setCondition(status *v1alpha1.CompileTaskStatus, s *scope, conditionType string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: conditionType, Status: value, Reason: reason, Message: clip(message, maxConditionBytes),
		ObservedGeneration: s.task.Generation, LastTransitionTime: metav1.Time{Time: s.now},
	})
}

// maxConditionBytes keeps a condition's message well below metav1's own bound.
const maxConditionBytes = 2048

func microTime(preferred, otherwise time.Time) *metav1.MicroTime {
	if preferred.IsZero() {
		preferred = otherwise
	}
	return &metav1.MicroTime{Time: preferred.Truncate(time.Microsecond)}
}
