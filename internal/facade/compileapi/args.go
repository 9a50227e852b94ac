package compileapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// splitArgs are the args of a request by where they may be kept.
type splitArgs struct {
	// public is what everyone who sees the task may see; nil when that is nothing.
	public json.RawMessage
	// exact tells that public survives as Kubernetes reads and writes JSON.
	exact bool
	// secret is the whole of the args when some of them are secret, else nil.
	secret json.RawMessage
}

// split sorts args by secrecy and by what Kubernetes' JSON keeps of them (B.5).
func split(args json.RawMessage) (splitArgs, error) {
	if args == nil {
		return splitArgs{}, nil
	}
	public, removed, err := withoutSecrets(args)
	if err != nil {
		return splitArgs{}, err
	}
	out := splitArgs{public: public}
	if removed {
		out.secret = args
		if string(public) == "{}" {
			out.public = nil
		}
	}
	out.exact, err = roundTrips(out.public)
	return out, err
}

// roundTrips reports whether Kubernetes, which reads integers as int64 and all
// other numbers as float64, writes what it has read: the same members, and every
// number with the same digits.
func roundTrips(raw json.RawMessage) (bool, error) {
	if raw == nil {
		return true, nil
	}
	var stored map[string]any
	if utiljson.Unmarshal(raw, &stored) != nil {
		// A number beyond float64, for one.
		return false, nil //nolint:nilerr // what Kubernetes can't read does not round-trip
	}
	written, err := json.Marshal(stored)
	if err != nil {
		return false, fmt.Errorf("encode args: %w", err)
	}
	before, err := decodeExact(raw)
	if err != nil {
		return false, err
	}
	after, err := decodeExact(written)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(before, after), nil
}

// decodeExact decodes valid JSON with its numbers as text.
func decodeExact(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return value, nil
}

// encodeExact encodes what decodeExact returned: names sorted, numbers as they
// were, no escapes for HTML.
func encodeExact(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// withoutSecrets drops the members of v1alpha1.IsSecretArg at any depth. What has none is
// returned as it is.
func withoutSecrets(raw json.RawMessage) (public json.RawMessage, removed bool, err error) {
	if !mayHoldSecrets(raw) {
		return raw, false, nil
	}
	value, err := decodeExact(raw)
	if err != nil {
		return nil, false, err
	}
	if !dropSecrets(value) {
		return raw, false, nil
	}
	public, err = encodeExact(value)
	return public, true, err
}

// mayHoldSecrets looks for the end that both names share. A name can be written in
// escapes, and then anything may stand in it: only a decoder knows. So too for the
// Kelvin sign, which is a K in another case.
func mayHoldSecrets(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte("\u212a")) ||
		bytes.Contains(raw, []byte("_key\"")) || bytes.Contains(bytes.ToLower(raw), []byte("_key\""))
}

// dropSecrets removes the members in place and reports whether there were any.
func dropSecrets(value any) (removed bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if v1alpha1.IsSecretArg(name) {
				delete(value, name)
				removed = true
				continue
			}
			removed = dropSecrets(member) || removed
		}
	case []any:
		for _, item := range value {
			removed = dropSecrets(item) || removed
		}
	}
	return removed
}
