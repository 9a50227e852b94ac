package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

const (
	testKey     = "cmp_0123456789abcdef0123456789abcdef"
	testAPIKey  = "user-credential-1"
	testGateway = "gateway-credential-1"
)

const (
	testTrace  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	testSecret = "hush-secret-of-args"
)

var testIdentity = Identity{
	APIKey: testAPIKey, LogID: "req-1", TraceParent: testTrace, Account: "team-a", User: "ada", Secrets: []string{testSecret},
}

func newClient(t *testing.T, url string, change ...func(*HTTPConfig)) *HTTP {
	t.Helper()
	cfg := HTTPConfig{BaseURL: url, GatewayToken: StaticToken(testGateway), RequestTimeout: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	client, err := NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// serve answers every request with one handler.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// reply writes one fixed answer.
func reply(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func poll(t *testing.T, c *HTTP) (Observation, error) {
	t.Helper()
	return c.Poll(t.Context(), PollRequest{Identity: testIdentity, SessionID: "s-1"})
}

func wantError(t *testing.T, err error, want Error) {
	t.Helper()
	got, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v (%T), want *Error", err, err)
	}
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreUnexported(Error{})); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestCallsSendTheHeadersOfTheProtocol(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, Path, Body string
		Header             map[string]string
	}
	var got seen
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{Method: r.Method, Path: r.RequestURI, Body: string(body), Header: map[string]string{}}
		for name, values := range r.Header {
			got.Header[name] = strings.Join(values, "|")
		}
		delete(got.Header, "Content-Length")
		_, _ = io.WriteString(w, `{"session_id":"s-1","stage":"x","status":"running"}`)
	})
	common := func(extra ...string) map[string]string {
		h := map[string]string{
			"Content-Type": "application/json", "User-Agent": userAgent, "X-Api-Key": testAPIKey,
			"X-Gateway-Token": testGateway, "X-Tt-Logid": "req-1", "Traceparent": testTrace,
			"X-Openviking-Account": "team-a", "X-Openviking-User": "ada",
		}
		for i := 0; i+1 < len(extra); i += 2 {
			h[extra[i]] = extra[i+1]
		}
		return h
	}
	ctx := t.Context()
	tests := map[string]struct {
		gateway string
		call    func(*HTTP) error
		want    seen
	}{
		"submit with arguments as they are": {
			gateway: testGateway + "\n",
			call: func(c *HTTP) error {
				_, err := c.Submit(ctx, SubmitRequest{Identity: testIdentity, Key: testKey, Payload: runtimeapi.CompilePayload{
					From: []string{"viking://a"}, To: "viking://b", Skill: "viking://s", Instruction: "a<b",
					Args: json.RawMessage(`{"n":1.10,"user_key":"k"}`),
				}})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks", `{"task_type":"compile","payload":{"from":["viking://a"],"to":"viking://b","skill":"viking://s","instruction":"a<b","args":{"n":1.10,"user_key":"k"}}}`,
				common("Idempotency-Key", testKey)},
		},
		"submit leaves out empty arguments": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Submit(ctx, SubmitRequest{Identity: testIdentity, Key: testKey, Payload: runtimeapi.CompilePayload{
					From: []string{"viking://a"}, To: "viking://b", Skill: "viking://s", Args: json.RawMessage(` { } `),
				}})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks", `{"task_type":"compile","payload":{"from":["viking://a"],"to":"viking://b","skill":"viking://s"}}`,
				common("Idempotency-Key", testKey)},
		},
		"plain poll sends no preference": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Poll(ctx, PollRequest{Identity: testIdentity, SessionID: "s-1", ETag: `"1"`})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/status", `{"session_id":"s-1"}`, common()},
		},
		"held poll sends wait rounded up and the ETag": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Poll(ctx, PollRequest{Identity: testIdentity, SessionID: "s-1", Wait: 1500 * time.Millisecond, ETag: `"1"`})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/status", `{"session_id":"s-1"}`, common("Prefer", "wait=2", "If-None-Match", `"1"`)},
		},
		"held poll is cut to the protocol's bound": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Poll(ctx, PollRequest{Identity: testIdentity, SessionID: "s-1", Wait: 1<<63 - 1})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/status", `{"session_id":"s-1"}`, common("Prefer", "wait=60")},
		},
		"cancel": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Cancel(ctx, CancelRequest{Identity: testIdentity, SessionID: "s-1"})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/cancel", `{"session_id":"s-1"}`, common()},
		},
		"nothing is sent that is not set": {
			call: func(c *HTTP) error {
				_, err := c.Cancel(ctx, CancelRequest{SessionID: "s-1"})
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/cancel", `{"session_id":"s-1"}`,
				map[string]string{"Content-Type": "application/json", "User-Agent": userAgent}},
		},
		"probe shows no user": {
			gateway: testGateway,
			call: func(c *HTTP) error {
				_, err := c.Probe(ctx)
				return err
			},
			want: seen{"POST", "/base/runtime/v1/tasks/status", `{"session_id":"probe"}`, map[string]string{
				"Content-Type": "application/json", "User-Agent": userAgent, "X-Gateway-Token": testGateway, "Prefer": "wait=0"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, server.URL+"/base/", func(c *HTTPConfig) { c.GatewayToken = StaticToken(tc.gateway) })
			if err := tc.call(client); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPollReadsStatusAnswers(t *testing.T) {
	t.Parallel()
	failed := func(code, message string) *runtimeapi.Error { return &runtimeapi.Error{Code: code, Message: message} }
	tests := map[string]struct {
		body string
		want Observation
	}{
		"accepted is running":    {`{"status":"accepted","stage":"q"}`, Observation{State: StateRunning, Stage: "q"}},
		"pending is running":     {`{"status":"pending","stage":"q"}`, Observation{State: StateRunning, Stage: "q"}},
		"running":                {`{"status":"running","stage":""}`, Observation{State: StateRunning}},
		"committing is running":  {`{"status":"committing","stage":"q"}`, Observation{State: StateRunning, Stage: "q"}},
		"cancelling":             {`{"status":"cancelling","stage":"q"}`, Observation{State: StateCancelling, Stage: "q"}},
		"cancelled has no error": {`{"status":"cancelled","stage":"cancelled","error":null}`, Observation{State: StateCancelled, Stage: "cancelled"}},
		"completed with result, meta and unknown members": {
			`{"status":"completed","stage":"done","error":null,"meta":{"token_usage":1.0},"result":{"n":1e2},"Status":"failed","x":1}`,
			Observation{State: StateCompleted, Stage: "done", Meta: json.RawMessage(`{"token_usage":1.0}`), Result: json.RawMessage(`{"n":1e2}`)},
		},
		"completed without result": {`{"status":"completed","stage":"done","meta":{},"result":null}`, Observation{State: StateCompleted, Stage: "done", Meta: json.RawMessage(`{}`)}},
		"meta that is no object is left out": {
			`{"status":"running","stage":"q","meta":[1],"result":3}`, Observation{State: StateRunning, Stage: "q"}},
		"failed with a reason": {
			`{"status":"failed","stage":"f","error":{"code":"SKILL_INVALID","message":"no frontmatter"}}`,
			Observation{State: StateFailed, Stage: "f", Error: failed("SKILL_INVALID", "no frontmatter")}},
		"failed with a plain string": {
			`{"status":"failed","stage":"f","error":"it broke"}`, Observation{State: StateFailed, Stage: "f", Error: failed("UNKNOWN", "it broke")}},
		"failed without a reason": {
			`{"status":"failed","stage":"f"}`, Observation{State: StateFailed, Stage: "f", Error: failed("UNKNOWN", "External task failed")}},
		"failed with half a reason": {
			`{"status":"failed","stage":"f","error":{"message":"it broke"}}`, Observation{State: StateFailed, Stage: "f", Error: failed("UNKNOWN", "it broke")}},
		"failed with a code that is none": {
			`{"status":"failed","stage":"f","error":{"code":"a b","message":" "}}`, Observation{State: StateFailed, Stage: "f", Error: failed("UNKNOWN", "External task failed")}},
		"a failure's credentials are redacted": {
			`{"status":"failed","stage":"as user-credential-1","error":{"code":"user-credential-1","message":"gateway-credential-1 sk-abc"}}`,
			Observation{State: StateFailed, Stage: "as [REDACTED]", Error: failed("UNKNOWN", "[REDACTED] [REDACTED]")}},
		"no status, cancelled stage":           {`{"stage":"Task Cancelled","error":{"code":"X","message":"y"}}`, Observation{State: StateCancelled, Stage: "Task Cancelled"}},
		"no status, canceled stage":            {`{"status":null,"stage":"canceled"}`, Observation{State: StateCancelled, Stage: "canceled"}},
		"no status, error set":                 {`{"status":"","stage":"finished","error":{"code":"X","message":"y"}}`, Observation{State: StateFailed, Stage: "finished", Error: failed("X", "y")}},
		"no status, failed stage":              {`{"stage":"compile: failed"}`, Observation{State: StateFailed, Stage: "compile: failed", Error: failed("UNKNOWN", "External task failed")}},
		"no status, error stage":               {`{"stage":"error"}`, Observation{State: StateFailed, Stage: "error", Error: failed("UNKNOWN", "External task failed")}},
		"no status, completed stage":           {`{"stage":"compile: completed"}`, Observation{State: StateCompleted, Stage: "compile: completed"}},
		"no status, succeeded stage":           {`{"stage":"succeeded"}`, Observation{State: StateCompleted, Stage: "succeeded"}},
		"no status, success stage":             {`{"stage":"success"}`, Observation{State: StateCompleted, Stage: "success"}},
		"no status, finished stage":            {`{"stage":"finished"}`, Observation{State: StateCompleted, Stage: "finished"}},
		"no status, any other stage":           {`{"stage":"compile: reading"}`, Observation{State: StateRunning, Stage: "compile: reading"}},
		"a status is read whatever its case":   {`{"status":" Running ","stage":"q"}`, Observation{State: StateRunning, Stage: "q"}},
		"an error beside running is not shown": {`{"status":"running","stage":"q","error":"retrying"}`, Observation{State: StateRunning, Stage: "q"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, serve(t, reply(200, tc.body)).URL)
			got, err := poll(t, client)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.EndLag = -1
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPollRefusesAnswersOutsideTheProtocol(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status        int
		body, message string
	}{
		"no body":                {204, "", "the status answer is not a JSON object"},
		"markup":                 {200, "<html>", "the status answer is not a JSON object"},
		"half an object":         {200, `{"stage":`, "the status answer is not a JSON object"},
		"two objects":            {200, `{"stage":"a"}{}`, "the status answer is not a JSON object"},
		"null":                   {200, "null", "the status answer is not a JSON object"},
		"a list":                 {200, "[]", "the status answer is not a JSON object"},
		"no stage":               {200, `{"status":"running"}`, "the status answer has no stage"},
		"null stage":             {200, `{"status":"running","stage":null}`, "the status answer has no stage"},
		"stage of another type":  {200, `{"status":"running","stage":1}`, "the status answer has no stage"},
		"unknown status":         {200, `{"status":"paused","stage":"q"}`, "the status answer has an unknown status"},
		"status of another type": {200, `{"status":1,"stage":"q"}`, "the status answer has an unknown status"},
		"a result that is a list": {200, `{"status":"completed","stage":"q","result":[]}`,
			"the result is not a JSON object"},
		"a body above the bound": {200, `{"stage":"q","status":"running","x":"` + strings.Repeat("a", 8<<20) + `"}`,
			"the answer is too large"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, serve(t, reply(tc.status, tc.body)).URL)
			_, err := poll(t, client)
			wantError(t, err, Error{Op: OpPoll, Code: runtimeapi.CodeInvalidResponse, Message: tc.message, HTTPStatus: tc.status})
		})
	}
}

func TestSubmitReadsTheSession(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", 512)
	tests := map[string]struct {
		status             int
		body, want, reason string
	}{
		"202":                 {202, `{"session_id":"s-1","task_id":"t"}`, "s-1", ""},
		"200":                 {200, `{"session_id":"s-1"}`, "s-1", ""},
		"512 bytes":           {202, `{"session_id":"` + long + `"}`, long, ""},
		"513 bytes":           {202, `{"session_id":"` + long + `s"}`, "", "session_id is not 1 to 512 visible ASCII characters"},
		"a space":             {202, `{"session_id":"a b"}`, "", "session_id is not 1 to 512 visible ASCII characters"},
		"a control character": {202, `{"session_id":"a\u0000"}`, "", "session_id is not 1 to 512 visible ASCII characters"},
		"missing":             {202, `{"task_id":"x"}`, "", "the create answer has no session_id"},
		"empty":               {202, `{"session_id":""}`, "", "the create answer has no session_id"},
		"a number":            {202, `{"session_id":7}`, "", "the create answer has no session_id"},
		"other case":          {202, `{"SESSION_ID":"x"}`, "", "the create answer has no session_id"},
		"not JSON":            {202, `ok`, "", "the create answer is not a JSON object"},
		"too large":           {202, `{"session_id":"s","x":"` + strings.Repeat("a", 64<<10) + `"}`, "", "the answer is too large"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, serve(t, reply(tc.status, tc.body)).URL)
			got, err := client.Submit(t.Context(), SubmitRequest{Identity: testIdentity, Key: testKey})
			if tc.reason != "" {
				wantError(t, err, Error{Op: OpSubmit, Code: runtimeapi.CodeInvalidResponse, Message: tc.reason, HTTPStatus: tc.status})
				return
			}
			if err != nil || got.SessionID != tc.want {
				t.Errorf("Submit = %+v, %v; want session %s", got, err, tc.want)
			}
		})
	}
}

