package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
	"github.com/agentruntime/operator/test/stack"
)

// caller is a user of the REST API with an API key.
type caller struct {
	name string
	key  access.Secret
	base string
	http *http.Client
	// serial numbers the targets of all callers.
	serial *atomic.Int64
}

// newCallers makes callers who may create tasks in the team's namespace and read
// their own.
func (b *bench) newCallers(ctx context.Context, web *http.Client, name string, n int) ([]*caller, error) {
	callers := make([]*caller, n)
	serial := &atomic.Int64{}
	for i := range callers {
		c := &caller{name: fmt.Sprintf("%s-%d@example.com", name, i), key: apikey.Mint(), base: b.stack.FacadeURL(), http: web, serial: serial}
		secret, err := apikey.Encode(stack.Namespace, c.key, apikey.Grant{Username: c.name, Namespace: team}, time.Now())
		if err != nil {
			return nil, fmt.Errorf("make an API key: %w", err)
		}
		if err := b.stack.Client.Create(ctx, secret); err != nil {
			return nil, fmt.Errorf("store an API key: %w", err)
		}
		subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: c.name}
		if err := b.stack.Bind(ctx, team, subject, "agentruntime-user", "agentruntime-runtime-user"); err != nil {
			return nil, err
		}
		callers[i] = c
	}
	return callers, nil
}

// taskPath is where the tasks of the REST API are.
const (
	compilePath = "/api/v1/compile"
	taskPath    = "/api/v1/tasks/"
)

// create creates a task and returns its id.
func (c *caller) create(ctx context.Context) (string, error) {
	body := fmt.Sprintf(`{"from":["viking://resources/research"],"to":"viking://resources/%s/wiki-%d",`+
		`"skill":"viking://agent/skills/llm-wiki","instruction":"Write for new colleagues."}`, c.key[len(c.key)-6:], c.serial.Add(1))
	answer, err := c.call(ctx, http.MethodPost, compilePath, []byte(body), http.StatusAccepted)
	if err != nil {
		return "", err
	}
	var task struct {
		Result struct {
			ID string `json:"task_id"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &task); err != nil {
		return "", fmt.Errorf("decode the answer to a create: %w", err)
	}
	return task.Result.ID, nil
}

// get reads a task.
func (c *caller) get(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodGet, taskPath+id, nil, http.StatusOK)
	return err
}

// refusedError is an answer other than the one that was wanted.
type refusedError struct {
	status int
	body   string
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the facade answered %d: %s", e.status, e.body)
}

// call sends a request and reads the whole answer.
func (c *caller) call(ctx context.Context, method, path string, body []byte, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("X-API-Key", string(c.key))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the facade's answer: %w", err)
	}
	if response.StatusCode != want {
		const shown = 512
		return nil, &refusedError{status: response.StatusCode, body: string(answer[:min(len(answer), shown)])}
	}
	return answer, nil
}

// nameOf is the object name of a task created through the REST API.
func nameOf(id string) client.ObjectKey {
	return client.ObjectKey{Namespace: team, Name: "cmp-" + id[len("cmp_"):]}
}
