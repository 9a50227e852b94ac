package v1alpha1

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	// maxRequestBytes bounds the request as it is stored. status.canonical has from,
	// to and skill a second time, and etcd takes 1.5 MiB for all of an object: a
	// task beyond it could be created, and its status never be written.
	maxRequestBytes = 512 << 10
	// maxInstructionBytes bounds the instruction in UTF-8, as executors count it; the
	// schema counts characters.
	maxInstructionBytes = 64 << 10
)

func validateInstruction(instruction string, path *field.Path) field.ErrorList {
	if len(instruction) <= maxInstructionBytes {
		return nil
	}
	return tooLarge(path, fmt.Sprintf("takes %d bytes in UTF-8; at most %d are allowed", len(instruction), maxInstructionBytes), maxInstructionBytes)
}

// validateRequestSize bounds the sum of what has bounds of its own: all at their
// bounds would be too much to store. Args that can't be encoded have a fault of
// their own, and no size.
func validateRequestSize(spec *v1alpha1.CompileTaskSpec, path *field.Path) field.ErrorList {
	size, err := requestSize(spec)
	if err != nil || size <= maxRequestBytes {
		return nil
	}
	return tooLarge(path, fmt.Sprintf("from, to, skill, instruction and args, sealed ones too, together take %d bytes as stored in JSON, "+
		"where each of < > & takes 6; at most %d are allowed", size, maxRequestBytes), maxRequestBytes)
}

// requestSize is the length in bytes of the request's fields as an object of
// their own, encoded as the API server does for etcd: with < > & escaped.
func requestSize(spec *v1alpha1.CompileTaskSpec) (int, error) {
	encoded, err := json.Marshal(struct {
		From        []string              `json:"from"`
		To          string                `json:"to"`
		Skill       string                `json:"skill"`
		Instruction string                `json:"instruction,omitempty"`
		Args        *runtime.RawExtension `json:"args,omitempty"`
		SealedArgs  *v1alpha1.SealedBody  `json:"sealedArgs,omitempty"`
		Credentials *v1alpha1.SealedBody  `json:"sealedCredentials,omitempty"`
	}{spec.From, spec.To, spec.Skill, spec.Instruction, spec.Args, spec.SealedArgs, spec.SealedCredentials})
	if err != nil {
		return 0, fmt.Errorf("encode the request: %w", err)
	}
	return len(encoded), nil
}

// tooLarge is a fault that says more than the bound, and never shows the value.
func tooLarge(path *field.Path, detail string, bound int) field.ErrorList {
	fault := field.TooLong(path, "", bound)
	fault.Detail = detail
	return field.ErrorList{fault}
}
