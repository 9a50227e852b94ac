package apikey

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/access"
)

// SecretType is the type of a key's Secret.
const SecretType corev1.SecretType = "agentruntime.dev/api-key"

// Label is on every key's Secret, with the value LabelValue, so that they can be
// listed. A Secret without it is no key: there is none that a list does not show.
const (
	Label      = "agentruntime.dev/api-key"
	LabelValue = "true"
)

// The data of a key's Secret. Beside the hash, the user's name and the namespace all
// are optional.
const (
	dataHash        = "sha256"
	dataUsername    = "username"
	dataUID         = "uid"
	dataGroups      = "groups"
	dataNamespace   = "namespace"
	dataExpires     = "expires"
	dataForwardKey  = "forward-key"
	dataDescription = "description"
)

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Encode makes the Secret that has the key stand for what the grant says. It is
// immutable: a key can be revoked, not turned into another user's.
func Encode(operatorNamespace string, key access.Secret, grant Grant, now time.Time) (*corev1.Secret, error) {
	if !WellFormed(key) {
		return nil, errors.New("the key is not of the form that Mint gives")
	}
	if err := grant.Validate(operatorNamespace); err != nil {
		return nil, fmt.Errorf("encode an API key: %w", err)
	}
	if grant.Expired(now) {
		return nil, errors.New("encode an API key: it must not have expired already")
	}
	data, err := dataOf(grant)
	if err != nil {
		return nil, err
	}
	digest := digestOf(key)
	data[dataHash] = []byte(digest)
	immutable := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: operatorNamespace,
			Name:      nameOf(digest),
			Labels:    map[string]string{Label: LabelValue},
		},
		Immutable: &immutable,
		Type:      SecretType,
		Data:      data,
	}, nil
}

func dataOf(grant Grant) (map[string][]byte, error) {
	data := map[string][]byte{dataUsername: []byte(grant.Username), dataNamespace: []byte(grant.Namespace)}
	for name, value := range map[string]string{
		dataUID: grant.UID, dataForwardKey: string(grant.ForwardKey), dataDescription: grant.Description,
	} {
		if value != "" {
			data[name] = []byte(value)
		}
	}
	if len(grant.Groups) > 0 {
		groups, err := json.Marshal(grant.Groups)
		if err != nil {
			return nil, fmt.Errorf("encode groups: %w", err)
		}
		data[dataGroups] = groups
	}
	if !grant.Expires.IsZero() {
		data[dataExpires] = []byte(grant.Expires.UTC().Format(time.RFC3339))
	}
	return data, nil
}

// Decode returns what a key's Secret says, or everything that is wrong with it. A
// Secret that holds anything unknown is refused: it may be a limit, misspelt.
func Decode(secret *corev1.Secret) (Grant, error) {
	if secret.Type != SecretType {
		return Grant{}, fmt.Errorf("Secret %s/%s must be of type %s", secret.Namespace, secret.Name, SecretType)
	}
	if secret.Labels[Label] != LabelValue {
		return Grant{}, fmt.Errorf("Secret %s/%s must have the label %s=%s", secret.Namespace, secret.Name, Label, LabelValue)
	}
	if !secret.DeletionTimestamp.IsZero() {
		return Grant{}, fmt.Errorf("Secret %s/%s is being deleted", secret.Namespace, secret.Name)
	}
	digest := string(secret.Data[dataHash])
	if !hashPattern.MatchString(digest) || secret.Name != nameOf(digest) {
		return Grant{}, fmt.Errorf("Secret %s/%s must hold the SHA-256 that it is named after", secret.Namespace, secret.Name)
	}
	grant, err := grantOf(secret.Data)
	if err == nil {
		err = grant.Validate(secret.Namespace)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return grant, nil
}

func grantOf(data map[string][]byte) (Grant, error) {
	var grant Grant
	var faults []error
	for name, value := range data {
		switch name {
		case dataHash:
		case dataUsername:
			grant.Username = string(value)
		case dataUID:
			grant.UID = string(value)
		case dataNamespace:
			grant.Namespace = string(value)
		case dataForwardKey:
			grant.ForwardKey = access.Secret(value)
		case dataDescription:
			grant.Description = string(value)
		case dataGroups:
			faults = append(faults, decodeGroups(value, &grant.Groups))
		case dataExpires:
			expires, err := time.Parse(time.RFC3339, string(value))
			if err != nil || expires.IsZero() {
				faults = append(faults, errors.New("expires must be a time in the form of RFC 3339"))
			}
			grant.Expires = expires
		default:
			faults = append(faults, fmt.Errorf("%q is no field of an API key", name))
		}
	}
	return grant, errors.Join(faults...)
}

func decodeGroups(text []byte, groups *[]string) error {
	if err := json.Unmarshal(text, groups); err != nil || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return errors.New("groups must be a JSON array of strings")
	}
	return nil
}

// fits reports whether the Secret is that key's.
func fits(secret *corev1.Secret, digest string) bool {
	return subtle.ConstantTimeCompare(secret.Data[dataHash], []byte(digest)) == 1
}
