package server

import (
	"sync"
	"time"

	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// How the keeper paces itself.
const (
	// flushDelay gathers changes of stage, and paces attempts after a failure.
	flushDelay = time.Second
	// pruneEvery is section C.7's cleanup period.
	pruneEvery = 5 * time.Minute
	// pruneAfter prunes early when many sessions ended, so that the store stays
	// near its bound under load.
	pruneAfter = 200
)

// keeper is the one goroutine that writes what nobody waits for: stages of
// running tasks, outcomes that the disk refused at first, and prunes. Stages are
// late by a second at most; they matter only to a restart, which names the stage
// a task had reached.
type keeper struct {
	dirty chan struct{} // holds one
	prune chan struct{} // holds one
	quit  chan struct{}
	gone  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	ended int // since the last prune
}

func (k *keeper) start(m *manager) {
	k.dirty = make(chan struct{}, 1)
	k.prune = make(chan struct{}, 1)
	k.quit = make(chan struct{})
	k.gone = make(chan struct{})
	go k.loop(m)
}

// close ends the keeper; safe to call twice.
func (k *keeper) close() {
	k.once.Do(func() { close(k.quit) })
	<-k.gone
}

// touch says that a state is not on disk yet.
func (k *keeper) touch() { signal(k.dirty) }

// finished counts an ended session.
func (k *keeper) finished(unsaved bool) {
	if unsaved {
		signal(k.dirty)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended++; k.ended >= pruneAfter {
		k.ended = 0
		signal(k.prune)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (k *keeper) loop(m *manager) {
	defer close(k.gone)
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	m.pruneStore()
	for {
		select {
		case <-k.quit:
			return
		case <-ticker.C:
			m.pruneStore()
		case <-k.prune:
			m.pruneStore()
		case <-k.dirty:
			if !k.rest() {
				return
			}
			if err := m.flush(); err != nil {
				k.touch()
			}
		}
	}
}

// rest waits a moment; false when the keeper is to end.
func (k *keeper) rest() bool {
	t := time.NewTimer(flushDelay)
	defer t.Stop()
	select {
	case <-k.quit:
		return false
	case <-t.C:
		return true
	}
}

func (m *manager) pruneStore() {
	gone, err := m.store.Prune()
	if err != nil {
		m.log.Error("Sessions can't be pruned", "err", err)
		return
	}
	if gone != (session.Pruned{}) {
		m.log.Info("Pruned sessions", "records", gone.Records, "keys", gone.Keys)
	}
}

// flush writes the states that are not on disk yet. A live one that changes
// meanwhile is written again by a later flush; the store itself refuses to go
// back to an earlier state.
func (m *manager) flush() error {
	m.mu.Lock()
	var recs []session.Record
	for _, e := range m.entries {
		if e.unsaved {
			recs = append(recs, e.rec)
			// An outcome counts as saved only when it is.
			e.unsaved = e.rec.Status.Terminal()
		}
	}
	m.mu.Unlock()
	if len(recs) == 0 {
		return nil
	}
	err := m.store.Save(recs...)
	if err != nil {
		m.log.Error("Session states can't be stored", "sessions", len(recs), "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range recs {
		e := m.entries[rec.ID]
		switch {
		case e == nil:
		case err != nil:
			e.unsaved = true
		case rec.Status.Terminal():
			delete(m.entries, rec.ID)
		}
	}
	return err
}

// stagePrefix is how the wire marks a stage (F.2).
const stagePrefix = "compile: "

// wireStage is a record's stage as the protocol shows it. That of a cancelled
// session stands alone (E.1.2).
func wireStage(rec session.Record) string {
	if rec.Status == runtimeapi.StatusCancelled {
		return rec.Stage
	}
	return stagePrefix + rec.Stage
}
