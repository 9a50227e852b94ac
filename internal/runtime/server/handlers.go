package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// handleCreate is POST /runtime/v1/tasks (E.1.1).
func (s *Server) handleCreate(w http.ResponseWriter, r *http.Request) {
	req, err := s.readCreate(w, r)
	var got created
	if err == nil {
		got, err = s.manager.create(r.Context(), req)
	}
	s.manager.metrics.countCreate(got.replayed, err)
	if err != nil {
		writeError(w, err)
		return
	}
	message := "Session created"
	if got.replayed {
		message = "Create was replayed"
	}
	s.manager.log.Info(message, "session", got.id, "owner", req.who.scope, "logID", req.logID)
	body, err := json.Marshal(runtimeapi.CreateResponse{
		SessionID: got.id, TaskID: req.key, Status: "accepted", To: got.to,
	})
	if err != nil {
		writeError(w, err)
		return
	}
	writeBody(w, http.StatusAccepted, body)
}

func (s *Server) readCreate(w http.ResponseWriter, r *http.Request) (createRequest, error) {
	who, err := s.identity.identify(r)
	if err != nil {
		return createRequest{}, err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return createRequest{}, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return createRequest{}, err
	}
	payload, err := decodeCreate(body)
	return createRequest{who: who, key: key, logID: logIDOf(r), payload: payload}, err
}

// idempotencyKey reads the key: visible ASCII, at most runtimeapi.MaxKeyBytes,
// given once.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(runtimeapi.HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	ok := len(values) == 1 && key != "" && len(key) <= runtimeapi.MaxKeyBytes
	for _, c := range []byte(key) {
		ok = ok && c > ' ' && c < 0x7f
	}
	if !ok {
		return "", refuse(runtimeapi.CodeInvalidArgument, fmt.Sprintf(
			"%s must be given once, as 1 to %d visible ASCII characters.",
			runtimeapi.HeaderIdempotencyKey, runtimeapi.MaxKeyBytes))
	}
	return key, nil
}

// readSession finds who asks about which session.
func (s *Server) readSession(w http.ResponseWriter, r *http.Request) (id string, who principal, err error) {
	if who, err = s.identity.identify(r); err != nil {
		return "", who, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return "", who, err
	}
	id, err = decodeSession(body)
	return id, who, err
}

// handleStatus is POST /runtime/v1/tasks/status (E.1.2), held when the client
// prefers that (package runtimeapi).
func (s *Server) handleStatus(w http.ResponseWriter, r *http.Request) {
	id, who, err := s.readSession(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	wait := preferredWait(r.Header)
	if wait > 0 {
		allowHold(w, wait)
	}
	rec, applied, err := s.manager.status(r.Context(), id, who.scope, awaited{
		wait: wait, known: knownState(ifNoneMatch(r.Header)),
	})
	if !applied {
		w.Header().Del(runtimeapi.HeaderPreferenceApplied)
	}
	s.answer(w, rec, err)
}

// knownState is what an If-None-Match says; nil when there is none.
func knownState(tags etags) func(session.Record) bool {
	if len(tags) == 0 {
		return nil
	}
	return func(rec session.Record) bool {
		body, err := encodeState(rec)
		return err == nil && tags.match(etagOf(body))
	}
}

// allowHold moves the connection's deadlines out of a held poll's way. The read
// deadline must go: the server watches the connection while it waits, to notice
// a client that left. An error means that there are no deadlines to move.
func allowHold(w http.ResponseWriter, wait time.Duration) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Now().Add(wait + bodyTimeout))
}

// handleCancel is POST /runtime/v1/tasks/cancel (E.1.2).
func (s *Server) handleCancel(w http.ResponseWriter, r *http.Request) {
	id, who, err := s.readSession(w, r)
	var rec session.Record
	if err == nil {
		rec, err = s.manager.cancel(r.Context(), id, who.scope)
	}
	s.answer(w, rec, err)
}

// answer writes a session's state, with its ETag and its age.
func (s *Server) answer(w http.ResponseWriter, rec session.Record, err error) {
	var body []byte
	if err == nil {
		body, err = encodeState(rec)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	age := max(time.Since(rec.Changed), 0)
	w.Header().Set("ETag", etagOf(body))
	w.Header().Set(runtimeapi.HeaderServerTiming, fmt.Sprintf("%s;dur=%.3f",
		runtimeapi.ServerTimingState, float64(age)/float64(time.Millisecond)))
	writeBody(w, http.StatusOK, body)
}

// encodeState is a session's state as the protocol tells it.
func encodeState(rec session.Record) ([]byte, error) {
	meta := rec.Meta
	if len(meta) == 0 {
		meta = json.RawMessage("{}")
	}
	body, err := json.Marshal(runtimeapi.TaskStatus{
		Status: rec.Status,
		Stage:  wireStage(rec),
		Error:  rec.Error,
		Meta:   meta,
		Result: rec.Result,
	})
	if err != nil {
		return nil, fmt.Errorf("encode session state: %w", err)
	}
	return body, nil
}
