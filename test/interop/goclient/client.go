// Package goclient is a client of the REST API in Go, as an SDK would be: it knows
// the wire and nothing of this project. The checks of test/interop run through it.
package goclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// DefaultURL is where a server on the same machine listens.
	DefaultURL = "http://localhost:1933"
	// DefaultTimeout bounds a request.
	DefaultTimeout = 60 * time.Second

	maxAnswer = 32 << 20
)

// Options say whom to call, and as whom. The zero value calls DefaultURL as nobody.
type Options struct {
	// URL may end in a slash.
	URL string
	// APIKey is sent as X-API-Key.
	APIKey string
	// Header is added to every request.
	Header http.Header
	// Profile asks for a profile with every request.
	Profile bool
	// Transport sends the requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	options Options
	http    *http.Client
}

// New makes a client.
func New(options Options) *Client {
	if options.URL == "" {
		options.URL = DefaultURL
	}
	options.URL = strings.TrimRight(options.URL, "/")
	return &Client{options: options, http: &http.Client{Timeout: DefaultTimeout, Transport: options.Transport}}
}

// Task is a task's record. Numbers are json.Number.
type Task map[string]any

// Text is a member that is a string, "" when it is not.
func (t Task) Text(name string) string {
	text, _ := t[name].(string)
	return text
}

// CompileRequest asks for a task. Options without a value are not sent.
type CompileRequest struct {
	From        []string
	To, Skill   string
	Instruction string
	Args        map[string]any
	// Extra are further members of the body; Instruction and Args win over them.
	Extra map[string]any
}

func (r CompileRequest) body() map[string]any {
	body := map[string]any{}
	maps.Copy(body, r.Extra)
	body["from"], body["to"], body["skill"] = r.From, r.To, r.Skill
	if r.Instruction != "" {
		body["instruction"] = r.Instruction
	}
	if len(r.Args) > 0 {
		body["args"] = r.Args
	}
	return body
}

// Filter says which tasks to list; zero values are not sent.
type Filter struct {
	TaskType, Status, ResourceID string
	Limit                        int
}

func (f Filter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"task_type": f.TaskType, "status": f.Status, "resource_id": f.ResourceID} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	return query
}

// Compile creates a task.
func (c *Client) Compile(ctx context.Context, request CompileRequest) (Task, error) {
	body, err := json.Marshal(request.body())
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	var task Task
	return task, c.call(ctx, call{http.MethodPost, "/api/v1/compile", nil, body}, &task)
}

// GetTask reads a task; nil without an error when there is none that the caller may
// see.
func (c *Client) GetTask(ctx context.Context, id string) (Task, error) {
	var task Task
	err := c.call(ctx, call{http.MethodGet, taskPath(id), nil, nil}, &task)
	if failure, ok := errors.AsType[*Error](err); ok && (failure.Code == "NOT_FOUND" || failure.Status == http.StatusNotFound) {
		return nil, nil //nolint:nilnil // As the API's other clients have it.
	}
	return task, err
}

// ListTasks lists the caller's tasks, newest first.
func (c *Client) ListTasks(ctx context.Context, filter Filter) ([]Task, error) {
	var tasks []Task
	return tasks, c.call(ctx, call{http.MethodGet, "/api/v1/tasks", filter.query(), nil}, &tasks)
}

// CancelTask asks for a task to be cancelled, by a POST without a body.
func (c *Client) CancelTask(ctx context.Context, id string) (Task, error) {
	var task Task
	return task, c.call(ctx, call{http.MethodPost, taskPath(id) + "/cancel", nil, nil}, &task)
}

// Health tells whether the server says that it is well.
func (c *Client) Health(ctx context.Context) (bool, error) {
	answer, err := c.exchange(ctx, call{http.MethodGet, "/health", nil, nil})
	return answer.Status == "ok", err
}

func taskPath(id string) string { return "/api/v1/tasks/" + url.PathEscape(id) }

type call struct {
	method, path string
	query        url.Values
	body         []byte
}

// call decodes the result of what it calls.
func (c *Client) call(ctx context.Context, call call, into any) error {
	answer, err := c.exchange(ctx, call)
	if err != nil || len(answer.Result) == 0 {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(answer.Result))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decode the result of %s %s: %w", call.method, call.path, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, call call) (envelope, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return envelope{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return envelope{}, fmt.Errorf("call the server: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return envelope{}, fmt.Errorf("read the answer to %s %s: %w", call.method, call.path, err)
	}
	return open(response.StatusCode, body)
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	if c.options.Profile {
		query := url.Values{"profile": {"1"}}
		maps.Copy(query, call.query)
		call.query = query
	}
	location := c.options.URL + call.path
	if len(call.query) > 0 {
		location += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.method, location, bytes.NewReader(call.body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	maps.Copy(request.Header, c.options.Header)
	if c.options.APIKey != "" {
		request.Header.Set("X-API-Key", c.options.APIKey)
	}
	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}
