package fakeruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// PathReport answers GET with the Report as JSON; "?totals=1" leaves the lists of
// keys and tasks out.
const PathReport = "/debug/report"

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+runtimeapi.PathTasks, s.route(OpCreate, s.create))
	mux.HandleFunc("POST "+runtimeapi.PathStatus, s.route(OpStatus, s.status))
	mux.HandleFunc("POST "+runtimeapi.PathCancel, s.route(OpCancel, s.cancel))
	mux.HandleFunc("GET "+PathReport, s.report)
	return mux
}

// request is one call after its body was read.
type request struct {
	*http.Request
	body []byte
	user string
}

// abort ends the connection without an answer.
func abort() { panic(http.ErrAbortHandler) }

// route counts a call, applies the server's faults, reads the body, and lets only
// callers with credentials through.
func (s *Server) route(op Op, next func(http.ResponseWriter, request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fault := s.arrive(op, r)
		if fault != nil {
			s.calls.record(s, op, r, nil)
			if s.misbehave(w, r, fault) {
				return
			}
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, runtimeapi.MaxRequestBytes))
		if err != nil {
			refuse(w, http.StatusBadRequest, runtimeapi.CodeInvalidArgument, "the body cannot be read")
			return
		}
		if fault == nil {
			s.calls.record(s, op, r, body)
		}
		if s.pause(r.Context(), s.opts.Latency, nil) != nil {
			abort()
		}
		if op == OpStatus && s.holdsPolls() {
			w.Header().Set(runtimeapi.HeaderPreferenceApplied, "wait")
		}
		if s.authorized(w, r) {
			next(w, request{Request: r, body: body, user: s.opts.UserOf(r.Header)})
		}
	}
}

func (s *Server) arrive(op Op, r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op == OpCreate {
		s.ledger.posted(r.Header.Get(runtimeapi.HeaderIdempotencyKey))
	}
	return s.faults.due(op)
}

func (s *Server) holdsPolls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// misbehave applies a fault and reports whether that was the answer.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, f *Fault) bool {
	if s.pause(r.Context(), f.Latency, f.Hold) != nil || f.Drop {
		abort()
	}
	if f.Respond == nil {
		return false
	}
	s.respond(w, r, *f.Respond)
	return true
}

// perform has a call's effect and answers it, each unless a fault says otherwise.
func (s *Server) perform(w http.ResponseWriter, r *http.Request, f *Fault, effect, answer func()) {
	if f == nil {
		effect()
		answer()
		return
	}
	if f.Commit {
		effect()
	}
	if s.misbehave(w, r, f) {
		return
	}
	if !f.Commit {
		effect()
	}
	answer()
}

func (s *Server) authorized(w http.ResponseWriter, r *http.Request) bool {
	if want := s.opts.GatewayToken; want != "" {
		got := r.Header.Get(runtimeapi.HeaderGatewayToken)
		if got != want {
			w.Header().Set(runtimeapi.HeaderGatewayChallenge, "true")
			if got == "" {
				refuse(w, http.StatusUnauthorized, runtimeapi.CodeUnauthenticated, "gateway token required")
			} else {
				refuse(w, http.StatusForbidden, runtimeapi.CodePermissionDenied, "gateway token rejected")
			}
			return false
		}
	}
	if s.opts.RequireAPIKey && r.Header.Get(runtimeapi.HeaderAPIKey) == "" {
		refuse(w, http.StatusUnauthorized, runtimeapi.CodeUnauthenticated, "API key required")
		return false
	}
	return true
}

func (s *Server) create(w http.ResponseWriter, r request) {
	var body runtimeapi.CreateRequest
	if err := json.Unmarshal(r.body, &body); err != nil || body.TaskType != runtimeapi.TaskTypeCompile ||
		body.Payload.To == "" || body.Payload.Skill == "" || len(body.Payload.From) == 0 {
		refuse(w, http.StatusUnprocessableEntity, runtimeapi.CodeInvalidArgument, "the create request is invalid")
		return
	}
	key := r.Header.Get(runtimeapi.HeaderIdempotencyKey)
	t := s.claim(Create{Key: key, User: r.user, Header: r.Header, Payload: body.Payload})
	var session string
	var lose bool
	s.perform(w, r.Request, s.taskFault(t, OpCreate),
		func() { session, lose = s.commit(t) },
		func() {
			if lose {
				abort()
			}
			writeJSON(w, http.StatusAccepted, runtimeapi.CreateResponse{
				SessionID: session, TaskID: key, Status: "accepted", To: t.to,
			})
		})
}

func (s *Server) status(w http.ResponseWriter, r request) {
	t := s.find(w, r)
	if t == nil {
		return
	}
	s.perform(w, r.Request, s.taskFault(t, OpStatus), func() {}, func() { s.answerStatus(w, r, t) })
}