func TestErrorAnswersAreSorted(t *testing.T) {
	t.Parallel()
	both := `{"detail":{"code":"A","message":"a"},"error":{"code":"B","message":"b"}}`
	tests := map[string]struct {
		status int
		body   string
		want   Error
	}{
		"detail before error":        {400, both, Error{Code: "A", Message: "a"}},
		"error without detail":       {400, `{"error":{"code":"B","message":"b"}}`, Error{Code: "B", Message: "b"}},
		"error beside a detail text": {400, `{"detail":"d","error":{"code":"B","message":"b"}}`, Error{Code: "B", Message: "b"}},
		"detail text alone":          {400, `{"detail":"d"}`, Error{Code: "INVALID_ARGUMENT", Message: "d"}},
		"detail list is not shown":   {422, `{"detail":[{"msg":"x"}]}`, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"half a detail":              {409, `{"detail":{"code":"CONFLICT"}}`, Error{Code: "CONFLICT", Message: defaultMessage}},
		"markup":                     {403, `<html>`, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"no body":                    {401, ``, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"a body above the bound":     {400, `{"detail":"` + strings.Repeat("x", 64<<10) + `"}`, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"a long message is cut":      {400, `{"detail":"` + strings.Repeat("x", 600) + `"}`, Error{Code: "INVALID_ARGUMENT", Message: strings.Repeat("x", 500) + cutMark}},
		"credentials are redacted":   {400, `{"detail":{"code":"user-credential-1","message":"key user-credential-1, gate gateway-credential-1"}}`, Error{Code: "INVALID_ARGUMENT", Message: "key [REDACTED], gate [REDACTED]"}},
		"404":                        {404, `{"detail":{"code":"NOT_FOUND","message":"Compile session not found"}}`, Error{Code: "NOT_FOUND", Message: "Compile session not found"}},
		"300":                        {300, ``, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"304":                        {304, ``, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage}},
		"408":                        {408, ``, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage, Transient: true}},
		"425":                        {425, ``, Error{Code: "INVALID_ARGUMENT", Message: defaultMessage, Transient: true}},
		"429":                        {429, `{"detail":{"code":"RESOURCE_EXHAUSTED","message":"full"}}`, Error{Code: "RESOURCE_EXHAUSTED", Message: "full", Transient: true}},
		"500":                        {500, ``, Error{Code: "UNAVAILABLE", Message: defaultMessage, Transient: true}},
		"501":                        {501, ``, Error{Code: "UNAVAILABLE", Message: defaultMessage, Transient: true}},
		"503":                        {503, `{"error":{"code":"MODEL_UNAVAILABLE","message":"m"}}`, Error{Code: "MODEL_UNAVAILABLE", Message: "m", Transient: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, serve(t, reply(tc.status, tc.body)).URL)
			_, err := poll(t, client)
			tc.want.Op, tc.want.HTTPStatus = OpPoll, tc.status
			wantError(t, err, tc.want)
			if IsTransient(err) != tc.want.Transient || IsSessionNotFound(err) != (tc.status == 404) {
				t.Errorf("IsTransient, IsSessionNotFound = %t, %t", IsTransient(err), IsSessionNotFound(err))
			}
			if code, message := CodeOf(fmt.Errorf("wrapped: %w", err)); code != tc.want.Code || message != tc.want.Message {
				t.Errorf("CodeOf = %s, %s", code, message)
			}
		})
	}
}

func TestSubmitNotFoundIsNoLostSession(t *testing.T) {
	t.Parallel()
	client := newClient(t, serve(t, http.NotFound).URL)
	_, err := client.Submit(t.Context(), SubmitRequest{Key: testKey})
	if err == nil || IsSessionNotFound(err) || IsTransient(err) {
		t.Errorf("Submit = %v, want a permanent error that is no lost session", err)
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	tests := map[string]struct {
		value, date string
		want        time.Duration
	}{
		"absent":                         {"", "", 0},
		"seconds":                        {"7", "", 7 * time.Second},
		"zero":                           {"0", "", 0},
		"above the bound":                {"90000", "", time.Hour},
		"above any number":               {strings.Repeat("9", 40), "", time.Hour},
		"negative":                       {"-1", "", 0},
		"a fraction":                     {"1.5", "", 0},
		"garbage":                        {"soon", "", 0},
		"a date":                         {in(time.Minute), "", time.Minute},
		"a date that is over":            {in(-time.Minute), "", 0},
		"a date above the bound":         {in(48 * time.Hour), "", time.Hour},
		"a date by the server's clock":   {in(time.Minute), in(30 * time.Second), 30 * time.Second},
		"a date by another server clock": {in(-10 * time.Hour), in(-10*time.Hour - time.Second), time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			header.Set("Retry-After", tc.value)
			header.Set("Date", tc.date)
			if got := retryAfter(header, func() time.Time { return now }); got != tc.want {
				t.Errorf("retryAfter = %v, want %v", got, tc.want)
			}
		})
	}
	client := newClient(t, serve(t, reply(503, "", "Retry-After", "12")).URL)
	if _, err := poll(t, client); RetryAfter(err) != 12*time.Second {
		t.Errorf("RetryAfter = %v, want 12s", RetryAfter(err))
	}
}

func TestHeldPollReadsTheAnswersHeaders(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wait   time.Duration
		header []string
		want   Observation
	}{
		"a server without held polls": {time.Second, []string{"ETag", `"7"`}, Observation{EndLag: -1}},
		"a server that held":          {time.Second, []string{"ETag", `"7"`, "Preference-Applied", "wait"}, Observation{Held: true, ETag: `"7"`, EndLag: -1}},
		"among other preferences":     {time.Second, []string{"Preference-Applied", "respond-async, Wait=1"}, Observation{Held: true, EndLag: -1}},
		"another preference":          {time.Second, []string{"Preference-Applied", "waiting"}, Observation{EndLag: -1}},
		"a plain poll is never held":  {0, []string{"ETag", `"7"`, "Preference-Applied", "wait"}, Observation{ETag: `"7"`, EndLag: -1}},
		"an ETag above the bound":     {0, []string{"ETag", `"` + strings.Repeat("7", 300) + `"`, "Preference-Applied", "wait"}, Observation{EndLag: -1}},
		"the age of the state":        {0, []string{"Server-Timing", "db;dur=1, state;dur=2.5"}, Observation{EndLag: 2500 * time.Microsecond}},
		"an age in a second header":   {0, []string{"Server-Timing", "db", "Server-Timing", `state;desc=x;dur="3"`}, Observation{EndLag: 3 * time.Millisecond}},
		"a negative age":              {0, []string{"Server-Timing", "state;dur=-1"}, Observation{EndLag: -1}},
		"an age that is no number":    {0, []string{"Server-Timing", "state;dur=NaN"}, Observation{EndLag: -1}},
		"an age without bound":        {0, []string{"Server-Timing", "state;dur=1e300"}, Observation{EndLag: 24 * time.Hour}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, serve(t, reply(200, `{"status":"running","stage":"q"}`, tc.header...)).URL)
			got, err := client.Poll(t.Context(), PollRequest{SessionID: "s", Wait: tc.wait})
			if err != nil {
				t.Fatal(err)
			}
			tc.want.State, tc.want.Stage = StateRunning, "q"
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestETagCountsOnceTheExecutorHasHeldAPoll(t *testing.T) {
	t.Parallel()
	answers := []struct{ applied, want string }{{"", ""}, {"wait", `"7"`}, {"", `"7"`}}
	next := 0
	client := newClient(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"7"`)
		if answers[next].applied != "" {
			w.Header().Set("Preference-Applied", answers[next].applied)
		}
		_, _ = io.WriteString(w, `{"status":"running","stage":"q"}`)
	}).URL)
	for i, answer := range answers {
		next = i
		if got, err := poll(t, client); err != nil || got.ETag != answer.want {
			t.Errorf("answer %d: ETag %s, %v; want %s", i, got.ETag, err, answer.want)
		}
	}
}

func TestHeldPollsLeaveTheWayFreeForCalls(t *testing.T) {
	t.Parallel()
	const held = 3
	arrived, release := make(chan struct{}, held), make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Preference-Applied", "wait")
		if r.Header.Get("Prefer") == "wait=60" {
			arrived <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, `{"status":"running","stage":"q","session_id":"s-1"}`)
	})
	client := newClient(t, server.URL, func(c *HTTPConfig) { c.MaxHeldConns, c.MaxCallConns = held, 1 })
	observations := make([]Observation, held)
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() {
			obs, err := client.Poll(t.Context(), PollRequest{SessionID: "s", Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			observations[i] = obs
		})
	}
	for range held {
		<-arrived
	}
	if _, err := client.Submit(t.Context(), SubmitRequest{Key: testKey}); err != nil {
		t.Errorf("Submit beside held polls: %v", err)
	}
	obs, err := client.Poll(t.Context(), PollRequest{SessionID: "s", Wait: time.Minute})
	if err != nil || obs.Held {
		t.Errorf("Poll above the bound = %+v, %v; want a plain answer", obs, err)
	}
	close(release)
	wg.Wait()
	for i, obs := range observations {
		if !obs.Held {
			t.Errorf("poll %d was not held", i)
		}
	}
	if obs, err := client.Poll(t.Context(), PollRequest{SessionID: "s", Wait: time.Second}); err != nil || !obs.Held {
		t.Errorf("Poll after a slot came free = %+v, %v; want it held", obs, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		handler http.HandlerFunc
		want    Capabilities
		wantErr bool
		gateway bool
	}{
		"a plain executor refuses":        {handler: reply(404, ""), want: Capabilities{}},
		"one with held polls refuses":     {handler: reply(404, "", "Preference-Applied", "wait"), want: Capabilities{HeldPolls: true}},
		"a missing user is an answer":     {handler: reply(401, "", "Preference-Applied", "wait"), want: Capabilities{HeldPolls: true}},
		"too many requests is an answer":  {handler: reply(429, ""), want: Capabilities{}},
		"200 is an answer":                {handler: reply(200, "whatever", "Preference-Applied", "wait"), want: Capabilities{HeldPolls: true}},
		"the gateway wants another token": {handler: reply(403, "", "X-VikingBot-Gateway", "true"), wantErr: true, gateway: true},
		"the gateway wants a token":       {handler: reply(401, "", "X-VikingBot-Gateway", "true"), wantErr: true, gateway: true},
		"a proxy's refusal is none":       {handler: reply(407, ""), wantErr: true},
		"a redirect is none":              {handler: reply(302, "", "Location", "/x"), wantErr: true},
		"a failing server is none":        {handler: reply(503, ""), wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newClient(t, serve(t, tc.handler).URL).Probe(t.Context())
			if got != tc.want || (err != nil) != tc.wantErr || IsGatewayRejected(err) != tc.gateway {
				t.Errorf("Probe = %+v, %v (gateway %t)", got, err, IsGatewayRejected(err))
			}
		})
	}
}

func TestARefusedGatewayTokenMayPassAndIsTold(t *testing.T) {
	t.Parallel()
	calls := map[string]func(c *HTTP) error{
		OpSubmit: func(c *HTTP) error {
			_, err := c.Submit(t.Context(), SubmitRequest{Identity: testIdentity, Key: testKey})
			return err
		},
		OpPoll: func(c *HTTP) error { _, err := poll(t, c); return err },
		OpCancel: func(c *HTTP) error {
			_, err := c.Cancel(t.Context(), CancelRequest{Identity: testIdentity, SessionID: "s"})
			return err
		},
		OpProbe: func(c *HTTP) error { _, err := c.Probe(t.Context()); return err },
	}
	answers := map[string]struct {
		handler http.HandlerFunc
		refused bool
	}{
		"a token that is missing":      {reply(401, "", "X-VikingBot-Gateway", "true"), true},
		"a token that is wrong":        {reply(403, "", "X-VikingBot-Gateway", "true"), true},
		"the user's credential":        {reply(401, ""), false},
		"what the user may not do":     {reply(403, "", "X-VikingBot-Gateway", "false"), false},
		"anything else with that mark": {reply(400, "", "X-VikingBot-Gateway", "true"), false},
	}
	for op, call := range calls {
		for what, answer := range answers {
			t.Run(op+": "+what, func(t *testing.T) {
				t.Parallel()
				var told []string
				err := call(newClient(t, serve(t, answer.handler).URL, func(c *HTTPConfig) {
					c.GatewayToken = StaticToken(testGateway + "\n")
					c.GatewayRefused = func(token string) { told = append(told, token) }
				}))
				var want []string
				if answer.refused {
					want = []string{testGateway}
				}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("refused tokens (-want +got):\n%s", diff)
				}
				if IsGatewayRejected(err) != answer.refused || IsTransient(err) != answer.refused {
					t.Errorf("error = %v: rejected %t, transient %t, want %t", err,
						IsGatewayRejected(err), IsTransient(err), answer.refused)
				}
			})
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"/runtime/v1/tasks/other", "http://[::bad", ""} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			requests := 0
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Location", location)
				w.WriteHeader(status)
			})
			_, err := poll(t, newClient(t, server.URL))
			wantError(t, err, Error{Op: OpPoll, Code: "INVALID_ARGUMENT", Message: defaultMessage, HTTPStatus: status})
			if requests != 1 {
				t.Errorf("%d to %q: %d requests, want 1", status, location, requests)
			}
		}
	}
}

func TestUnreachableExecutor(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	header := reply(200, "", "X-Big", strings.Repeat("x", 128<<10))
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"stage":`)
	}
	tests := map[string]struct {
		url, cause string
		timeout    time.Duration
	}{
		"refused":           {url: "http://" + address, cause: "connection refused"},
		"no answer in time": {url: serve(t, drained(hang)).URL, cause: "no answer within 50ms", timeout: 50 * time.Millisecond},
		"dropped":           {url: serve(t, drop).URL, cause: "the connection closed before the whole answer came"},
		"a huge header":     {url: serve(t, header).URL, cause: "the answer's headers are too large"},
		"dropped half-way":  {url: serve(t, half).URL, cause: "the connection closed before the whole answer came"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, tc.url, func(c *HTTPConfig) {
				if tc.timeout > 0 {
					c.RequestTimeout = tc.timeout
				}
			})
			_, err := poll(t, client)
			wantError(t, err, Error{
				Op: OpPoll, Code: runtimeapi.CodeUnavailable, Transient: true,
				Message: "Failed to reach the compile kernel service: " + tc.cause,
			})
		})
	}
}

