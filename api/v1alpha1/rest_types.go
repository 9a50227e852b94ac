package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RESTRequest is what the operator's REST API notes of the call that created a
// task. Only the REST API makes it: its mark is checked at admission and again
// before the task is submitted.
type RESTRequest struct {
	// mark proves that the REST API made the task: a keyed hash of the task's
	// namespace, its name, its requester's name and the receivedTime.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Mark string `json:"mark,omitempty"`

	// digest is a keyed hash of the request, by which a repeat under the same
	// Idempotency-Key is told from another request. It is absent when the call
	// had no such key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`

	// receivedTime is when the call came in.
	// +optional
	ReceivedTime *metav1.MicroTime `json:"receivedTime,omitempty"`

	// traceParent is the W3C trace context of the call. It is passed on to the
	// executor.
	// +optional
	// +kubebuilder:validation:MinLength=55
	// +kubebuilder:validation:MaxLength=55
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`
	TraceParent string `json:"traceParent,omitempty"`
}

// SealedBody is a private body inside a resource: compressed, encrypted under the
// operator's key ring, and bound to the field it stands in. Only the operator can
// open it.
type SealedBody struct {
	// Of format byte, which data would otherwise have, the API server's CEL reads the
	// base64 of URLs only, and fails on what Go writes; so the pattern stands for it.

	// data is the encrypted body, in base64.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	Data []byte `json:"data,omitempty"`

	// size is the body's size in bytes before it was sealed.
	// +required
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size,omitempty"`

	// keys are the names of the body's members, without their values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Keys []string `json:"keys,omitempty"`

	// mac is a keyed hash of the body, which tells equal bodies apart from others
	// without showing them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	MAC string `json:"mac,omitempty"`
}

// Fields of a CompileTask that hold a SealedBody, as their bodies are bound to.
const (
	// FieldSealedArgs is spec.sealedArgs.
	FieldSealedArgs = "spec.sealedArgs"
	// FieldSealedCredentials is spec.sealedCredentials.
	FieldSealedCredentials = "spec.sealedCredentials"
)
