package compiletask

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// resultField is where the body of a result Payload belongs.
const resultField = "status.result"

// storeResult puts a result where it belongs: inline, or sealed in a Payload of
// the task. It returns the inline result or the Payload's name.
func (r *Reconciler) storeResult(ctx context.Context, s *scope, end *ending) (*runtime.RawExtension, string, error) {
	if end.condition != v1alpha1.ConditionComplete || end.result == nil {
		return nil, "", nil
	}
	if len(end.result) <= v1alpha1.MaxInlineResultBytes {
		return &runtime.RawExtension{Raw: end.result}, "", nil
	}
	name := ResultPayloadName(s.task)
	box, err := r.KeyRing.Seal(end.result, ResultBinding(s.task))
	if err != nil || box.MarshalledSize() > v1alpha1.MaxPayloadBytes {
		// Too large even for a Payload. The work is done, so the task is complete; its
		// summary stays.
		return &runtime.RawExtension{Raw: json.RawMessage(`{"warnings":["The result is too large to be kept; see the task's resultSummary and the target."]}`)}, "", nil
	}
	payload := &v1alpha1.Payload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.task.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "CompileTask",
				Name: s.task.Name, UID: s.task.UID, Controller: ptr.To(true),
			}},
		},
		Spec: v1alpha1.PayloadSpec{Data: &v1alpha1.PayloadData{
			Sealed: box.Marshal(), Size: int64(len(end.result)), MAC: base64.RawURLEncoding.EncodeToString(box.MAC[:]),
		}},
	}
	err = r.Client.Create(ctx, payload)
	if apierrors.IsAlreadyExists(err) {
		return nil, name, r.checkPayload(ctx, s.task, name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("create Payload %s/%s: %w", s.task.Namespace, name, err)
	}
	return nil, name, nil
}

// checkPayload accepts a Payload that an earlier pass made and whose task status
// was lost. One that is not this task's is someone else's, and stays.
func (r *Reconciler) checkPayload(ctx context.Context, task *v1alpha1.CompileTask, name string) error {
	var payload v1alpha1.Payload
	key := keyOf(task)
	key.Name = name
	if err := r.APIReader.Get(ctx, key, &payload); err != nil {
		return fmt.Errorf("get Payload %s: %w", key, err)
	}
	if !metav1.IsControlledBy(&payload, task) {
		return fmt.Errorf("Payload %s belongs to another object; delete it, it is in the way of the task's result", key)
	}
	return nil
}

// ResultPayloadName is the name of the Payload that holds a task's large result.
func ResultPayloadName(task *v1alpha1.CompileTask) string {
	return "result-" + string(task.UID)
}

// ResultBinding is what a task's large result is sealed to.
func ResultBinding(task *v1alpha1.CompileTask) sealed.Binding {
	return sealed.Binding{Namespace: task.Namespace, Kind: "CompileTask", Name: task.Name, UID: string(task.UID), Field: resultField}
}
