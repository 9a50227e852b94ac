package compiletask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	// maxSecrets bounds the secret values of one task's args.
	maxSecrets = 64
	// minSecretBytes is the length below which a value is not looked for: that would
	// blot out ordinary text.
	minSecretBytes = 4
)

// secretsIn lists the secret values in args: every string and number below a member
// of v1alpha1.IsSecretArg, at any depth (compile-api.md, B.5). Members of one name count all, as nobody knows which the executor takes. Its
// errors show nothing of args.
func secretsIn(args json.RawMessage) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	f := secretFinder{dec: json.NewDecoder(bytes.NewReader(args)), seen: map[string]struct{}{}}
	f.dec.UseNumber()
	for {
		token, err := f.dec.Token()
		if errors.Is(err, io.EOF) {
			return f.found, nil
		}
		if err != nil {
			return nil, errors.New("args are no JSON")
		}
		if f.token(token); len(f.found) > maxSecrets {
			return nil, fmt.Errorf("find secrets: %w", errTooManySecrets)
		}
	}
}

// secretFinder reads JSON token by token, so that depth costs no stack and no member
// hides another of its name.
type secretFinder struct {
	dec   *json.Decoder
	open  []container
	seen  map[string]struct{}
	found []string
}

// container is an open object or array.
type container struct {
	object bool
	// secret tells that all that is in it is secret.
	secret bool
	// value is set in an object between a name and its value, and valueSecret when
	// the name is that of a secret.
	value, valueSecret bool
}

func (f *secretFinder) token(token json.Token) {
	if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
		f.open = f.open[:len(f.open)-1]
		return
	}
	if len(f.open) > 0 {
		if top := &f.open[len(f.open)-1]; top.object && !top.value {
			name, _ := token.(string)
			top.value = true
			top.valueSecret = v1alpha1.IsSecretArg(name)
			return
		}
	}
	secret := f.enter()
	switch v := token.(type) {
	case json.Delim:
		f.open = append(f.open, container{object: v == '{', secret: secret})
	case string:
		f.add(v, secret)
	case json.Number:
		f.add(v.String(), secret)
	}
}

// enter begins a value and tells whether it is secret.
func (f *secretFinder) enter() bool {
	if len(f.open) == 0 {
		return false
	}
	top := &f.open[len(f.open)-1]
	secret := top.secret || (top.object && top.valueSecret)
	top.value = false
	return secret
}

func (f *secretFinder) add(value string, secret bool) {
	if _, seen := f.seen[value]; !secret || seen || len(value) < minSecretBytes {
		return
	}
	f.seen[value] = struct{}{}
	f.found = append(f.found, value)
}
