package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// entry is a session that this process still has to do with: queued, running, or
// ended but not yet on disk. Its fields are guarded by manager.mu, except those
// that never change (id, owner, task, target, logID, done).
type entry struct {
	id     string
	owner  string
	task   runtime.Task
	target string
	logID  string

	rec session.Record
	// waiting ends the wait in the queue; nil once it is over.
	waiting *time.Timer
	// cancel stops the run; nil while the task is queued.
	cancel context.CancelCauseFunc
	// ended says that the outcome is decided, done that it can be read.
	ended bool
	done  chan struct{}
	// changed is closed, and replaced, at every change of state.
	changed chan struct{}
	// holds counts the polls held on this session.
	holds int
	// unsaved says that the present state is not on disk yet.
	unsaved bool
}

// Reasons for which a run is stopped.
var (
	errCancelled = errors.New("cancelled by the user")
	errRunTime   = errors.New("run time exceeded")
	errShutdown  = errors.New("executor is shutting down")
)

// manager owns the sessions of this process: it admits, queues, runs and ends
// them. Its memory holds live sessions only, so it is bounded by the admission
// limit, whatever the number of finished or unknown ones.
type manager struct {
	engine  runtime.Engine
	store   Store
	limits  Limits
	log     *slog.Logger
	metrics *Metrics
	prepare time.Duration
	models  []string

	// base is the context of every run; stop ends them all.
	base context.Context //nolint:containedctx // runs outlive the requests that begin them
	stop context.CancelCauseFunc
	runs sync.WaitGroup

	// draining is closed when the server begins to stop.
	draining chan struct{}
	keeper   keeper
	creates  keyedLocks

	mu       sync.Mutex
	entries  map[string]*entry
	queue    []*entry
	busy     map[string]struct{} // targets with a running task
	running  int
	admitted int
	perUser  map[string]int // by owner; no zero values
	held     int
	closed   bool
}

func newManager(cfg Config) (*manager, error) {
	recovered, err := cfg.Store.Recover()
	if err != nil {
		return nil, err
	}
	base, stop := context.WithCancelCause(context.Background())
	m := &manager{
		engine:   cfg.Engine,
		store:    cfg.Store,
		limits:   cfg.Limits,
		log:      cfg.Log,
		metrics:  cfg.Metrics,
		prepare:  cfg.PrepareTimeout,
		models:   cfg.AllowedModels,
		base:     base,
		stop:     stop,
		draining: make(chan struct{}),
		creates:  keyedLocks{held: map[session.Key]chan struct{}{}},
		entries:  map[string]*entry{},
		busy:     map[string]struct{}{},
		perUser:  map[string]int{},
	}
	m.metrics.observe(m)
	m.keeper.start(m)
	if recovered > 0 {
		m.log.Info("Ended sessions of a former process", "sessions", recovered)
	}
	return m, nil
}

// reserve admits one task of a user, or says why not.
func (m *manager) reserve(owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errStopping
	case m.admitted >= m.limits.Admitted || m.perUser[owner] >= m.limits.AdmittedPerUser:
		return errAdmission
	case len(m.entries) >= 2*m.limits.Admitted:
		// Outcomes pile up in memory because the disk takes none.
		return errStore
	}
	m.admitted++
	m.perUser[owner]++
	return nil
}

// unreserve gives an admitted task's place back.
func (m *manager) unreserve(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreserveLocked(owner)
}

func (m *manager) unreserveLocked(owner string) {
	m.admitted--
	if m.perUser[owner]--; m.perUser[owner] == 0 {
		delete(m.perUser, owner)
	}
}

// find returns a user's session: its state, and the live entry unless it ended.
func (m *manager) find(id, owner string) (session.Record, *entry, error) {
	m.mu.Lock()
	if e := m.entries[id]; e != nil {
		defer m.mu.Unlock()
		if e.owner != owner {
			return session.Record{}, nil, errNoSession
		}
		return e.rec, e, nil
	}
	m.mu.Unlock()
	rec, found, err := m.store.Get(id)
	switch {
	case err != nil:
		m.log.Error("Session store can't be read", "err", err)
		return session.Record{}, nil, errStore
	case !found || rec.Owner != owner:
		return session.Record{}, nil, errNoSession
	}
	return rec, nil, nil
}

// changeLocked moves a live session on and wakes whoever waits for a change.
func (e *entry) changeLocked(rec session.Record) {
	rec.Changed = time.Now()
	e.rec = rec
	e.wakeLocked()
}

func (e *entry) wakeLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// finish ends a session once: end makes the terminal state from the present one.
// The state is on disk before anyone can read it, so that no restart takes back
// what a client was told. When the disk refuses, it is told all the same, since
// the work is done, and written as soon as the disk allows.
func (m *manager) finish(e *entry, end func(session.Record) session.Record) {
	m.mu.Lock()
	if e.ended {
		m.mu.Unlock()
		<-e.done
		return
	}
	e.ended = true
	rec := end(e.rec)
	rec.Changed = time.Now()
	m.mu.Unlock()

	err := m.store.Save(rec)

	m.mu.Lock()
	e.rec = rec
	e.unsaved = err != nil
	if err == nil {
		delete(m.entries, rec.ID)
	}
	e.wakeLocked()
	close(e.done)
	m.mu.Unlock()

	m.metrics.finished.WithLabelValues(string(rec.Status)).Inc()
	m.logEnd(e, rec, err)
	m.keeper.finished(err != nil)
}

func (m *manager) logEnd(e *entry, rec session.Record, err error) {
	args := []any{"session", rec.ID, "status", string(rec.Status), "stage", rec.Stage,
		"seconds", rec.Changed.Sub(rec.Created).Seconds(), "logID", e.logID}
	if rec.Error != nil {
		args = append(args, "code", rec.Error.Code)
	}
	m.log.Info("Session ended", args...)
	if err != nil {
		m.log.Error("Session outcome is not stored yet", "session", rec.ID, "err", err)
	}
}

// drain makes held polls answer and creates fail from now on.
func (m *manager) drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.draining)
	}
}

// shutdown ends every session and returns when the runs have stopped and their
// states are stored, or when ctx ends; then what still runs is marked as
// restarted all the same.
func (m *manager) shutdown(ctx context.Context) error {
	m.drain()
	m.mu.Lock()
	queued := m.queue
	m.queue = nil
	m.mu.Unlock()
	for _, e := range queued {
		m.endQueued(e, session.Record.Restarted)
	}
	m.stop(errShutdown)

	stopped := make(chan struct{})
	go func() {
		m.runs.Wait()
		close(stopped)
	}()
	var err error
	select {
	case <-stopped:
	case <-ctx.Done():
		err = errors.New("runs did not stop in time")
		for _, e := range m.live() {
			m.finish(e, session.Record.Restarted)
		}
	}
	m.keeper.close()
	return errors.Join(err, m.flush())
}

func (m *manager) live() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*entry, 0, len(m.entries))
	for _, e := range m.entries {
		list = append(list, e)
	}
	return list
}

// counts are the numbers of live sessions by status.
func (m *manager) counts() map[runtimeapi.Status]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := map[runtimeapi.Status]int{}
	for _, e := range m.entries {
		n[e.rec.Status]++
	}
	return n
}

func (m *manager) heldPolls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}
