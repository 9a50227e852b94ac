package taskapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MaxPage is how many records one list request may ask for (C.5).
const MaxPage = 200

// Compile is the body of a create (B.1).
type Compile struct {
	From        []string        `json:"from"`
	To          string          `json:"to"`
	Skill       string          `json:"skill"`
	Instruction string          `json:"instruction,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"`
}

// Create creates a task. With an idempotency key a repeat answers with the same
// task; without one it makes another.
func (c *Client) Create(ctx context.Context, compile Compile, idempotencyKey string) (*Task, error) {
	body, err := encode(compile)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	header := http.Header{}
	if idempotencyKey != "" {
		header.Set("Idempotency-Key", idempotencyKey)
	}
	return c.task(ctx, call{method: http.MethodPost, path: "compile", header: header, body: body})
}

// encode keeps the text of args, which json.Marshal would escape for HTML.
func encode(compile Compile) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(compile); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// Get reads a task.
func (c *Client) Get(ctx context.Context, id string) (*Task, error) {
	return c.task(ctx, call{method: http.MethodGet, path: taskPath(id)})
}

// Cancel asks for a task to be cancelled and returns its record.
func (c *Client) Cancel(ctx context.Context, id string) (*Task, error) {
	return c.task(ctx, call{method: http.MethodPost, path: taskPath(id) + "/cancel"})
}

func (c *Client) task(ctx context.Context, request call) (*Task, error) {
	got, err := c.do(ctx, request)
	if err != nil {
		return nil, err
	}
	return decodeTask(got.result)
}

func decodeTask(result json.RawMessage) (*Task, error) {
	task := &Task{}
	if err := json.Unmarshal(result, task); err != nil {
		return nil, err
	}
	return task, nil
}

// Seen is a task's record together with the tag that tells its state apart.
type Seen struct {
	Task *Task
	// ETag is empty when the server gives none.
	ETag string
}

// Wait reads a task and has the server hold the answer, for at most wait, while
// the task is as last says. A zero last asks for no particular state. Servers
// that know no waits answer at once; so does every server when wait is 0.
func (c *Client) Wait(ctx context.Context, id string, last Seen, wait time.Duration) (Seen, error) {
	request := call{
		method: http.MethodGet, path: taskPath(id), header: http.Header{}, wait: wait,
	}
	if wait > 0 {
		request.query = url.Values{"wait": {strconv.Itoa(int(wait/time.Second)) + "s"}}
	}
	if last.ETag != "" && last.Task != nil {
		request.header.Set("If-None-Match", last.ETag)
	}
	got, err := c.do(ctx, request)
	if err != nil {
		return Seen{}, err
	}
	if got.status == http.StatusNotModified {
		if last.Task == nil {
			return Seen{}, errors.New("the server answers 304 to a request without a condition")
		}
		return last, nil
	}
	task, err := decodeTask(got.result)
	if err != nil {
		return Seen{}, err
	}
	return Seen{Task: task, ETag: got.header.Get("ETag")}, nil
}

// List says which tasks are wanted.
type List struct {
	// Status, when set, is the state they are in.
	Status string
	// Namespace asks for everyone's tasks in the namespace.
	Namespace bool
	// Limit bounds how many are returned, the newest; it must be positive.
	Limit int
}

// List lists tasks, newest first. It asks for pages when a server's single answer
// can't hold so many.
func (c *Client) List(ctx context.Context, want List) ([]Task, error) {
	query := url.Values{"limit": {strconv.Itoa(min(want.Limit, MaxPage))}}
	if want.Status != "" {
		query.Set("status", want.Status)
	}
	if want.Namespace {
		query.Set("scope", "namespace")
	}
	if want.Limit <= MaxPage {
		got, err := c.do(ctx, call{method: http.MethodGet, path: "tasks", query: query})
		if err != nil {
			return nil, err
		}
		return decodeTasks(got.result)
	}
	query.Set("pagination", "cursor")
	return c.pages(ctx, query, want.Limit)
}

func (c *Client) pages(ctx context.Context, query url.Values, limit int) ([]Task, error) {
	var tasks []Task
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(tasks), MaxPage)))
		got, err := c.do(ctx, call{method: http.MethodGet, path: "tasks", query: query})
		if err != nil {
			return nil, err
		}
		page, cursor, err := decodePage(got.result)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, page...)
		if cursor == "" || len(page) == 0 || len(tasks) >= limit {
			return tasks[:min(len(tasks), limit)], nil
		}
		query.Set("cursor", cursor)
	}
}

// decodePage reads a page of the cursor mode, or the whole list of a server that
// has no such mode.
func decodePage(result json.RawMessage) (tasks []Task, cursor string, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(result), []byte("[")) {
		tasks, err = decodeTasks(result)
		return tasks, "", err
	}
	var page struct {
		Items   json.RawMessage `json:"items"`
		HasMore bool            `json:"has_more"`
		Next    string          `json:"next_cursor"`
	}
	if err := json.Unmarshal(result, &page); err != nil {
		return nil, "", fmt.Errorf("read a page of tasks: %w", err)
	}
	if page.HasMore {
		cursor = page.Next
	}
	tasks, err = decodeTasks(page.Items)
	return tasks, cursor, err
}

func decodeTasks(result json.RawMessage) ([]Task, error) {
	var tasks []Task
	if err := json.Unmarshal(result, &tasks); err != nil {
		return nil, fmt.Errorf("read the list of tasks: %w", err)
	}
	return tasks, nil
}