// drained reads the body first: only then does the server notice a client that
// went away.
func drained(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		next(w, r)
	}
}

func TestAnErrorAnswerCutOffCountsByItsStatus(t *testing.T) {
	t.Parallel()
	client := newClient(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"user-cred`)
	}).URL)
	_, err := poll(t, client)
	wantError(t, err, Error{Op: OpPoll, Code: "INVALID_ARGUMENT", Message: defaultMessage, HTTPStatus: 403})
}

func TestTheCallersEndedContextIsNoFailureOfTheExecutor(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	server := serve(t, drained(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	client := newClient(t, server.URL)
	cancelled, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	expired, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	tests := []struct {
		name string
		ctx  context.Context
		want error
	}{
		{"cancelled in flight", cancelled, context.Canceled},
		{"cancelled before", cancelled, context.Canceled},
		{"expired", expired, context.DeadlineExceeded},
	}
	for _, tc := range tests {
		_, err := client.Poll(tc.ctx, PollRequest{SessionID: "s", Wait: time.Second})
		if code, _ := CodeOf(err); !errors.Is(err, tc.want) || IsTransient(err) || code != "" {
			t.Errorf("%s: Poll = %v, want %v and no failure of the executor", tc.name, err, tc.want)
		}
	}
}

func TestRequestsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	client := newClient(t, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }).URL)
	ctx := t.Context()
	submit := func(key string, id Identity, payload runtimeapi.CompilePayload) error {
		_, err := client.Submit(ctx, SubmitRequest{Identity: id, Key: key, Payload: payload})
		return err
	}
	tests := map[string]error{
		"no key":             submit("", Identity{}, runtimeapi.CompilePayload{}),
		"a long key":         submit(strings.Repeat("k", 201), Identity{}, runtimeapi.CompilePayload{}),
		"a key with a space": submit("a b", Identity{}, runtimeapi.CompilePayload{}),
		"args of a list":     submit("k", Identity{}, runtimeapi.CompilePayload{Args: json.RawMessage(`["sk-x"]`)}),
		"args of garbage":    submit("k", Identity{}, runtimeapi.CompilePayload{Args: json.RawMessage(`{"a":`)}),
		"a payload too big":  submit("k", Identity{}, runtimeapi.CompilePayload{To: strings.Repeat("a", 1<<20)}),
		"a broken API key":   submit("k", Identity{APIKey: "user-credential-1\nX: y"}, runtimeapi.CompilePayload{}),
	}
	_, tests["no session"] = client.Poll(ctx, PollRequest{})
	_, tests["a session with a line"] = client.Cancel(ctx, CancelRequest{SessionID: "a\nb"})
	for name, err := range tests {
		if code, _ := CodeOf(err); code != runtimeapi.CodeInvalidArgument || IsTransient(err) {
			t.Errorf("%s: %v, want a permanent INVALID_ARGUMENT", name, err)
		}
		if err != nil && strings.Contains(err.Error(), testAPIKey) {
			t.Errorf("%s: %v shows the credential", name, err)
		}
	}
}

