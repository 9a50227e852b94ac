package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	// maxArgsDepth bounds how deep args nest; args itself is the first level.
	maxArgsDepth = 32
	// maxArgsFaults bounds the faults listed of one args, which may be large.
	maxArgsFaults = 16
	// maxKeyShown bounds what a message repeats of a key.
	maxKeyShown = 64
)

func validateArgs(args *runtime.RawExtension, path *field.Path) field.ErrorList {
	if args == nil {
		return nil
	}
	if len(args.Raw) > v1alpha1.MaxArgsBytes {
		return field.ErrorList{field.TooLong(path, "", v1alpha1.MaxArgsBytes)}
	}
	value, err := decodeJSON(args.Raw)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, "", "must be a JSON object")}
	}
	check := argsCheck{}
	check.object(object, path, 1)
	return check.faults
}

// argsCheck walks args, in the order of their keys so that messages are stable.
type argsCheck struct {
	faults field.ErrorList
}

func (c *argsCheck) full() bool { return len(c.faults) >= maxArgsFaults }

func (c *argsCheck) value(value any, path *field.Path, depth int) {
	switch value := value.(type) {
	case map[string]any:
		c.object(value, path, depth)
	case []any:
		if c.tooDeep(path, depth) {
			return
		}
		for i, item := range value {
			c.value(item, path.Index(i), depth+1)
		}
	}
}

func (c *argsCheck) object(object map[string]any, path *field.Path, depth int) {
	if c.tooDeep(path, depth) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := keyPath(path, key)
		if v1alpha1.IsSecretArg(key) {
			c.add(field.Forbidden(at, "anyone who may read the task could read this credential; "+
				"put it into a Secret of type "+v1alpha1.SecretTypeCredentials+" and name that in credentialsSecretName"))
			continue
		}
		c.value(object[key], at, depth+1)
	}
}

func (c *argsCheck) tooDeep(path *field.Path, depth int) bool {
	if depth <= maxArgsDepth {
		return c.full()
	}
	c.add(field.Forbidden(path, fmt.Sprintf("nests deeper than %d levels", maxArgsDepth)))
	return true
}

func (c *argsCheck) add(fault *field.Error) {
	if !c.full() {
		c.faults = append(c.faults, fault)
	}
}

// keyPath is the path of a key, which can be any text: only printable, and not
// too much of it, is shown.
func keyPath(path *field.Path, key string) *field.Path {
	runes := []rune(key)
	if len(runes) > maxKeyShown {
		runes = append(runes[:maxKeyShown:maxKeyShown], '…')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return path.Key(string(runes))
}

// validateArgsUnchanged compares exactly: every key, and numbers by their text.
func validateArgsUnchanged(args, old *runtime.RawExtension, path *field.Path) field.ErrorList {
	if sameJSON(rawOf(args), rawOf(old)) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "args is immutable; create a new CompileTask")}
}

func rawOf(extension *runtime.RawExtension) []byte {
	if extension == nil {
		return nil
	}
	return extension.Raw
}

func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	left, errLeft := decodeJSON(a)
	right, errRight := decodeJSON(b)
	return errLeft == nil && errRight == nil && reflect.DeepEqual(left, right)
}

// decodeJSON keeps numbers as text.
func decodeJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("is no valid JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return value, nil
}
