package contentstore

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/viking"
)

// reply is a whole answer.
type reply struct {
	status int
	// gateway marks an answer that challenges the operator's own credential (A.7).
	gateway bool
	body    []byte
}

func (a reply) gatewayRefused() bool {
	return a.gateway && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden)
}

// read returns what the server says, or the error that it answered with.
func (a reply) read(uri viking.URI) (fileapi.Answer, error) {
	answer, err := fileapi.Decode(a.body)
	switch {
	case a.status/100 == 3:
		return fileapi.Answer{}, unavailable(uri.String(), "it answers with a redirect, which is not followed")
	case a.status/100 != 2:
		// Without an envelope the code is "", and the status tells what it can.
		return fileapi.Answer{}, failureOf(uri, a.status, answer)
	case err != nil || answer.Status != fileapi.StatusOK:
		return fileapi.Answer{}, notTheAPI(uri.String())
	}
	return answer, nil
}

// kindsOfCodes has the codes of A.3 that a request itself earns.
var kindsOfCodes = map[string]Kind{
	"INVALID_ARGUMENT":    KindInvalid,
	"INVALID_URI":         KindInvalid,
	"UNSUPPORTED_URI":     KindInvalid,
	"FAILED_PRECONDITION": KindInvalid,
	"UNAUTHENTICATED":     KindUnauthenticated,
	"PERMISSION_DENIED":   KindDenied,
	"CONFLICT":            KindConflict,
	"ALREADY_EXISTS":      KindConflict,
	"ABORTED":             KindConflict,
	"RESOURCE_EXHAUSTED":  KindExhausted,
}

// kindsOfStatuses has what a status says without a code. A bare 404 is left out: it
// says that the route is missing, not the file.
var kindsOfStatuses = map[int]Kind{
	http.StatusBadRequest:            KindInvalid,
	http.StatusUnprocessableEntity:   KindInvalid,
	http.StatusPreconditionFailed:    KindInvalid,
	http.StatusUnauthorized:          KindUnauthenticated,
	http.StatusForbidden:             KindDenied,
	http.StatusConflict:              KindConflict,
	http.StatusTooManyRequests:       KindExhausted,
	http.StatusRequestEntityTooLarge: KindExhausted,
}

// reasons put the kinds in words. A server's own are not repeated: they may hold its
// addresses, or what it was sent.
var reasons = map[Kind]string{
	KindInvalid:         "the content store refuses the request",
	KindNotFound:        "does not exist",
	KindUnauthenticated: "the content store does not accept the caller's credential",
	KindDenied:          "is not open to the caller",
	KindConflict:        "is being changed",
	KindExhausted:       "the content store takes no more requests now, or a limit was passed",
}

// failureOf finds the kind of an error answer: by its code, else by its status.
func failureOf(uri viking.URI, status int, answer fileapi.Answer) *Error {
	kind := kindOfFailure(status, answer)
	if kind == KindUnavailable {
		return unavailable(uri.String(), fmt.Sprintf("it answers with status %d%s", status, shown(answer.Code)))
	}
	reason := reasons[kind]
	if kind == KindInvalid {
		reason += shown(answer.Code)
	}
	return refuse(kind, uri.String(), "%s", reason)
}

func kindOfFailure(status int, answer fileapi.Answer) Kind {
	if status/100 != 4 {
		return KindUnavailable
	}
	if status == http.StatusNotFound {
		// Only an envelope shows that the API was reached at all.
		if answer.Status == fileapi.StatusError && answer.Code == string(KindNotFound) {
			return KindNotFound
		}
		return KindUnavailable
	}
	if kind, ok := kindsOfCodes[answer.Code]; ok {
		return kind
	}
	if kind, ok := kindsOfStatuses[status]; ok {
		return kind
	}
	return KindUnavailable
}

var codeForm = regexp.MustCompile(`^[A-Z][A-Z_]{0,63}$`)

// shown returns a code in brackets, if it is one.
func shown(code string) string {
	if !codeForm.MatchString(code) {
		return ""
	}
	return " (" + code + ")"
}

func notTheAPI(path string) *Error {
	return unavailable(path, "its answer is not one of OpenViking's file API")
}