func TestGatewayTokenThatCannotBeRead(t *testing.T) {
	t.Parallel()
	cause := errors.New("read Secret operator/gateway: secret gone: sk-abc")
	client := newClient(t, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }).URL,
		func(c *HTTPConfig) {
			c.GatewayToken = func(context.Context) (string, error) { return "", cause }
		})
	_, err := poll(t, client)
	wantError(t, err, Error{Op: OpPoll, Code: "UNAVAILABLE", Transient: true,
		Message: "Failed to reach the compile kernel service: the runtime's gateway token can't be read"})
	if !errors.Is(err, cause) {
		t.Errorf("%v does not unwrap to its cause", err)
	}
}

func TestGatewayTokenThatIsReadTooSlowly(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	client := newClient(t, "http://127.0.0.1:1", func(c *HTTPConfig) {
		c.GatewayToken, c.RequestTimeout = slow, time.Millisecond
	})
	_, err := poll(t, client)
	wantError(t, err, Error{Op: OpPoll, Code: "UNAVAILABLE", Transient: true,
		Message: "Failed to reach the compile kernel service: the runtime's gateway token can't be read"})
	ctx, cancel := context.WithCancel(t.Context())
	client = newClient(t, "http://127.0.0.1:1", func(c *HTTPConfig) {
		c.GatewayToken = func(ctx context.Context) (string, error) {
			cancel()
			return slow(ctx)
		}
	})
	if _, err := client.Probe(ctx); !errors.Is(err, context.Canceled) || IsTransient(err) {
		t.Errorf("Probe = %v, want the caller's own end", err)
	}
}

