package server

import (
	"context"
	"slices"
	"time"

	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// firstStage is where a run begins (F.2).
const firstStage = "loading_skill"

// enqueue puts an admitted task in line and starts what can be started.
func (m *manager) enqueue(e *entry) {
	m.mu.Lock()
	closed, cancelled := m.closed, e.rec.Status == runtimeapi.StatusCancelling
	if !closed && !cancelled {
		m.queue = append(m.queue, e)
		e.waiting = time.AfterFunc(m.limits.QueueWait, func() { m.expire(e) })
		m.dispatchLocked()
	}
	m.mu.Unlock()
	if closed || cancelled {
		// Since the session was stored, the server began to stop, or a copy of
		// the request learned the id and cancelled it.
		m.endQueued(e, session.Record.Restarted)
	}
}

// dispatchLocked starts tasks in the order they came. One whose target is busy
// lets later ones for other targets pass, so a slot is never held by waiting.
func (m *manager) dispatchLocked() {
	if m.closed {
		return
	}
	for i := 0; i < len(m.queue) && m.running < m.limits.Running; {
		e := m.queue[i]
		if _, busy := m.busy[e.target]; busy {
			i++
			continue
		}
		m.queue = slices.Delete(m.queue, i, i+1)
		m.startLocked(e)
	}
}

func (m *manager) startLocked(e *entry) {
	e.waiting.Stop()
	m.running++
	m.busy[e.target] = struct{}{}
	ctx, cancel := context.WithCancelCause(m.base)
	e.cancel = cancel
	rec := e.rec
	rec.Status, rec.Stage = runtimeapi.StatusRunning, firstStage
	e.changeLocked(rec)
	e.unsaved = true
	m.keeper.touch()
	m.metrics.queueWait.Observe(time.Since(rec.Created).Seconds())
	m.runs.Add(1)
	go m.run(ctx, e)
}

// dequeueLocked takes a task out of the line; false when it is not in it.
func (m *manager) dequeueLocked(e *entry) bool {
	i := slices.Index(m.queue, e)
	if i < 0 {
		return false
	}
	m.queue = slices.Delete(m.queue, i, i+1)
	return true
}

// expire fails a task that has waited too long. It does nothing when the task
// left the queue in the meantime.
func (m *manager) expire(e *entry) {
	m.mu.Lock()
	mine := m.dequeueLocked(e)
	m.mu.Unlock()
	if !mine {
		return
	}
	m.endQueued(e, func(rec session.Record) session.Record {
		return rec.AsFailed(&runtimeapi.Error{
			Code:    runtimeapi.CodeDeadlineExceeded,
			Message: "Compile task waited in the queue for too long.",
		})
	})
}

// endQueued ends a task that was taken out of the line: it never runs.
func (m *manager) endQueued(e *entry, end func(session.Record) session.Record) {
	if e.waiting != nil {
		e.waiting.Stop()
	}
	m.finish(e, end)
	m.unreserve(e.owner)
}

// release gives back what a run held. Only a run that has really returned does
// so: two runs never write one target.
func (m *manager) release(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	delete(m.busy, e.target)
	m.unreserveLocked(e.owner)
	m.dispatchLocked()
}

// cancel asks a user's session to end and returns its state then. A queued task
// never starts; a running one is cancelling until it has stopped and cleaned up;
// one that ended keeps its state (E.1.2). The answer is on disk before it is
// given, so a restart keeps the promise.
func (m *manager) cancel(ctx context.Context, id, owner string) (session.Record, error) {
	rec, e, err := m.find(id, owner)
	if err != nil || e == nil {
		return rec, err
	}
	m.mu.Lock()
	switch {
	case e.ended:
		m.mu.Unlock()
		return m.settled(ctx, e)
	case m.dequeueLocked(e):
		m.mu.Unlock()
		m.endQueued(e, session.Record.AsCancelled)
		return m.settled(ctx, e)
	case e.rec.Status != runtimeapi.StatusCancelling:
		rec := e.rec
		rec.Status = runtimeapi.StatusCancelling
		e.changeLocked(rec)
		e.unsaved = true
		m.keeper.touch()
	}
	if e.cancel != nil {
		e.cancel(errCancelled)
	}
	rec = e.rec
	m.mu.Unlock()
	if err := m.store.Save(rec); err != nil {
		m.log.Error("Cancellation can't be stored", "session", id, "err", err)
		return session.Record{}, errStore
	}
	return rec, nil
}

// settled returns the terminal state of a session whose outcome is decided, once
// it is on disk.
func (m *manager) settled(ctx context.Context, e *entry) (session.Record, error) {
	select {
	case <-e.done:
	case <-ctx.Done():
		return session.Record{}, ctx.Err()
	}
	m.mu.Lock()
	rec, unsaved := e.rec, e.unsaved
	m.mu.Unlock()
	if unsaved {
		if err := m.store.Save(rec); err != nil {
			return session.Record{}, errStore
		}
	}
	return rec, nil
}
