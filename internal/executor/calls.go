package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/outbound"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// probeSession is a session no executor has; asking for it costs nothing.
const probeSession = "probe"

// call is one request of the protocol.
type call struct {
	op       string
	path     string
	identity Identity
	key      string
	body     []byte
	// wait is the value of Prefer: wait in seconds; -1 sends no preference.
	wait   int
	etag   string
	held   bool
	budget time.Duration
	limit  int
}

// Submit creates the task under its key (E.1.1).
func (h *HTTP) Submit(ctx context.Context, req SubmitRequest) (Submission, error) {
	if !visible(req.Key, runtimeapi.MaxKeyBytes) {
		return Submission{}, refused(OpSubmit, "key must be 1 to 200 visible ASCII characters")
	}
	body, err := encodeCreate(req.Payload)
	if err != nil {
		return Submission{}, refused(OpSubmit, err.Error())
	}
	ans, err := h.do(ctx, call{
		op: OpSubmit, path: runtimeapi.PathTasks, identity: req.Identity, key: req.Key,
		body: body, wait: -1, budget: h.timeout, limit: maxCreateBody,
	})
	if err != nil {
		return Submission{}, err
	}
	return ans.submission()
}

// Poll reads the state of a session (E.1.2).
func (h *HTTP) Poll(ctx context.Context, req PollRequest) (Observation, error) {
	c, err := h.sessionCall(OpPoll, runtimeapi.PathStatus, req.Identity, req.SessionID)
	if err != nil {
		return Observation{}, err
	}
	if req.Wait > 0 && h.acquireSlot() {
		defer h.releaseSlot()
		c.held = true
		c.wait = waitSeconds(req.Wait)
		c.etag = req.ETag
		c.budget += time.Duration(c.wait) * time.Second
	}
	return h.observe(ctx, c)
}

// Cancel asks for the end of a session (E.1.2).
func (h *HTTP) Cancel(ctx context.Context, req CancelRequest) (Observation, error) {
	c, err := h.sessionCall(OpCancel, runtimeapi.PathCancel, req.Identity, req.SessionID)
	if err != nil {
		return Observation{}, err
	}
	return h.observe(ctx, c)
}

// Probe asks for a session that does not exist, without a user's credential. Any
// answer of the executor, a refusal too, shows that it is there; only a refused
// gateway token, a redirect, a 5xx or silence is an error.
func (h *HTTP) Probe(ctx context.Context) (Capabilities, error) {
	c, err := h.sessionCall(OpProbe, runtimeapi.PathStatus, Identity{}, probeSession)
	if err != nil {
		return Capabilities{}, err
	}
	c.wait = 0
	ans, err := h.do(ctx, c)
	if err != nil && !probeAnswered(err) {
		return Capabilities{}, err
	}
	return Capabilities{HeldPolls: ans.prefers}, nil
}

// probeAnswered reports whether err is an executor's refusal of the probe.
func probeAnswered(err error) bool {
	e, ok := errors.AsType[*Error](err)
	// 407 is the answer of a proxy on the way.
	return ok && !e.gatewayRejected && e.HTTPStatus/100 == 4 && e.HTTPStatus != http.StatusProxyAuthRequired
}

func (h *HTTP) sessionCall(op, path string, id Identity, session string) (call, error) {
	if !visible(session, maxSessionID) {
		return call{}, refused(op, "session id must be 1 to 512 visible ASCII characters")
	}
	body, err := json.Marshal(runtimeapi.SessionRequest{SessionID: session})
	if err != nil {
		return call{}, refused(op, "session id cannot be encoded")
	}
	return call{
		op: op, path: path, identity: id, body: body,
		wait: -1, budget: h.timeout, limit: maxStatusBody,
	}, nil
}

func (h *HTTP) observe(ctx context.Context, c call) (Observation, error) {
	ans, err := h.do(ctx, c)
	if err != nil {
		return Observation{}, err
	}
	return ans.observation()
}