func TestNewHTTPChecksItsConfiguration(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg     HTTPConfig
		want    string
		wantErr string
	}{
		"a plain URL":          {cfg: HTTPConfig{BaseURL: "http://runtime:8080"}, want: "http://runtime:8080"},
		"slashes go":           {cfg: HTTPConfig{BaseURL: "https://runtime//"}, want: "https://runtime"},
		"a prefix stays":       {cfg: HTTPConfig{BaseURL: "https://runtime/a%20b/"}, want: "https://runtime/a%20b"},
		"an IPv6 host":         {cfg: HTTPConfig{BaseURL: "http://[::1]:80"}, want: "http://[::1]:80"},
		"no scheme":            {cfg: HTTPConfig{BaseURL: "runtime:8080"}, wantErr: "executor base URL: scheme must be http or https"},
		"another scheme":       {cfg: HTTPConfig{BaseURL: "ftp://runtime"}, wantErr: "executor base URL: scheme must be http or https"},
		"no host":              {cfg: HTTPConfig{BaseURL: "http://:8080"}, wantErr: "executor base URL: host is missing"},
		"userinfo":             {cfg: HTTPConfig{BaseURL: "http://u:hunter22@runtime"}, wantErr: "executor base URL: userinfo is not allowed"},
		"a query":              {cfg: HTTPConfig{BaseURL: "http://runtime?a=1"}, wantErr: "executor base URL: query is not allowed"},
		"an empty query":       {cfg: HTTPConfig{BaseURL: "http://runtime?"}, wantErr: "executor base URL: query is not allowed"},
		"a fragment":           {cfg: HTTPConfig{BaseURL: "http://runtime#"}, wantErr: "executor base URL: fragment is not allowed"},
		"garbage":              {cfg: HTTPConfig{BaseURL: "http://u:hunter22@ru ntime"}, wantErr: "executor base URL: not a URL"},
		"a long URL":           {cfg: HTTPConfig{BaseURL: "http://" + strings.Repeat("a", 2048)}, wantErr: "executor base URL: longer than 2048 bytes"},
		"a bundle without one": {cfg: HTTPConfig{BaseURL: "https://r", CABundle: []byte("x")}, wantErr: "executor CA bundle: no PEM certificate found"},
		"a negative limit":     {cfg: HTTPConfig{BaseURL: "https://r", MaxHeldConns: -1}, wantErr: "executor limits: must not be negative"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := NewHTTP(tc.cfg)
			switch {
			case tc.wantErr != "":
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("NewHTTP = %v, want %s", err, tc.wantErr)
				}
			case err != nil:
				t.Errorf("NewHTTP = %v", err)
			case client.base != tc.want:
				t.Errorf("base = %s, want %s", client.base, tc.want)
			}
		})
	}
}

func TestTLSTrustsTheBundleOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(reply(200, `{"status":"running","stage":"q"}`))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	bundle := pemOf(server.Certificate().Raw)
	if _, err := poll(t, newClient(t, server.URL, func(c *HTTPConfig) { c.CABundle = bundle })); err != nil {
		t.Errorf("Poll with the bundle: %v", err)
	}
	if _, err := poll(t, newClient(t, server.URL)); !IsTransient(err) {
		t.Errorf("Poll without the bundle = %v, want an unreachable executor", err)
	}
}

func TestCloseEndsConnectionsAndNoCall(t *testing.T) {
	t.Parallel()
	open := make(chan net.Conn, 8)
	closed := make(chan net.Conn, 8)
	arrived, leave := make(chan struct{}, 8), make(chan struct{}, 8)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-leave
		_, _ = io.WriteString(w, `{"status":"running","stage":"q"}`)
	}))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open <- conn
		case http.StateClosed:
			closed <- conn
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := newClient(t, server.URL)
	outcome := make(chan error, 1)
	begin := func() {
		go func() {
			_, err := poll(t, client)
			outcome <- err
		}()
		<-arrived
	}
	end := func(what string) {
		t.Helper()
		leave <- struct{}{}
		if err := <-outcome; err != nil {
			t.Errorf("a call %s: %v", what, err)
		}
	}
	begin()
	end("before Close")
	begin()
	client.Close()
	if len(open) != 1 || len(closed) != 0 {
		t.Fatalf("%d connections opened and %d closed under a call, want 1 and 0", len(open), len(closed))
	}
	end("under way at Close")
	if used, ended := <-open, <-closed; used != ended {
		t.Error("another connection than the call's was closed")
	}
	begin()
	client.Close()
	end("after Close")
	if used, ended := <-open, <-closed; used != ended {
		t.Error("another connection than the later call's was closed")
	}
}

