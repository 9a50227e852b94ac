package goclient

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Error is the server's refusal of a request.
type Error struct {
	// Status is the HTTP status, and Code and Message are the body's, or made of the
	// status when it has none.
	Status        int
	Code, Message string
	Details       map[string]any
}

// Error says it in a line.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Code, e.Status, e.Message) }

// envelope is around every answer.
type envelope struct {
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
	// Profile has no other type than this.
	Profile []string `json:"profile"`
}

// open takes an answer apart. No body is fine where the status is.
func open(status int, body []byte) (envelope, error) {
	var e envelope
	if len(body) > 0 {
		if err := json.Unmarshal(body, &e); err != nil && status < http.StatusBadRequest {
			return envelope{}, fmt.Errorf("decode the answer: %w", err)
		}
	}
	switch {
	case e.Error != nil:
		return envelope{}, &Error{Status: status, Code: e.Error.Code, Message: e.Error.Message, Details: e.Error.Details}
	case status >= http.StatusBadRequest:
		return envelope{}, &Error{Status: status, Code: "UNKNOWN", Message: http.StatusText(status)}
	}
	return e, nil
}
