package resttask

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// kind is the kind that bodies of tasks are bound to.
const kind = "CompileTask"

// Bounds of SealedBody.Keys, as its schema has them.
const (
	maxKeys          = 64
	maxKeyCharacters = 128
)

// binding is the place of a body in a task's spec. It is sealed before the API server
// has given a uid; the time of the request stands in for it, which the mark fixes.
func (o Origin) binding(field string) sealed.Binding {
	return sealed.Binding{Namespace: o.Namespace, Kind: kind, Name: o.Name, Field: field + "@" + o.received()}
}

// SealArgs seals args, a JSON object of at most v1alpha1.MaxArgsBytes, byte for byte
// for the named task's spec.sealedArgs. Larger ones are sealed.ErrTooLarge.
func SealArgs(ring *sealed.KeyRing, origin Origin, args json.RawMessage) (*v1alpha1.SealedBody, error) {
	keys, err := memberNames(args)
	if err != nil {
		return nil, fmt.Errorf("seal the args of CompileTask %s/%s: %w", origin.Namespace, origin.Name, err)
	}
	body, err := sealBody(ring, origin.binding(v1alpha1.FieldSealedArgs), args, keys)
	if err != nil {
		return nil, fmt.Errorf("seal the args of CompileTask %s/%s: %w", origin.Namespace, origin.Name, err)
	}
	return body, nil
}

// OpenArgs returns the exact text of spec.sealedArgs, nil when the task has none.
// Errors are sealed.ErrUnknownKey, sealed.ErrUnreadable and sealed.ErrTooLarge.
func OpenArgs(ring *sealed.KeyRing, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	if task.Spec.SealedArgs == nil {
		return nil, nil
	}
	args, err := openBody(ring, OriginOf(task).binding(v1alpha1.FieldSealedArgs), task.Spec.SealedArgs)
	if err != nil {
		return nil, fmt.Errorf("open spec.sealedArgs of CompileTask %s/%s: %w", task.Namespace, task.Name, err)
	}
	return args, nil
}

// memberNames lists the names of an object's members, sorted, leaving out those that
// do not fit the schema.
func memberNames(object json.RawMessage) ([]string, error) {
	if len(object) > v1alpha1.MaxArgsBytes {
		return nil, sealed.ErrTooLarge
	}
	var members map[string]json.RawMessage
	// The decoder's own error could tell a character of the args.
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, errors.New("args are no JSON object")
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool {
		return name == "" || utf8.RuneCountInString(name) > maxKeyCharacters
	})
	return names[:min(len(names), maxKeys)], nil
}

func sealBody(ring *sealed.KeyRing, place sealed.Binding, plaintext []byte, keys []string) (*v1alpha1.SealedBody, error) {
	box, err := ring.Seal(plaintext, place)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.SealedBody{
		Data: box.Marshal(), Size: int64(box.Size), Keys: keys,
		MAC: base64.RawURLEncoding.EncodeToString(box.MAC[:]),
	}, nil
}

func openBody(ring *sealed.KeyRing, place sealed.Binding, body *v1alpha1.SealedBody) ([]byte, error) {
	box, err := sealed.Unmarshal(body.Data)
	if err != nil {
		return nil, err
	}
	return ring.Open(box, place)
}