func TestIdentityNeverShowsItsKey(t *testing.T) {
	t.Parallel()
	req := SubmitRequest{Identity: testIdentity, Key: testKey}
	encoded, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("Submit", "identity", testIdentity, "request", req)
	shown := map[string]string{
		"v": fmt.Sprintf("%v", req), "+v": fmt.Sprintf("%+v", req), "#v": fmt.Sprintf("%#v", req),
		"s": testIdentity.String(), "JSON": string(encoded), "log": logged.String(),
	}
	for form, text := range shown {
		if strings.Contains(text, testAPIKey) || strings.Contains(text, testSecret) || !strings.Contains(text, redacted) {
			t.Errorf("%s shows %s", form, text)
		}
	}
	if text := (Identity{}).String(); strings.Contains(text, redacted) {
		t.Errorf("an identity without a key shows %s", text)
	}
}

// A secret that is only cut off by the bound of a text must not show in part.
func TestFurtherSecretsShowInNothingThatIsSaid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 490) + testSecret
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status") {
			fmt.Fprintf(w, `{"status":"failed","stage":%q,"error":{"code":"X","message":%q}}`, "at "+testSecret, long)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"detail":{"code":"X","message":%q}}`, long)
	}))
	t.Cleanup(server.Close)
	client, err := NewHTTP(HTTPConfig{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	observed, err := client.Poll(t.Context(), PollRequest{Identity: testIdentity, SessionID: "s-1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Cancel(t.Context(), CancelRequest{Identity: testIdentity, SessionID: "s-1"})
	for what, text := range map[string]string{"stage": observed.Stage, "message": observed.Error.Message, "error": fmt.Sprint(err)} {
		if strings.Contains(text, testSecret[:5]) || !strings.Contains(text, redacted[:5]) {
			t.Errorf("the %s is %s", what, text)
		}
	}
}

// TestProxyEnvironment runs itself in a process of its own, since net/http reads
// the environment once.
func TestProxyEnvironment(t *testing.T) {
	if target := os.Getenv("EXECUTOR_TEST_TARGET"); target != "" {
		_, err := poll(t, newClient(t, target))
		fmt.Printf("outcome: %v\n", err)
		return
	}
	t.Parallel()
	proxied := make(chan string, 4)
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		proxied <- r.URL.String()
		w.WriteHeader(http.StatusTeapot)
	})
	local := serve(t, reply(200, `{"status":"running","stage":"q"}`))
	run := func(target string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyEnvironment$")
		cmd.Env = append(os.Environ(), "EXECUTOR_TEST_TARGET="+target, "HTTP_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := run(local.URL); !strings.Contains(out, "outcome: <nil>") {
		t.Errorf("a loopback executor was not called directly:\n%s", out)
	}
	if len(proxied) != 0 {
		t.Errorf("the proxy saw %s", <-proxied)
	}
	run("http://executor.invalid")
	if len(proxied) != 1 {
		t.Fatalf("the proxy saw %d requests for a remote executor, want 1", len(proxied))
	}
	if got := <-proxied; got != "http://executor.invalid/runtime/v1/tasks/status" {
		t.Errorf("the proxy saw %s", got)
	}
}
