package compileapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	eventTask  = "task"
	eventEnd   = "end"
	eventError = "error"

	// maxUnchecked is how many checks of a stream's reader may fail for want of an
	// answer before the stream ends: with the caches behind them, and at the default
	// period, that stays within 20 s.
	maxUnchecked = 2
)

// events answers GET /api/v1/tasks/{task_id}/events: every change of the record as a
// server-sent event until the task has ended. A client that comes back with
// Last-Event-ID is sent what is newer.
func (a *API) events(w http.ResponseWriter, r *http.Request) error {
	ctx, info, id := r.Context(), httpapi.InfoOf(r.Context()), r.PathValue(pathTaskID)
	task, err := a.find(ctx, info, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := a.tasks.Watch(ctx, task)
	if err != nil {
		return storeError("watch the task", err)
	}
	s := stream{api: a, info: info, id: id, out: newEventWriter(w, a.limits.EventWrite), seen: r.Header.Get("Last-Event-ID")}
	if s.out.open() != nil {
		return nil // the reader has gone
	}
	if ended := s.send(ctx, task); ended {
		return nil
	}
	s.run(ctx, changes)
	return nil
}

// stream is one reader of one task's changes.
type stream struct {
	api  *API
	info *httpapi.Info
	id   string
	out  *eventWriter
	// task is the newest state, seen its version as the reader has it, last the
	// record that was sent.
	task      *v1alpha1.CompileTask
	seen      string
	last      []byte
	unchecked int
}

// run sends changes until the task ends, the reader goes or loses the right, or the
// server drains. In the last case nothing is said: the reader comes back, to
// another server.
func (s *stream) run(ctx context.Context, changes <-chan *v1alpha1.CompileTask) {
	heartbeat := time.NewTicker(s.api.limits.Heartbeat)
	defer heartbeat.Stop()
	recheck := time.NewTicker(s.api.limits.Recheck)
	defer recheck.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			return
		case <-s.info.Draining:
			return
		case state, open := <-changes:
			ended = !open
			if open {
				ended = s.send(ctx, state)
			} else if err := gone(ctx, s.id); ctx.Err() == nil {
				s.fail(err)
			}
		case <-heartbeat.C:
			ended = s.out.comment("heartbeat") != nil
		case <-recheck.C:
			ended = s.recheck(ctx)
		}
	}
}

// send shows a state, unless the reader has it, and reports whether the stream ends
// with it.
func (s *stream) send(ctx context.Context, task *v1alpha1.CompileTask) (ended bool) {
	s.task = task
	if newer(task.ResourceVersion, s.seen) {
		fields, err := s.api.record(ctx, task)
		if err != nil {
			return s.fail(err)
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return s.fail(err)
		}
		s.seen = task.ResourceVersion
		if !bytes.Equal(body, s.last) {
			s.last = body
			if s.out.event(eventTask, task.ResourceVersion, body) != nil {
				return true
			}
		}
	}
	if !task.Terminal() {
		return false
	}
	_ = s.out.event(eventEnd, task.ResourceVersion, []byte("{}"))
	return true
}

// recheck ends the stream of a reader who may not read on. That nobody can say is
// borne for a while, and so is an API server that hangs, for no longer than one that
// fails at once.
func (s *stream) recheck(ctx context.Context) (ended bool) {
	asking, cancel := context.WithTimeout(ctx, s.api.limits.Recheck)
	defer cancel()
	err := s.api.recheck(asking, s.info, s.id, s.task)
	if err == nil {
		s.unchecked = 0
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	if wire.AsError(err).Code == wire.CodeUnavailable {
		if s.unchecked++; s.unchecked <= maxUnchecked {
			return false
		}
	}
	return s.fail(err)
}

// fail tells the reader why the stream ends, and that it does.
func (s *stream) fail(err error) (ended bool) {
	answer := wire.AsError(err)
	// A map of texts always encodes.
	body, _ := json.Marshal(map[string]string{"code": string(answer.Code), "message": answer.Message})
	_ = s.out.event(eventError, "", body)
	return true
}

// newer compares two resource versions. One that is no number is no version of ours.
func newer(version, seen string) bool {
	has, err := strconv.ParseUint(seen, 10, 64)
	if err != nil {
		return version != seen || seen == ""
	}
	is, err := strconv.ParseUint(version, 10, 64)
	return err != nil || is > has
}

// eventWriter writes server-sent events, each within its time: a reader that does not
// keep up is cut off.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
}

func newEventWriter(w http.ResponseWriter, within time.Duration) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), within: within}
}

// open sends the header, so that the reader knows at once that it is heard.
func (e *eventWriter) open() error {
	header := e.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	// Proxies that buffer would hold events back.
	header.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	return e.comment("open")
}

func (e *eventWriter) comment(text string) error { return e.write(": " + text + "\n\n") }

// event writes one event. JSON as Go encodes it has no line breaks.
func (e *eventWriter) event(name, id string, data []byte) error {
	text := "event: " + name + "\n"
	if id != "" {
		text += "id: " + id + "\n"
	}
	return e.write(text + "data: " + string(data) + "\n\n")
}

// write leaves its bound on the connection, for the end of the answer, which net/http
// writes after the handler. The next request on it sets its own.
func (e *eventWriter) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(e.within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bound the writing of an event: %w", err)
	}
	//nolint:gosec // it is JSON as text/event-stream with nosniff, which no browser takes for a page
	if _, err := e.w.Write([]byte(text)); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}
