package resttask

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// Credentials are what only the executor may see. They do not show however they are
// printed, encoded or logged.
type Credentials struct {
	// APIKey is the key that the caller of the REST API forwards; empty for none.
	APIKey string
	// Args are the whole args in their exact text, secrets included; nil when none
	// of them is secret.
	Args json.RawMessage
}

// Empty reports whether there is nothing in them.
func (c Credentials) Empty() bool { return c.APIKey == "" && c.Args == nil }

const hidden = "[REDACTED]"

// Format hides the credentials under every verb.
func (Credentials) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, hidden) }

// MarshalText hides the credentials, from JSON as well.
func (Credentials) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the credentials.
func (Credentials) LogValue() slog.Value { return slog.StringValue(hidden) }

// credentialsBody is the sealed form. Its members are bytes, in base64, since JSON
// inside of JSON would not keep its exact text.
type credentialsBody struct {
	APIKey []byte `json:"apiKey,omitempty"`
	Args   []byte `json:"args,omitempty"`
}

// SealCredentials seals credentials for the named task's spec.sealedCredentials. Args
// of more than v1alpha1.MaxArgsBytes are sealed.ErrTooLarge; empty credentials are an
// error of the caller.
func SealCredentials(ring *sealed.KeyRing, origin Origin, c Credentials) (*v1alpha1.SealedBody, error) {
	body, err := sealCredentials(ring, origin.binding(v1alpha1.FieldSealedCredentials), c)
	if err != nil {
		return nil, fmt.Errorf("seal the credentials of CompileTask %s/%s: %w", origin.Namespace, origin.Name, err)
	}
	return body, nil
}

func sealCredentials(ring *sealed.KeyRing, place sealed.Binding, c Credentials) (*v1alpha1.SealedBody, error) {
	if c.Empty() {
		return nil, errors.New("there are none")
	}
	var keys []string
	if c.APIKey != "" {
		keys = append(keys, "apiKey")
	}
	if c.Args != nil {
		if _, err := memberNames(c.Args); err != nil {
			return nil, err
		}
		keys = append(keys, "args")
	}
	plaintext, err := json.Marshal(credentialsBody{APIKey: []byte(c.APIKey), Args: c.Args})
	if err != nil {
		return nil, err
	}
	return sealBody(ring, place, plaintext, keys)
}

// OpenCredentials returns what spec.sealedCredentials holds, nothing when the task has
// none. Errors are sealed.ErrUnknownKey, sealed.ErrUnreadable and sealed.ErrTooLarge.
func OpenCredentials(ring *sealed.KeyRing, task *v1alpha1.CompileTask) (Credentials, error) {
	if task.Spec.SealedCredentials == nil {
		return Credentials{}, nil
	}
	plaintext, err := openBody(ring, OriginOf(task).binding(v1alpha1.FieldSealedCredentials), task.Spec.SealedCredentials)
	if err != nil {
		return Credentials{}, fmt.Errorf("open spec.sealedCredentials of CompileTask %s/%s: %w", task.Namespace, task.Name, err)
	}
	var body credentialsBody
	if json.Unmarshal(plaintext, &body) != nil {
		return Credentials{}, fmt.Errorf("open spec.sealedCredentials of CompileTask %s/%s: no credentials: %w", task.Namespace, task.Name, sealed.ErrUnreadable)
	}
	return Credentials{APIKey: string(body.APIKey), Args: body.Args}, nil
}
