package taskapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The codes that the client itself knows (compile-api.md, A.3).
const (
	CodeUnknown           = "UNKNOWN"
	CodeInvalidArgument   = "INVALID_ARGUMENT"
	CodeUnauthenticated   = "UNAUTHENTICATED"
	CodePermissionDenied  = "PERMISSION_DENIED"
	CodeNotFound          = "NOT_FOUND"
	CodeConflict          = "CONFLICT"
	CodeResourceExhausted = "RESOURCE_EXHAUSTED"
	CodeInternal          = "INTERNAL"
	CodeUnavailable       = "UNAVAILABLE"
	CodeDeadlineExceeded  = "DEADLINE_EXCEEDED"
)

// maxMessage bounds what is kept of a message, in bytes.
const maxMessage = 2048

// Error is an answer that refuses or fails a request.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is the wire's word for the failure.
	Code string
	// Message is the server's sentence.
	Message string
	// RequestID finds the request in the server's log; empty when it gave none.
	RequestID string
	// RetryAfter is how long the server asks to wait; 0 when it asks for nothing.
	RetryAfter time.Duration
	// Kubernetes tells that the API server answered, not the facade.
	Kubernetes bool
}

// Error tells the code, the message and the request's id.
func (e *Error) Error() string {
	text := e.Code + ": " + e.Message
	if e.RequestID != "" {
		text += " (request id " + e.RequestID + ")"
	}
	return text
}

// UnreachableError is a request that got no answer.
type UnreachableError struct {
	// Server is the address that was asked.
	Server string
	// Err is why there is no answer.
	Err error
}

// Error names the server and the reason.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %v", e.Server, e.Err)
}

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.Err }

// IsTransient reports whether the same request may succeed a little later: the
// server could not be reached, was busy, or failed.
func IsTransient(err error) bool {
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return true
	}
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return refused.Status >= 500 && refused.Status != http.StatusNotImplemented
}

// IsNotFound reports whether the server says that a task is not there, or not the
// caller's.
func IsNotFound(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == http.StatusNotFound && !refused.Kubernetes
}

// errorOf makes an error of an answer: of the envelope of A.2, of a Kubernetes
// Status where the API server itself answered, or of the bare HTTP status.
func errorOf(response *http.Response, body []byte) *Error {
	told := &Error{
		Status:     response.StatusCode,
		RequestID:  plainID(response.Header.Get("X-Request-ID")),
		RetryAfter: retryAfter(response.Header),
	}
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		told.Code = CodeUnknown
		told.Message = "the server redirects to " + location + ", and no redirect is followed with credentials: name the right address"
		return told
	}
	fill(told, body)
	if told.Code == "" {
		told.Code = codeOf(told.Status)
	}
	if told.Message == "" {
		told.Message = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", told.Status, http.StatusText(told.Status)))
	}
	told.Message = truncate(told.Message)
	return told
}

// fill reads code and message from a body, as far as it has them.
func fill(told *Error, body []byte) {
	var read struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		metav1.TypeMeta
		Message string              `json:"message"`
		Reason  metav1.StatusReason `json:"reason"`
	}
	// A body of another shape leaves the fields as they are.
	_ = json.Unmarshal(body, &read)
	told.Code, told.Message = truncate(read.Error.Code), read.Error.Message
	if read.Kind == "Status" && told.Message == "" {
		told.Kubernetes = true
		told.Message = read.Message
	}
}

// codeOf is the code for an HTTP status that came without one.
func codeOf(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return CodeInvalidArgument
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden:
		return CodePermissionDenied
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict:
		return CodeConflict
	case http.StatusTooManyRequests:
		return CodeResourceExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return CodeUnavailable
	case http.StatusGatewayTimeout:
		return CodeDeadlineExceeded
	}
	if status >= 500 {
		return CodeInternal
	}
	return CodeUnknown
}

// retryAfter reads whole seconds, up to an hour.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Hour)
}

func plainID(id string) string {
	if len(id) > 128 {
		return ""
	}
	return id
}

func truncate(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
