package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// success is the envelope of A.1, without what is optional in it: a client that asks
// for a profile does without.
type success struct {
	Status string `json:"status"`
	Result any    `json:"result"`
}

// failure is the envelope of A.2.
type failure struct {
	Status string      `json:"status"`
	Error  failureBody `json:"error"`
	Detail string      `json:"detail,omitempty"`
}

type failureBody struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// EncodeOK returns the envelope of a success. A json.RawMessage keeps its text,
// numbers included, but for the space between its tokens.
func EncodeOK(result any) ([]byte, error) {
	body, err := json.Marshal(success{Status: "ok", Result: result})
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return body, nil
}

// OK answers with a success; a result that can't be encoded is an INTERNAL error.
func OK(w http.ResponseWriter, status int, result any) error {
	body, err := EncodeOK(result)
	if err != nil {
		return err
	}
	Body(w, status, body)
	return nil
}

// Fail answers with an error, as AsError tells it.
func Fail(w http.ResponseWriter, err error) {
	told := AsError(err)
	body, encodeErr := json.Marshal(failure{
		Status: "error",
		Error:  failureBody{Code: told.Code, Message: told.Message, Details: told.Details},
		Detail: told.Detail,
	})
	if encodeErr != nil {
		told = internal
		body = []byte(`{"status":"error","error":{"code":"INTERNAL","message":"Internal server error"}}`)
	}
	if told.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(told.RetryAfter.Seconds()))))
	}
	if told.Code == CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	Body(w, told.HTTPStatus(), body)
}

// Body writes a whole JSON answer, which nobody on the way may store.
func Body(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A client that has gone gets nothing; there is nobody to tell.
	_, _ = w.Write(body)
}