func (h *HTTP) acquireSlot() bool {
	select {
	case h.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (h *HTTP) releaseSlot() { <-h.slots }

// waitSeconds rounds up, so that a positive wait never becomes none.
func waitSeconds(d time.Duration) int {
	d = min(d, runtimeapi.MaxWaitSeconds*time.Second)
	return int((d + time.Second - 1) / time.Second)
}

// do sends one request once and reads its whole answer. The answer is filled as
// far as it came, beside an error too.
func (h *HTTP) do(ctx context.Context, c call) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, fmt.Errorf("%s: %w", c.op, err)
	}
	defer func() {
		if h.closed.Load() {
			// The connection went back to a pool that Close had emptied already.
			h.closeIdle()
		}
	}()
	callCtx, cancel := context.WithTimeout(ctx, c.budget)
	defer cancel()
	token, err := h.token(callCtx)
	if err != nil {
		return answer{}, unsent(ctx, c.op, err)
	}
	token = strings.TrimSpace(token)
	req, err := h.request(callCtx, c, token)
	if err != nil {
		return answer{}, err
	}
	pool := h.calls
	if c.held {
		pool = h.held
	}
	resp, err := pool.RoundTrip(req)
	if err != nil {
		return answer{}, h.failure(ctx, callCtx, c, err)
	}
	ans, err := readAnswer(c, token, resp)
	if ans.prefers {
		h.holds.Store(true)
	}
	if !h.holds.Load() {
		// A server that does not know the preference may mean something else by
		// its ETag, and would refuse a POST with If-None-Match (RFC 9110, 13.1.2).
		ans.etag = ""
	}
	if ans.gatewayRejected {
		h.refused(token)
	}
	if err != nil {
		return ans, h.failure(ctx, callCtx, c, err)
	}
	return ans, ans.failure()
}

// request builds the request with the headers of E.2.2.
func (h *HTTP) request(ctx context.Context, c call, token string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, refused(c.op, "request cannot be built")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	headers := []struct{ name, value string }{
		{runtimeapi.HeaderAPIKey, strings.TrimSpace(c.identity.APIKey)},
		{runtimeapi.HeaderGatewayToken, token},
		{runtimeapi.HeaderIdempotencyKey, c.key},
		{runtimeapi.HeaderLogID, c.identity.LogID},
		{runtimeapi.HeaderTraceParent, c.identity.TraceParent},
		{runtimeapi.HeaderAccount, c.identity.Account},
		{runtimeapi.HeaderUser, c.identity.User},
		{"If-None-Match", c.etag},
	}
	for _, header := range headers {
		if header.value == "" {
			continue
		}
		if !headerValue(header.value) {
			return nil, refused(c.op, header.name+" holds a character that no header can carry")
		}
		req.Header.Set(header.name, header.value)
	}
	if c.wait >= 0 {
		req.Header.Set(runtimeapi.HeaderPrefer, "wait="+strconv.Itoa(c.wait))
	}
	if c.key != "" {
		// net/http takes a request with an Idempotency-Key for one it may send a
		// second time by itself after a reused connection died. Without GetBody it
		// cannot, and every create on the wire is one the caller asked for.
		req.GetBody = nil
	}
	return req, nil
}

// encodeCreate returns the body of a create; args that are empty are left out.
func encodeCreate(payload runtimeapi.CompilePayload) ([]byte, error) {
	if len(payload.Args) > 0 {
		var args map[string]json.RawMessage
		if err := json.Unmarshal(payload.Args, &args); err != nil {
			return nil, errors.New("args must be a JSON object")
		}
		if len(args) == 0 {
			payload.Args = nil
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(runtimeapi.CreateRequest{TaskType: runtimeapi.TaskTypeCompile, Payload: payload}); err != nil {
		return nil, errors.New("payload cannot be encoded")
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if len(body) > runtimeapi.MaxRequestBytes {
		return nil, fmt.Errorf("payload is larger than %d bytes", runtimeapi.MaxRequestBytes)
	}
	return body, nil
}

// visible reports whether s has 1 to limit bytes, all visible ASCII.
func visible(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// headerValue reports whether s can stand in a header as it is.
func headerValue(s string) bool {
	if len(s) > maxHeaderValue {
		return false
	}
	for i := range len(s) {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// unsent returns the error of a call whose gateway token could not be had. Its
// text, which a task's user reads, says nothing of how the operator keeps the
// token; the caller finds that by unwrapping.
func unsent(ctx context.Context, op string, cause error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%s: %w", op, ctxErr)
	}
	return &Error{
		Op: op, Code: runtimeapi.CodeUnavailable, Transient: true,
		Message: unreachableMessage + "the runtime's gateway token can't be read",
		cause:   cause,
	}
}

// failure turns what stopped a call into what its caller acts on: the caller's
// own ended context, or an executor that did not answer. The time that a held poll
// asked to be held is left out of what is said of it.
func (h *HTTP) failure(ctx, callCtx context.Context, c call, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%s: %w", c.op, ctxErr)
	}
	if callCtx.Err() != nil {
		return unreachable(c.op, "no answer within "+h.timeout.String())
	}
	return unreachable(c.op, outbound.Cause(err))
}
