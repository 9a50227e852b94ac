package compiletask

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

// storedResult says where a result is: inline, in the named Payload, or nowhere,
// with a note why.
type storedResult struct {
	inline  *runtime.RawExtension
	payload string
	note    string
}

// storeResult puts a result where it belongs: inline, or sealed in a Payload of
// the task. The work is done by then, so a result that can't be kept does not keep
// the task from ending.
func (r *Reconciler) storeResult(ctx context.Context, s *scope, end *ending) (storedResult, error) {
	if end.condition != v1alpha1.ConditionComplete || end.result == nil || !s.task.DeletionTimestamp.IsZero() {
		return storedResult{}, nil
	}
	if len(end.result) <= v1alpha1.MaxInlineResultBytes {
		return storedResult{inline: &runtime.RawExtension{Raw: end.result}}, nil
	}
	box, err := r.KeyRing.Seal(end.result, resttask.ResultBinding(s.task))
	if errors.Is(err, sealed.ErrTooLarge) || (err == nil && box.MarshalledSize() > v1alpha1.MaxPayloadBytes) {
		return storedResult{note: "The result is too large to be kept; see the target"}, nil
	}
	if err != nil {
		return storedResult{}, fmt.Errorf("seal the result: %w", err)
	}
	payload := resultPayload(s.task, box, len(end.result))
	err = r.Client.Create(ctx, payload)
	switch {
	case apierrors.IsAlreadyExists(err):
		return storedResult{payload: payload.Name}, r.checkPayload(ctx, s.task, payload.Name)
	case refusedForGood(err):
		ctrl.LoggerFrom(ctx).Error(err, "The result is lost: its Payload is refused")
		return storedResult{note: "The result can't be kept: the cluster refuses its Payload, for example by a quota; see the target"}, nil
	case err != nil:
		return storedResult{}, fmt.Errorf("create Payload %s/%s: %w", payload.Namespace, payload.Name, err)
	}
	return storedResult{payload: payload.Name}, nil
}

// refusedForGood tells that the API server will not accept the same write later.
func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// noteResult stands in the place of a result that can't be kept.
func noteResult(note string) json.RawMessage {
	raw, err := json.Marshal(map[string][]string{"warnings": {note}})
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

func resultPayload(task *v1alpha1.CompileTask, box sealed.Box, size int) *v1alpha1.Payload {
	return &v1alpha1.Payload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: task.Namespace, Name: resttask.ResultPayloadName(task),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "CompileTask",
				Name: task.Name, UID: task.UID, Controller: ptr.To(true),
			}},
		},
		Spec: v1alpha1.PayloadSpec{Data: &v1alpha1.PayloadData{
			Sealed: box.Marshal(), Size: int64(size), MAC: base64.RawURLEncoding.EncodeToString(box.MAC[:]),
		}},
	}
}

// checkPayload accepts a Payload that an earlier pass made and whose task status
// was lost. One that is not this task's is someone else's, and stays.
func (r *Reconciler) checkPayload(ctx context.Context, task *v1alpha1.CompileTask, name string) error {
	var payload v1alpha1.Payload
	key := keyOf(task)
	key.Name = name
	err := r.APIReader.Get(ctx, key, &payload)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("Payload %s has just gone; it is made again", key)
	}
	if err != nil {
		return fmt.Errorf("get Payload %s: %w", key, err)
	}
	if !metav1.IsControlledBy(&payload, task) {
		return fmt.Errorf("Payload %s belongs to another object; delete it, it is in the way of the task's result", key)
	}
	return nil
}
