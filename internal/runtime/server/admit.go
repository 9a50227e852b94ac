package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// createRequest is a well-formed create of a known user.
type createRequest struct {
	who     principal
	key     string // Idempotency-Key, may be empty
	logID   string // of the client, may be empty
	payload runtimeapi.CompilePayload
}

// created is the answer to a create.
type created struct {
	id       string
	to       string
	replayed bool
}

// create returns the session of a request: the one its key led to before, or a
// new one. A request that is refused leaves nothing behind.
func (m *manager) create(ctx context.Context, req createRequest) (created, error) {
	if req.key == "" {
		return m.admit(ctx, req, nil)
	}
	key := session.NewKey(req.who.scope, req.key)
	if old, err := m.replay(key); err != nil || old.id != "" {
		return old, err
	}
	// Creates of one key come one after the other. The ledger alone would keep
	// them to one session, but a burst of copies would use up the user's
	// admission while the first of them is being checked.
	unlock, err := m.creates.lock(ctx, key)
	if err != nil {
		return created{}, err
	}
	defer unlock()
	if old, err := m.replay(key); err != nil || old.id != "" {
		return old, err
	}
	return m.admit(ctx, req, &key)
}

// replay answers a key that was seen before, whatever the request says now and
// however full the server is (E.1.1).
func (m *manager) replay(key session.Key) (created, error) {
	id, err := m.store.Lookup(key)
	if err != nil {
		m.log.Error("Key ledger can't be read", "err", err)
		return created{}, errStore
	}
	if id == "" {
		return created{}, nil
	}
	old := created{id: id, replayed: true}
	// The session itself may be pruned by now; its id is still the answer.
	if rec, found, err := m.store.Get(id); err == nil && found {
		old.to = rec.To
	}
	return old, nil
}

// admit checks, stores and queues a new task, in the order of section F.6.
func (m *manager) admit(ctx context.Context, req createRequest, key *session.Key) (created, error) {
	model, err := modelArgument(req.payload.Args, m.models)
	if err != nil {
		return created{}, err
	}
	owner := req.who.scope
	if err := m.reserve(owner); err != nil {
		return created{}, err
	}
	admitted := false
	defer func() {
		if !admitted {
			m.unreserve(owner)
		}
	}()
	task, err := m.check(ctx, runtime.Task{
		Principal:   runtime.Principal{Account: req.who.account, User: req.who.user},
		From:        req.payload.From,
		To:          req.payload.To,
		Skill:       req.payload.Skill,
		Instruction: req.payload.Instruction,
		ModelName:   model,
	})
	if err != nil {
		return created{}, err
	}
	// A client that has given up learns no id, so it could neither read nor
	// cancel the task.
	if err := ctx.Err(); err != nil {
		return created{}, err
	}
	e := newEntry(task, owner, req.logID)
	existing, err := m.remember(e, key)
	if err != nil || existing != "" {
		return created{id: existing, replayed: existing != ""}, err
	}
	admitted = true
	m.enqueue(e) //nolint:contextcheck // a run outlives the request that begins it
	return created{id: e.id, to: task.To}, nil
}

// check has the engine look at a task as its user would see it.
func (m *manager) check(ctx context.Context, task runtime.Task) (runtime.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, m.prepare)
	defer cancel()
	task, err := m.engine.Prepare(ctx, task)
	var api *runtimeapi.Error
	if err != nil && !errors.As(err, &api) && ctx.Err() == nil {
		m.log.Error("Engine could not check a task", "err", err)
	}
	return task, err
}

func newEntry(task runtime.Task, owner, logID string) *entry {
	now := time.Now()
	id := session.NewID()
	return &entry{
		id:    id,
		owner: owner,
		rec: session.Record{
			ID:      id,
			Owner:   owner,
			To:      task.To,
			Status:  runtimeapi.StatusPending,
			Stage:   "queued",
			Meta:    json.RawMessage("{}"),
			Created: now,
			Changed: now,
		},
		task:    task,
		target:  task.Principal.Account + "\x00" + task.To,
		logID:   logID,
		changed: make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// remember stores a new session. It is in memory first: a copy of the request
// may learn the id from the ledger, and ask for it, before this call returns.
func (m *manager) remember(e *entry, key *session.Key) (existing string, err error) {
	m.mu.Lock()
	m.entries[e.id] = e
	m.mu.Unlock()
	existing, err = m.store.Create(e.rec, key)
	if err == nil && existing == "" {
		return "", nil
	}
	m.mu.Lock()
	delete(m.entries, e.id)
	m.mu.Unlock()
	if err != nil {
		m.log.Error("Session can't be stored", "err", err)
		return "", errStore
	}
	return existing, nil
}

// keyedLocks lets one create of a key through at a time. A key is held only
// while a request has to do with it, so the table is as big as the number of
// requests at most.
type keyedLocks struct {
	mu   sync.Mutex
	held map[session.Key]chan struct{}
}

// lock waits for its turn until ctx ends.
func (k *keyedLocks) lock(ctx context.Context, key session.Key) (unlock func(), err error) {
	for {
		k.mu.Lock()
		busy, taken := k.held[key]
		if !taken {
			free := make(chan struct{})
			k.held[key] = free
			k.mu.Unlock()
			return func() { k.unlock(key, free) }, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (k *keyedLocks) unlock(key session.Key, free chan struct{}) {
	k.mu.Lock()
	delete(k.held, key)
	k.mu.Unlock()
	close(free)
}
