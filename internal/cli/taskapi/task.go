package taskapi

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// The states of a task (compile-api.md, C.2).
const (
	StatusPending    = "pending"
	StatusRunning    = "running"
	StatusCancelling = "cancelling"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// Statuses are the states, in the order in which a task goes through them.
func Statuses() []string {
	return []string{StatusPending, StatusRunning, StatusCancelling, StatusCompleted, StatusFailed, StatusCancelled}
}

// Task is a record of C.1. A zero field means that the record had none.
type Task struct {
	ID         string
	Type       string
	Status     string
	Stage      string
	ResourceID string
	// Error is "CODE: message" of a task that failed.
	Error string
	// CreatedAt and UpdatedAt are zero when the record has no such times.
	CreatedAt, UpdatedAt time.Time
	// Request is what was asked for, in canonical form.
	Request Request
	// Raw is the record's exact text.
	Raw json.RawMessage
}

// Request is what a task was created with, as the record repeats it.
type Request struct {
	From        []string `json:"from"`
	To          string   `json:"to"`
	Skill       string   `json:"skill"`
	Instruction string   `json:"instruction"`
}

// Terminal reports whether the task has ended.
func (t *Task) Terminal() bool {
	return slices.Contains([]string{StatusCompleted, StatusFailed, StatusCancelled}, t.Status)
}

// MarshalJSON returns the record's exact text.
func (t Task) MarshalJSON() ([]byte, error) { return t.Raw, nil }

// UnmarshalJSON reads a record and keeps its text. A record without an id or a
// status is refused; every other field may be missing.
func (t *Task) UnmarshalJSON(text []byte) error {
	var record struct {
		ID         string          `json:"task_id"`
		Type       string          `json:"task_type"`
		Status     string          `json:"status"`
		Stage      string          `json:"stage"`
		ResourceID string          `json:"resource_id"`
		Error      string          `json:"error"`
		CreatedAt  float64         `json:"created_at"`
		UpdatedAt  float64         `json:"updated_at"`
		Meta       json.RawMessage `json:"meta"`
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("read a task record: %w", err)
	}
	if record.ID == "" || record.Status == "" {
		return fmt.Errorf("the server sent a task record without task_id or status")
	}
	*t = Task{
		ID: record.ID, Type: record.Type, Status: record.Status, Stage: record.Stage,
		ResourceID: record.ResourceID, Error: record.Error, Request: requestIn(record.Meta),
		CreatedAt: epoch(record.CreatedAt), UpdatedAt: epoch(record.UpdatedAt),
		Raw: slices.Clone(text),
	}
	return nil
}

// requestIn reads the request from a record's meta; meta of another shape has none.
func requestIn(meta json.RawMessage) Request {
	var read struct {
		Request Request `json:"request"`
	}
	if err := json.Unmarshal(meta, &read); err != nil {
		return Request{}
	}
	return read.Request
}

// epoch makes a time of epoch seconds, to the microsecond.
func epoch(seconds float64) time.Time {
	if seconds <= 0 || seconds > math.MaxInt32*100.0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6)))
}
