package resttask

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// resultField is where the body of a result Payload belongs.
const resultField = "status.result"

// ResultPayloadName is the name of the Payload that holds a task's large result.
func ResultPayloadName(task *v1alpha1.CompileTask) string {
	return "result-" + string(task.UID)
}

// ResultBinding is what a task's large result is sealed to.
func ResultBinding(task *v1alpha1.CompileTask) sealed.Binding {
	return sealed.Binding{Namespace: task.Namespace, Kind: kind, Name: task.Name, UID: string(task.UID), Field: resultField}
}

// OpenResult returns the task's large result from its Payload. A Payload that is not
// the task's, is empty or does not open is sealed.ErrUnreadable; further errors are
// sealed.ErrUnknownKey and sealed.ErrTooLarge.
func OpenResult(ring *sealed.KeyRing, task *v1alpha1.CompileTask, payload *v1alpha1.Payload) (json.RawMessage, error) {
	if payload.Spec.Data == nil || !metav1.IsControlledBy(payload, task) {
		return nil, fmt.Errorf("open Payload %s/%s: it holds no result of the task: %w", payload.Namespace, payload.Name, sealed.ErrUnreadable)
	}
	box, err := sealed.Unmarshal(payload.Spec.Data.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open Payload %s/%s: %w", payload.Namespace, payload.Name, err)
	}
	result, err := ring.Open(box, ResultBinding(task))
	if err != nil {
		return nil, fmt.Errorf("open Payload %s/%s: %w", payload.Namespace, payload.Name, err)
	}
	return result, nil
}
