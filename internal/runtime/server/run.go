package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Bounds of what an engine may report.
const (
	maxStageBytes   = 64
	maxMessageBytes = 2000
	maxResultBytes  = 4 << 20
)

// run does one task. It is the only goroutine a task has.
func (m *manager) run(ctx context.Context, e *entry) {
	defer m.runs.Done()
	defer e.cancel(nil)
	start := time.Now()
	ctx, stop := context.WithTimeoutCause(ctx, m.limits.RunTime, errRunTime)
	defer stop()
	overrun := time.AfterFunc(m.limits.RunTime+m.limits.CleanupGrace, func() { m.overrun(e) })
	outcome, err := m.callEngine(ctx, e)
	overrun.Stop()
	cause := context.Cause(ctx)
	var rec session.Record
	m.finish(e, func(now session.Record) session.Record {
		rec = conclude(now, cause, outcome, err)
		return rec
	})
	if rec.Status == runtimeapi.StatusFailed && rec.Error.Code == runtimeapi.CodeInternal {
		m.log.Error("Task failed in the engine", "session", e.id, "logID", e.logID, "err", err)
	}
	if rec.Status != "" {
		m.metrics.runSeconds.WithLabelValues(string(rec.Status)).Observe(time.Since(start).Seconds())
	}
	m.release(e) //nolint:contextcheck // the next run is not part of this one
}

// overrun fails a session whose run neither ended in time nor stopped within the
// grace after it. Its target and slot stay taken until it does stop. A session
// being cancelled is left alone: it is cancelled only when the run has stopped.
func (m *manager) overrun(e *entry) {
	m.mu.Lock()
	cancelling := e.rec.Status == runtimeapi.StatusCancelling
	m.mu.Unlock()
	m.log.Error("Run does not stop", "session", e.id, "logID", e.logID)
	m.metrics.stuck.Inc()
	if cancelling {
		return
	}
	m.finish(e, func(rec session.Record) session.Record {
		return conclude(rec, errRunTime, runtime.Outcome{}, context.DeadlineExceeded)
	})
}

// callEngine runs a task and turns a panic into an error, so that one bad task
// does not end the others.
func (m *manager) callEngine(ctx context.Context, e *entry) (outcome runtime.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("Engine panicked", "session", e.id, "stack", string(debug.Stack()))
			outcome, err = runtime.Outcome{}, fmt.Errorf("engine panicked: %T", p)
		}
	}()
	return m.engine.Run(ctx, e.task, func(stage string) { m.progress(e, stage) })
}

// progress notes the stage of a running task. It never touches one that is being
// cancelled or has ended (F.2).
func (m *manager) progress(e *entry, stage string) {
	stage = strings.TrimPrefix(clip(stage, maxStageBytes), stagePrefix)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.ended || stage == "" || e.rec.Status != runtimeapi.StatusRunning || e.rec.Stage == stage {
		return
	}
	rec := e.rec
	rec.Stage = stage
	e.changeLocked(rec)
	e.unsaved = true
	m.keeper.touch()
}

// conclude makes the terminal state of a run. A cancel that was accepted wins
// over a completion that raced it (0.3); an outcome wins over a deadline that
// passed while it was being saved (F.5).
func conclude(rec session.Record, cause error, outcome runtime.Outcome, err error) session.Record {
	if rec.Status == runtimeapi.StatusCancelling {
		return rec.AsCancelled()
	}
	if isObject(outcome.Meta) {
		rec.Meta = bytes.Clone(outcome.Meta)
	}
	if err == nil {
		return complete(rec, outcome)
	}
	var api *runtimeapi.Error
	switch {
	case errors.As(err, &api):
		return rec.AsFailed(&runtimeapi.Error{Code: api.Code, Message: clip(api.Message, maxMessageBytes)})
	case errors.Is(cause, errShutdown):
		return rec.Restarted()
	case errors.Is(cause, errRunTime):
		return rec.AsFailed(&runtimeapi.Error{
			Code: runtimeapi.CodeDeadlineExceeded, Message: "Compile task ran for too long.",
		})
	default:
		// The text may tell what is not the user's business; it is logged.
		return rec.AsFailed(errInternal)
	}
}

func complete(rec session.Record, outcome runtime.Outcome) session.Record {
	if !isObject(outcome.Result) || len(outcome.Result) > maxResultBytes {
		return rec.AsFailed(&runtimeapi.Error{
			Code: runtimeapi.CodeInternal, Message: "The task's result is not usable.",
		})
	}
	rec.Status, rec.Error = runtimeapi.StatusCompleted, nil
	rec.Stage = strings.TrimPrefix(clip(outcome.Stage, maxStageBytes), stagePrefix)
	if rec.Stage == "" {
		rec.Stage = "completed"
	}
	rec.Result = bytes.Clone(outcome.Result)
	return rec
}

func isObject(raw json.RawMessage) bool {
	return len(raw) <= maxResultBytes && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) && json.Valid(raw)
}

// clip makes a text valid UTF-8 of at most limit bytes.
func clip(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
