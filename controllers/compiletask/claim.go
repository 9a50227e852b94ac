package compiletask

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// needsClaim tells that something has to be on record before the create call
// leaves, because repeating the call might not be safe or might go elsewhere:
//
//   - an executor without durable keys may have forgotten the key;
//   - an opaque credential may have changed, and keys are per user;
//   - a default runtime may have changed.
func (r *Reconciler) needsClaim(s *scope) bool {
	return !s.settings.durable || opaque(s) || s.task.Spec.RuntimeName == ""
}

// looksAsOld is how long after its creation a task may still get a sibling that
// looks as old: times of creation are whole seconds. The second one is for clocks
// that differ.
const looksAsOld = 2 * time.Second

// ambiguous tells that the object of a task whose turn has come looks like one that
// still waits, and that one as old waits for the same target: after a restart that
// one might go first, beside this one.
func (r *Reconciler) ambiguous(s *scope) bool {
	return waitsOnRecord(s.task) && (s.now.Sub(s.task.CreationTimestamp.Time) < looksAsOld || r.queue.tied(s.task.UID))
}

// claim puts on record, with the object's resource version, that the task is
// about to be submitted. Another writer's conflict means that the pass is void.
func (r *Reconciler) claim(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if !r.needsClaim(s) && !r.ambiguous(s) {
		return false, ctrl.Result{}, nil
	}
	if submitting(s.task) {
		return r.checkFingerprint(ctx, s)
	}
	if opaque(s) || s.task.EffectiveRuntimeName() == "" {
		err := r.writeStatus(ctx, s, func(status *v1alpha1.CompileTaskStatus) {
			r.setSubmitting(s, status)
			if opaque(s) {
				status.CredentialFingerprint = r.fingerprint(s)
			}
		})
		return err != nil, ctrl.Result{}, err
	}
	return false, ctrl.Result{}, r.addFinalizer(ctx, s)
}

// checkFingerprint ends a task whose credential is not the one under which it was
// about to be submitted: the first call may have begun a session of another user.
func (r *Reconciler) checkFingerprint(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	recorded := s.task.Status.CredentialFingerprint
	if recorded == "" || !opaque(s) {
		return false, ctrl.Result{}, nil
	}
	same, err := r.KeyRing.MatchMac(recorded, fingerprintPurpose, []byte(s.task.TaskID()), []byte(s.attempt.currentCredential().apiKey))
	if err == nil && same {
		return false, ctrl.Result{}, nil
	}
	end := &ending{endLag: -1}
	const message = "The credential changed before the executor's answer was known; the work may or may not have begun. Look at the target, then create a new task"
	if s.task.Spec.Cancel {
		end = cancelUnconfirmed("The credential changed before the executor's answer was known")
	} else {
		end.fail(v1alpha1.ReasonSubmitOutcomeUnknown, v1alpha1.ErrorCodeSubmitOutcomeUnknown, message, v1alpha1.StageSubmitting)
	}
	return r.finish(ctx, s, end)
}

func (r *Reconciler) fingerprint(s *scope) string {
	return r.KeyRing.Mac(fingerprintPurpose, []byte(s.task.TaskID()), []byte(s.attempt.currentCredential().apiKey))
}

// addFinalizer puts the finalizer on in a patch of its own, conditional on the
// resource version.
func (r *Reconciler) addFinalizer(ctx context.Context, s *scope) error {
	if hasFinalizer(s.task) || !s.task.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.patchFinalizers(ctx, s.task, append(s.task.Finalizers, v1alpha1.FinalizerCancelOnDelete)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	s.attempt.wrote(s.task.DeepCopy(), s.now)
	return nil
}

// patchFinalizers replaces the finalizers and nothing else, and brings task up to
// date with the answer.
func (r *Reconciler) patchFinalizers(ctx context.Context, task *v1alpha1.CompileTask, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": task.UID, "resourceVersion": task.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	return r.patch(ctx, task, patch)
}

// patch sends a merge patch of a task, which names what it depends on, and brings
// task up to date with the answer.
func (r *Reconciler) patch(ctx context.Context, task *v1alpha1.CompileTask, patch []byte) error {
	answer := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name}}
	if err := r.Client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	answer.DeepCopyInto(task)
	return nil
}
