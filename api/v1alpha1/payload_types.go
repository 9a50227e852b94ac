package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxPayloadBytes is the largest sealed body a Payload can hold.
const MaxPayloadBytes = 1 << 20

// PayloadData is a sealed body: compressed, then encrypted under the operator's
// key ring and bound to the object it belongs to. Without it a Payload is a
// claim on its name.
type PayloadData struct {
	// Without format byte, for the reason that SealedBody gives.

	// sealed is the encrypted body, in base64.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1398104
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	Sealed []byte `json:"sealed,omitempty"`

	// size is the body's size in bytes before it was sealed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Size int64 `json:"size,omitempty"`

	// mac is a keyed hash of the body, which tells equal bodies apart from others
	// without showing them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	MAC string `json:"mac,omitempty"`
}

// PayloadSpec holds the body. It can be filled once and not changed after.
type PayloadSpec struct {
	// data is the sealed body. A Payload without it only claims its name.
	// +optional
	Data *PayloadData `json:"data,omitempty"`
}

// The rule below stands at the root: one in spec would not see spec taken away.

// Payload is a sealed body that is too large to stand in the resource it belongs
// to, which owns it. Only the operator reads and writes Payloads: what is in one
// can be opened only with the operator's key ring.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.data) || (has(self.spec) && has(self.spec.data) && self.spec.data == oldSelf.spec.data)",message="spec.data can be set once and not changed"
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pl,categories=agents
// +kubebuilder:printcolumn:name="Owner kind",type=string,JSONPath=`.metadata.ownerReferences[0].kind`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.data.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Payload struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the body.
	// +optional
	Spec PayloadSpec `json:"spec,omitzero"`
}

// PayloadList is a list of Payloads.
//
// +kubebuilder:object:root=true
type PayloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Payload `json:"items"`
}
