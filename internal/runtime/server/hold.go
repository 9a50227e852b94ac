package server

import (
	"context"
	"time"

	"github.com/agentruntime/operator/internal/runtime/session"
)

// holdsPerSession bounds the polls held on one session, so that one user can't
// take every place.
const holdsPerSession = 32

// awaited tells what a poll waits for: the end of the session, or, when known is
// set, the first state for which it is false.
type awaited struct {
	wait  time.Duration
	known func(session.Record) bool
}

// status returns a user's session, after holding the question as long as there
// is nothing to tell. applied is false when the wait was asked for but cut short
// because the server is busy or stopping.
func (m *manager) status(ctx context.Context, id, owner string, a awaited) (rec session.Record, applied bool, err error) {
	rec, e, err := m.find(id, owner)
	if err != nil || a.wait == 0 || e == nil || a.satisfied(rec) {
		return rec, true, err
	}
	if !m.hold(e) {
		return rec, false, nil
	}
	defer m.unhold(e)
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	for {
		rec, next := m.watch(e, a)
		if a.satisfied(rec) {
			return rec, true, nil
		}
		select {
		case <-next:
		case <-timer.C:
			rec, _ := m.watch(e, a)
			return rec, true, nil
		case <-m.draining:
			return rec, false, nil
		case <-ctx.Done():
			return rec, true, ctx.Err()
		}
	}
}

func (a awaited) satisfied(rec session.Record) bool {
	return rec.Status.Terminal() || (a.known != nil && !a.known(rec))
}

// watch returns the present state and what is closed when there may be news.
func (m *manager) watch(e *entry, a awaited) (session.Record, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.known == nil {
		return e.rec, e.done
	}
	return e.rec, e.changed
}

func (m *manager) hold(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.held >= m.limits.HeldPolls || e.holds >= holdsPerSession {
		return false
	}
	m.held++
	e.holds++
	return true
}

func (m *manager) unhold(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held--
	e.holds--
}
