package executor

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Bounds of what is read of an executor.
const (
	maxStatusBody  = 8 << 20
	maxCreateBody  = 64 << 10
	maxErrorBody   = 64 << 10
	maxSessionID   = 512
	maxCode        = 64
	maxETag        = 256
	maxHeaderValue = 16 << 10
	maxRetryAfter  = time.Hour
	maxEndLag      = 24 * time.Hour
)

// defaultMessage stands for an error answer that says nothing (E.2.3).
const defaultMessage = "Compile API request failed"

// unreachableMessage begins the message of a call without a whole answer (E.2.3).
const unreachableMessage = "Failed to reach the compile kernel service: "

// answer is a whole response, read and closed.
type answer struct {
	op      string
	status  int
	body    []byte
	tooBig  bool
	secrets []string

	gatewayRejected bool
	retryAfter      time.Duration
	// prefers reports that the server applies Prefer: wait.
	prefers bool
	held    bool
	etag    string
	endLag  time.Duration
}

// readAnswer reads resp within the bounds of the call, to its end where it can,
// so that the connection is used again. Its error is one of reading a success;
// an error answer counts by its status even when its body is cut off.
func readAnswer(c call, token string, resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	ans := answer{
		op:      c.op,
		status:  resp.StatusCode,
		secrets: append([]string{c.identity.APIKey, token}, c.identity.Secrets...),
		prefers: appliesWait(resp.Header),
		endLag:  endLag(resp.Header),
	}
	ans.held = c.held && ans.prefers
	if etag := resp.Header.Get("ETag"); len(etag) <= maxETag && headerValue(etag) {
		ans.etag = etag
	}
	if ans.ok() {
		body, err := readBounded(resp.Body, c.limit)
		ans.body, ans.tooBig = body, len(body) > c.limit
		return ans, err
	}
	ans.gatewayRejected = rejectsGateway(resp)
	ans.retryAfter = retryAfter(resp.Header, time.Now)
	// A body that is too big or cut off is not parsed: its text could end inside
	// a secret, which then no redaction would know.
	if body, err := readBounded(resp.Body, maxErrorBody); err == nil && len(body) <= maxErrorBody {
		ans.body = body
	}
	return ans, nil
}

// readBounded reads r to its end, or one byte past limit.
func readBounded(r io.Reader, limit int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(limit)+1))
}

func (a answer) ok() bool { return a.status/100 == 2 }

// failure returns what the answer's status and size make of the call (E.2.3).
func (a answer) failure() error {
	if a.ok() {
		if a.tooBig {
			return a.invalid("the answer is too large")
		}
		return nil
	}
	code, message := a.reason()
	return &Error{
		Op:              a.op,
		Code:            code,
		Message:         Redact(message, a.secrets...),
		HTTPStatus:      a.status,
		Transient:       a.gatewayRejected || transientStatus(a.status),
		RetryAfter:      a.retryAfter,
		gatewayRejected: a.gatewayRejected,
	}
}

// reason reads code and message of an error body: the detail object, else the
// error object, else the detail string (E.1.3, E.2.3).
func (a answer) reason() (code, message string) {
	code, message = runtimeapi.CodeInvalidArgument, defaultMessage
	if a.status >= http.StatusInternalServerError {
		code = runtimeapi.CodeUnavailable
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(a.body, &body) != nil {
		return code, message
	}
	for _, name := range []string{"detail", "error"} {
		var object map[string]json.RawMessage
		if json.Unmarshal(body[name], &object) != nil || object == nil {
			continue
		}
		if c, ok := text(object["code"]); ok && a.validCode(c) {
			code = c
		}
		if m, ok := text(object["message"]); ok && strings.TrimSpace(m) != "" {
			message = m
		}
		return code, message
	}
	if detail, ok := text(body["detail"]); ok && strings.TrimSpace(detail) != "" {
		message = detail
	}
	return code, message
}

// validCode reports whether code is short, plain and no secret.
func (a answer) validCode(code string) bool {
	return visible(code, maxCode) && Redact(code, a.secrets...) == code
}

// invalid returns the error of a success that does not keep to the protocol. It
// is permanent: the same call would be answered the same (E.2.3).
func (a answer) invalid(message string) error {
	return &Error{
		Op: a.op, Code: runtimeapi.CodeInvalidResponse,
		Message: message, HTTPStatus: a.status,
	}
}

// submission reads a create's answer (E.1.1).
func (a answer) submission() (Submission, error) {
	var body map[string]json.RawMessage
	if json.Unmarshal(a.body, &body) != nil || body == nil {
		return Submission{}, a.invalid("the create answer is not a JSON object")
	}
	id, ok := text(body["session_id"])
	switch {
	case !ok || id == "":
		return Submission{}, a.invalid("the create answer has no session_id")
	case !visible(id, maxSessionID):
		return Submission{}, a.invalid("session_id is not 1 to 512 visible ASCII characters")
	}
	return Submission{SessionID: id}, nil
}

// text returns the string that raw encodes.
func text(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

func transientStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// refused returns the error of a call that cannot be sent as it is.
func refused(op, message string) error {
	return &Error{Op: op, Code: runtimeapi.CodeInvalidArgument, Message: message}
}

// unreachable returns the error of a call that got no whole answer (E.2.3). The
// cause must be a text of this package.
func unreachable(op, cause string) error {
	return &Error{
		Op: op, Code: runtimeapi.CodeUnavailable, Transient: true,
		Message: unreachableMessage + cause,
	}
}

func rejectsGateway(resp *http.Response) bool {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return false
	}
	return strings.EqualFold(strings.TrimSpace(resp.Header.Get(runtimeapi.HeaderGatewayChallenge)), "true")
}

// retryAfter reads both forms of Retry-After, between 0 and one hour. A date is
// counted from the server's own Date where it sends one, so that two clocks need
// not agree.
func retryAfter(header http.Header, now func() time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		from = now()
	}
	return min(max(until.Sub(from), 0), maxRetryAfter)
}

// appliesWait reports whether Preference-Applied names wait (RFC 7240).
func appliesWait(header http.Header) bool {
	for _, preference := range tokens(header.Values(runtimeapi.HeaderPreferenceApplied), ",") {
		name, _, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(name), "wait") {
			return true
		}
	}
	return false
}

// endLag reads Server-Timing "state;dur=<ms>", at most a day; -1 when absent.
func endLag(header http.Header) time.Duration {
	for _, metric := range tokens(header.Values("Server-Timing"), ",") {
		name, params, _ := strings.Cut(metric, ";")
		if strings.TrimSpace(name) != "state" {
			continue
		}
		for _, param := range tokens([]string{params}, ";") {
			key, value, _ := strings.Cut(param, "=")
			if !strings.EqualFold(strings.TrimSpace(key), "dur") {
				continue
			}
			ms, err := strconv.ParseFloat(strings.Trim(strings.TrimSpace(value), `"`), 64)
			if err != nil || !(ms >= 0) {
				return -1
			}
			return time.Duration(min(ms, float64(maxEndLag/time.Millisecond)) * float64(time.Millisecond))
		}
	}
	return -1
}

// tokens splits header values at sep.
func tokens(values []string, sep string) []string {
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, sep), sep)
}
