package compiletask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// finish writes the task's end, then frees what it held.
func (r *Reconciler) finish(ctx context.Context, s *scope, end *ending) (bool, ctrl.Result, error) {
	outlived := s.task.Status.SessionID != ""
	stored, err := r.storeResult(ctx, s, end)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	err = r.writeStatus(ctx, s, func(status *v1alpha1.CompileTaskStatus) {
		r.setEnd(s, status, end)
		status.Result, status.ResultPayloadName = stored.inline, stored.payload
		warn(status.ResultSummary, stored.note)
	})
	if refusedForGood(err) {
		// What the executor sent along must not keep the task from ending.
		ctrl.LoggerFrom(ctx).Error(err, "The task's end is refused; written without its result and metadata")
		err = r.writeStatus(ctx, s, func(status *v1alpha1.CompileTaskStatus) {
			r.setEnd(s, status, end)
			status.Meta = nil
			warn(status.ResultSummary, "The cluster refuses to keep the result and its metadata; see the target")
		})
	}
	if err != nil && !s.task.DeletionTimestamp.IsZero() && !apierrors.IsConflict(err) && s.now.Sub(s.task.DeletionTimestamp.Time) > s.settings.giveUpAfter {
		// A finalizer never traps: what can't be written is lost with the task.
		ctrl.LoggerFrom(ctx).Error(err, "The end of a deleted task can't be written; it is let go of")
		after, releaseErr := r.afterEnd(ctx, s.task)
		return true, after, releaseErr
	}
	if err != nil {
		return true, ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("Task ended", "condition", end.condition, "reason", end.reason, "stage", end.stage)
	r.endEvent(s, end, outlived)
	r.Metrics.ended(s.task, end, s.now)
	after, err := r.afterEnd(ctx, s.task)
	return true, after, err
}

func (r *Reconciler) setEnd(s *scope, status *v1alpha1.CompileTaskStatus, end *ending) {
	if session := s.attempt.knownSession(); session != "" && status.SessionID == "" {
		r.setAccepted(s, status, session, input{task: s.task, view: view{started: s.attempt.startedAt()}})
	}
	if len(s.request.From) > 0 {
		r.setBound(s, status)
	}
	status.CredentialFingerprint = ""
	status.Stage = end.stage
	status.Error = end.err
	if end.unheard && end.condition == v1alpha1.ConditionFailed && status.SessionID != "" {
		end.message += "; the work may still run at the executor"
	}
	status.CompletionTime = changedAt(s.task, s.now)
	if end.condition == v1alpha1.ConditionComplete {
		status.ResultSummary = summarize(end.result)
	}
	merged := mergeMembers(rawOf(status.Meta), end.meta)
	switch {
	case len(merged) > v1alpha1.MaxMetaBytes:
		warn(status.ResultSummary, "The executor's metadata is too large to be kept; status.meta lacks some of it")
	case !emptyObject(merged):
		status.Meta = &runtime.RawExtension{Raw: merged}
	}
	settle(status, s, end)
	setCondition(status, s, end.condition, metav1.ConditionTrue, end.reason, end.message)
}

// settle brings the other conditions of an ended task to where they stay: none of
// them says that something is still to come.
func settle(status *v1alpha1.CompileTaskStatus, s *scope, end *ending) {
	if submitted := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSubmitted); submitted != nil {
		value, reason, message := submitted.Status, submitted.Reason, submitted.Message
		switch value {
		case metav1.ConditionFalse:
			reason, message = v1alpha1.ReasonNeverSubmitted, "The task ended before it was submitted"
		case metav1.ConditionUnknown:
			reason, message = v1alpha1.ReasonSubmitOutcomeUnknown, "The task ended before the executor's answer to its submission was known"
		case metav1.ConditionTrue:
		}
		setCondition(status, s, v1alpha1.ConditionSubmitted, value, reason, message)
	}
	if reachable := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionExecutorReachable); reachable != nil {
		value, reason, message := metav1.ConditionTrue, v1alpha1.ReasonReachable, "The executor told how the task ended"
		if end.unheard {
			value, reason, message = metav1.ConditionFalse, reachable.Reason, "The executor was not heard of before the task ended"
		}
		setCondition(status, s, v1alpha1.ConditionExecutorReachable, value, reason, message)
	}
}

func rawOf(extension *runtime.RawExtension) json.RawMessage {
	if extension == nil {
		return nil
	}
	return extension.Raw
}

