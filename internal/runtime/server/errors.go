package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// retryAfterSeconds is told with answers that a later try may change.
const retryAfterSeconds = 5

// codeInvalidURI is the one code of A.3 beyond those of the Runtime protocol
// that an engine may refuse a task with.
const codeInvalidURI = "INVALID_URI"

// httpError is an answer other than the one that was asked for.
type httpError struct {
	body runtimeapi.Error
	// status overrides the status that belongs to the code.
	status int
	// challenge asks for the gateway token (A.7).
	challenge bool
}

func (e *httpError) Error() string { return e.body.Error() }

func refuse(code, message string) *httpError {
	return &httpError{body: runtimeapi.Error{Code: code, Message: message}}
}

// refuseWith refuses a request that is wrong in a way HTTP has a status for.
func refuseWith(status int, message string) *httpError {
	e := refuse(runtimeapi.CodeInvalidArgument, message)
	e.status = status
	return e
}

// Answers that are always the same.
var (
	errNoSession = &runtimeapi.Error{Code: runtimeapi.CodeNotFound, Message: "Compile session not found"}
	// errAdmission passes, other than the limits that a request breaks by itself.
	errAdmission = &httpError{
		body: runtimeapi.Error{
			Code: runtimeapi.CodeResourceExhausted, Message: "Compile task admission limit exceeded.",
		},
		status: http.StatusTooManyRequests,
	}
	errStore    = &runtimeapi.Error{Code: runtimeapi.CodeUnavailable, Message: "The session store is unavailable."}
	errStopping = &runtimeapi.Error{Code: runtimeapi.CodeUnavailable, Message: "The executor is shutting down."}
	errInternal = &runtimeapi.Error{Code: runtimeapi.CodeInternal, Message: "Internal server error"}
)

// httpStatus maps a code to its HTTP status (E.1.3). Clients repeat what is
// answered 429 or 5xx, so what no repeat mends is told otherwise: an engine's
// RESOURCE_EXHAUSTED is a limit that the request itself breaks.
func httpStatus(code string) int {
	switch code {
	case runtimeapi.CodeInvalidArgument, runtimeapi.CodeSkillInvalid,
		runtimeapi.CodeSkillCapabilityUnavailable, runtimeapi.CodeResourceExhausted, codeInvalidURI:
		return http.StatusBadRequest
	case runtimeapi.CodeUnauthenticated:
		return http.StatusUnauthorized
	case runtimeapi.CodePermissionDenied:
		return http.StatusForbidden
	case runtimeapi.CodeNotFound:
		return http.StatusNotFound
	case runtimeapi.CodeConflict, runtimeapi.CodeWriteConflict:
		return http.StatusConflict
	case runtimeapi.CodeUnavailable:
		return http.StatusServiceUnavailable
	case runtimeapi.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// asHTTPError finds the answer for an error. Errors that are not meant for
// clients become INTERNAL, without their text.
func asHTTPError(err error) *httpError {
	var he *httpError
	if errors.As(err, &he) {
		return he
	}
	var api *runtimeapi.Error
	if errors.As(err, &api) {
		return &httpError{body: *api}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(runtimeapi.CodeDeadlineExceeded, "The request took too long.")
	case errors.Is(err, context.Canceled):
		return refuse(runtimeapi.CodeUnavailable, "The request was cancelled.")
	}
	return &httpError{body: *errInternal}
}

// writeError answers with both shapes of an error (E.1.3).
func writeError(w http.ResponseWriter, err error) {
	e := asHTTPError(err)
	// An ErrorResponse always encodes.
	body, _ := json.Marshal(runtimeapi.ErrorResponse{Detail: e.body, Err: e.body})
	writeErrorBody(w, e, body)
}

// writeErrorBody sends an error in the shape that its route has, with the status and
// headers that belong to it.
func writeErrorBody(w http.ResponseWriter, e *httpError, body []byte) {
	status := e.status
	if status == 0 {
		status = httpStatus(e.body.Code)
	}
	if e.challenge {
		w.Header().Set(runtimeapi.HeaderGatewayChallenge, "true")
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	writeBody(w, status, body)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A client that went away needs no answer.
	_, _ = w.Write(body) //nolint:gosec // JSON, typed as such and never sniffed
}