func (s *Server) cancel(w http.ResponseWriter, r request) {
	t := s.find(w, r)
	if t == nil {
		return
	}
	var status runtimeapi.TaskStatus
	s.perform(w, r.Request, s.taskFault(t, OpCancel),
		func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			now := time.Now()
			t.advance(now)
			t.cancel(now)
			status = t.wire()
		},
		func() { writeJSON(w, http.StatusOK, status) })
}

func (s *Server) taskFault(t *task, op Op) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.faults.due(op)
}

// find returns the caller's session; another user's answers as an unknown one.
func (s *Server) find(w http.ResponseWriter, r request) *task {
	var body runtimeapi.SessionRequest
	if json.Unmarshal(r.body, &body) != nil || body.SessionID == "" {
		refuse(w, http.StatusUnprocessableEntity, runtimeapi.CodeInvalidArgument, "session_id is missing")
		return nil
	}
	s.mu.Lock()
	t := s.sessions[body.SessionID]
	s.mu.Unlock()
	if t == nil || t.user != r.user {
		notFound(w)
		return nil
	}
	return t
}

func notFound(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, runtimeapi.CodeNotFound, "Compile session not found")
}

// snapshot is a status answer.
type snapshot struct {
	status runtimeapi.TaskStatus
	etag   string
	lasted time.Duration
	// applied reports that the answer is held or need not be.
	applied bool
	lost    bool
}

// answerStatus answers a status call, held as far as it asks to be.
func (s *Server) answerStatus(w http.ResponseWriter, r request, t *task) {
	snap, err := s.await(r, t)
	switch {
	case err != nil:
		abort()
	case snap.lost:
		notFound(w)
		return
	}
	header := w.Header()
	header.Del(runtimeapi.HeaderPreferenceApplied)
	if snap.applied {
		header.Set(runtimeapi.HeaderPreferenceApplied, "wait")
	}
	header.Set("ETag", snap.etag)
	header.Set("Server-Timing", fmt.Sprintf("state;dur=%.3f", float64(snap.lasted)/float64(time.Millisecond)))
	writeJSON(w, http.StatusOK, snap.status)
}

// await returns the state to answer with, once there is one.
func (s *Server) await(r request, t *task) (snapshot, error) {
	wait := preferredWait(r.Header)
	known := r.Header.Get("If-None-Match")
	deadline := time.Now().Add(wait)
	for {
		s.mu.Lock()
		now := time.Now()
		t.advance(now)
		counted := t.polled(now)
		done := !s.held || counted || t.status.Status.Terminal() || (known != "" && known != t.etag()) ||
			!now.Before(deadline)
		if done || s.sessions[t.session] != t {
			snap := snapshot{
				status: t.wire(), etag: t.etag(), lasted: now.Sub(t.since),
				applied: s.held && (!counted || wait == 0), lost: s.sessions[t.session] != t,
			}
			s.mu.Unlock()
			return snap, nil
		}
		changed, closing, until := t.watch(), s.closing, deadline
		if next, ok := t.due(); ok && next.Before(until) {
			until = next
		}
		s.mu.Unlock()
		if err := sleepUntil(r, until, changed, closing); err != nil {
			return snapshot{}, err
		}
	}
}

func sleepUntil(r request, until time.Time, changed, closing <-chan struct{}) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-changed:
		return nil
	case <-closing:
		return http.ErrServerClosed
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// preferredWait reads Prefer: wait, within the protocol's bound.
func preferredWait(h http.Header) time.Duration {
	for preference := range strings.SplitSeq(strings.Join(h.Values(runtimeapi.HeaderPrefer), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "wait") {
			return time.Duration(max(0, min(seconds, runtimeapi.MaxWaitSeconds))) * time.Second
		}
	}
	return 0
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	report := s.Report()
	if r.URL.Query().Get("totals") != "" {
		report.Keys, report.Tasks = nil, nil
	}
	writeJSON(w, http.StatusOK, report)
}

// respond writes an answer out of the protocol's order.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, resp Response) {
	for name, values := range resp.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(resp.Status)
	if _, err := w.Write(resp.Body); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		return
	}
	chunk := bytes.Repeat([]byte("x"), 32<<10)
	for left := resp.Fill; left > 0; left -= int64(len(chunk)) {
		if _, err := w.Write(chunk[:min(left, int64(len(chunk)))]); err != nil {
			return
		}
	}
	if resp.Drip {
		_ = http.NewResponseController(w).Flush()
		_ = s.pause(r.Context(), 0, make(chan struct{}))
		abort()
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	failure := runtimeapi.Error{Code: code, Message: message}
	writeJSON(w, status, runtimeapi.ErrorResponse{Detail: failure, Err: failure})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		// A script with a result that is no JSON; the client is to see that.
		body = []byte(err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
