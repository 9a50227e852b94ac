package keys

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/agentruntime/operator/internal/access/apikey"
	"github.com/agentruntime/operator/internal/cli/output"
)

// Key is what may be shown of an API key: everything but what is secret.
type Key struct {
	// Name is its Secret's name.
	Name string `json:"name"`
	// User and Groups are the Kubernetes user that its bearer is taken for.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Namespace is the only one that it is good for.
	Namespace string `json:"namespace"`
	// Expires is when it stops working; nil for never.
	Expires *time.Time `json:"expires,omitempty"`
	// Forwards tells that a key of OpenViking is sent on with each task.
	Forwards bool `json:"forwards"`
	// Description is a free text of whoever made it.
	Description string `json:"description,omitempty"`
	// Created is when it was made.
	Created time.Time `json:"created"`
	// Problem says why the facade refuses the key, whatever its expiry; empty when it
	// does not.
	Problem string `json:"problem,omitempty"`
}

// describe tells what a Secret says. Of one that the facade refuses it tells why,
// and nothing that can't be believed.
func describe(secret *corev1.Secret) Key {
	key := Key{Name: secret.Name, Created: secret.CreationTimestamp.Time}
	grant, err := apikey.Decode(secret)
	if err != nil {
		key.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
		return key
	}
	key.User, key.Groups, key.Namespace = grant.Username, grant.Groups, grant.Namespace
	key.Forwards, key.Description = grant.ForwardKey != "", grant.Description
	if !grant.Expires.IsZero() {
		key.Expires = &grant.Expires
	}
	return key
}

// Print writes API keys.
func Print(w io.Writer, format output.Format, keys []Key, now time.Time) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Value(w, format, keys)
	case output.Name:
		for i := range keys {
			if _, err := fmt.Fprintln(w, "secret/"+keys[i].Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return table(w, format, keys, now)
	}
}

func table(w io.Writer, format output.Format, keys []Key, now time.Time) error {
	header := []string{"NAME", "USER", "NAMESPACE", "EXPIRES", "FORWARDS", "AGE"}
	if format == output.Wide {
		header = append(header, "GROUPS", "DESCRIPTION", "PROBLEM")
	}
	rows := make([][]string, 0, len(keys))
	for i := range keys {
		key := &keys[i]
		row := []string{key.Name, key.User, key.Namespace, key.expiry(now), yesNo(key.Forwards), output.Age(now, key.Created)}
		if format == output.Wide {
			row = append(row, strings.Join(key.Groups, ","), key.Description, key.Problem)
		}
		rows = append(rows, row)
	}
	return output.Table(w, header, rows)
}

func (k *Key) expiry(now time.Time) string {
	switch {
	case k.Problem != "":
		return "invalid"
	case k.Expires == nil:
		return "never"
	case !now.Before(*k.Expires):
		return "expired"
	}
	return k.Expires.UTC().Format(time.RFC3339)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
