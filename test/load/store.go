package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// putsAtOnce is how many objects go into one transaction; etcd allows 128.
const putsAtOnce = 100

// copies puts n copies of a stored task into etcd, each with a name, uid, target
// and session of its own. Through the API server, 100,000 of them would take a
// quarter of an hour; what it and the managers then hold is the same.
func (l *lab) copies(ctx context.Context, example *v1alpha1.CompileTask, n int) error {
	began := time.Now()
	prefix := "/registry/agentruntime.dev/compiletasks/" + example.Namespace + "/"
	stored, err := l.stored(ctx, prefix+example.Name)
	if err != nil {
		return err
	}
	batches := (n + putsAtOnce - 1) / putsAtOnce
	_, err = loop(batches, func() error {
		var puts []any
		for range putsAtOnce {
			name, text := l.copyOf(example, stored)
			puts = append(puts, map[string]any{"requestPut": map[string]any{"key": []byte(prefix + name), "value": text}})
		}
		return l.etcd(ctx, "/v3/kv/txn", map[string]any{"success": puts}, nil)
	})
	l.printf("  %d finished tasks put into etcd in %.0f s\n", batches*putsAtOnce, time.Since(began).Seconds())
	return err
}

// copyOf is the stored form of a copy.
func (l *lab) copyOf(example *v1alpha1.CompileTask, stored string) (name string, text []byte) {
	other := l.newTask(example.Namespace, example.Spec.RuntimeName)
	other.UID = uuid.NewUUID()
	text = []byte(strings.NewReplacer(
		`"`+example.Name+`"`, `"`+other.Name+`"`, string(example.UID), string(other.UID),
		example.TaskID(), other.TaskID(), `"`+example.Spec.To+`"`, `"`+other.Spec.To+`"`,
	).Replace(stored))
	return other.Name, text
}

// stored reads what etcd holds under a key.
func (l *lab) stored(ctx context.Context, key string) (string, error) {
	var answer struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := l.etcd(ctx, "/v3/kv/range", map[string]any{"key": []byte(key)}, &answer); err != nil {
		return "", err
	}
	if len(answer.KVs) != 1 {
		return "", fmt.Errorf("etcd has %d values under %s, want 1", len(answer.KVs), key)
	}
	return string(answer.KVs[0].Value), nil
}

// etcd calls etcd's JSON gateway; byte slices travel as base64.
func (l *lab) etcd(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	url := l.env.ControlPlane.Etcd.URL.String() + path
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(call)
	if err != nil {
		return fmt.Errorf("call etcd: %w", err)
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err != nil {
		return fmt.Errorf("read etcd's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("call etcd: %s: %s", response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