// afterEnd frees what an ended task held: its place in the queue, its credentials, its
// finalizer, and, when its time has come, the object itself. What this process knows of the
// task goes when the cache shows the end (see observe): until then it keeps a pass
// over an older state from beginning anew.
func (r *Reconciler) afterEnd(ctx context.Context, task *v1alpha1.CompileTask) (ctrl.Result, error) {
	r.queue.forget(task.UID)
	// Neither waits for the other: each may be refused for a reason of its own.
	if err := errors.Join(r.eraseCredentials(ctx, task), r.removeFinalizer(ctx, task)); err != nil {
		return ordinary(ctrl.Result{}, err)
	}
	return r.expire(ctx, task)
}

// eraseCredentials removes the sealed credentials of an ended task, once, as
// removeFinalizer does. It does no harm to a task that has none any more, and the uid
// keeps it from another one of the same name. What the cache shows of them is not
// looked at: it is a mark that they are there.
func (r *Reconciler) eraseCredentials(ctx context.Context, task *v1alpha1.CompileTask) error {
	if task.Spec.SealedCredentials == nil || !task.Terminal() || !r.erased.add(task.UID) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": task.UID}, "spec": map[string]any{"sealedCredentials": nil},
	})
	if err == nil {
		err = r.patch(ctx, task, patch)
	}
	if err != nil {
		r.erased.drop(task.UID)
		return fmt.Errorf("erase the sealed credentials: %w", err)
	}
	return nil
}

// removeFinalizer takes the finalizer off, once: the pass that the terminal write
// itself brings about may come before the cache shows that it is off.
func (r *Reconciler) removeFinalizer(ctx context.Context, task *v1alpha1.CompileTask) error {
	if !hasFinalizer(task) || !r.released.add(task.UID) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(task.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerCancelOnDelete })
	if err := r.patchFinalizers(ctx, task, kept); err != nil {
		r.released.drop(task.UID)
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// expire deletes the task when its TTL has passed.
func (r *Reconciler) expire(ctx context.Context, task *v1alpha1.CompileTask) (ctrl.Result, error) {
	ttl, bounded := task.TTLSeconds()
	if !bounded || !task.DeletionTimestamp.IsZero() || task.Status.CompletionTime == nil {
		return ctrl.Result{}, nil
	}
	left := task.Status.CompletionTime.Add(time.Duration(ttl) * time.Second).Sub(r.Clock.Now())
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.Client.Delete(ctx, &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}},
		client.Preconditions{UID: &task.UID, ResourceVersion: &task.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return ordinary(ctrl.Result{}, fmt.Errorf("delete the expired task: %w", err))
	}
	return ctrl.Result{}, nil
}

// summarize counts what a result of section F.4 says, in whatever shape it comes:
// what is not there counts as nothing.
func summarize(result json.RawMessage) *v1alpha1.ResultSummary {
	var fields struct {
		Created   []json.RawMessage `json:"created"`
		Updated   []json.RawMessage `json:"updated"`
		Unchanged []json.RawMessage `json:"unchanged"`
		Warnings  []json.RawMessage `json:"warnings"`
		PageCount json.Number       `json:"page_count"`
		LinkCount json.Number       `json:"link_count"`
	}
	summary := &v1alpha1.ResultSummary{ResultBytes: int64(len(result))}
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil {
		return summary
	}
	// Each on its own, so that one of a strange type does not hide the others.
	decode := func(name string, into any) { _ = json.Unmarshal(members[name], into) }
	decode("created", &fields.Created)
	decode("updated", &fields.Updated)
	decode("unchanged", &fields.Unchanged)
	decode("warnings", &fields.Warnings)
	decode("page_count", &fields.PageCount)
	decode("link_count", &fields.LinkCount)
	summary.Created = int32(len(fields.Created))
	summary.Updated = int32(len(fields.Updated))
	summary.Unchanged = int32(len(fields.Unchanged))
	summary.PageCount, summary.LinkCount = count(fields.PageCount), count(fields.LinkCount)
	summary.WarningCount = int32(len(fields.Warnings))
	for _, raw := range fields.Warnings[:min(len(fields.Warnings), maxWarnings)] {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			summary.Warnings = append(summary.Warnings, clipCharacters(text, maxMessage))
		}
	}
	return summary
}

// warn puts a warning of the operator's own before the executor's.
func warn(summary *v1alpha1.ResultSummary, text string) {
	if summary == nil || text == "" {
		return
	}
	summary.WarningCount++
	summary.Warnings = append([]string{text}, summary.Warnings[:min(len(summary.Warnings), maxWarnings-1)]...)
}

func count(number json.Number) int32 {
	value, err := number.Int64()
	if err != nil || value < 0 || value > 1<<30 {
		return 0
	}
	return int32(value)
}
