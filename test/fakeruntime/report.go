package fakeruntime

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Report counts what reached the server since it started, over every Restart.
type Report struct {
	// Creates counts every POST of a create, repeated, refused and dropped ones
	// too; Executions counts the sessions begun.
	Creates    int `json:"creates"`
	Executions int `json:"executions"`
	Status     int `json:"status"`
	Cancels    int `json:"cancels"`
	// Repeated lists targets that were executed more than once, by two keys or
	// by one key twice. Two tasks that share a target by intention show too.
	Repeated []string `json:"repeated"`
	// Unlisted counts creates whose keys are above the bound and not listed.
	Unlisted int `json:"unlisted,omitempty"`
	// Keys and Tasks list the counts by idempotency key and by target.
	Keys  map[string]KeyReport  `json:"keys,omitempty"`
	Tasks map[string]TaskReport `json:"tasks,omitempty"`
}

// KeyReport is what happened under one idempotency key, of all users.
type KeyReport struct {
	Creates    int               `json:"creates"`
	Sessions   []string          `json:"sessions"`
	Executions int               `json:"executions"`
	To         string            `json:"to,omitempty"`
	Status     runtimeapi.Status `json:"status,omitempty"`
	// Runs lists the sessions with the times between which they were executed, in
	// the order they began.
	Runs []Run `json:"runs,omitempty"`
}

// Run is one execution. Ended is zero while it goes on.
type Run struct {
	Session string    `json:"session"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
}

// TaskReport is what happened for one target.
type TaskReport struct {
	Keys       []string `json:"keys"`
	Executions int      `json:"executions"`
}

// Report returns the counts so far.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l := &s.ledger
	r := Report{
		Creates: l.creates, Executions: l.executions, Unlisted: l.unlisted,
		Status: s.calls.counts[OpStatus], Cancels: s.calls.counts[OpCancel],
		Repeated: []string{},
		Keys:     make(map[string]KeyReport, len(l.keys)),
		Tasks:    make(map[string]TaskReport, len(l.tasks)),
	}
	for key, e := range l.keys {
		k := KeyReport{Creates: e.creates, Sessions: slices.Clone(e.sessions), Executions: e.executions}
		if e.last != nil {
			e.last.advance(now)
			k.To, k.Status = e.last.to, e.last.status.Status
		}
		for _, run := range e.runs {
			k.Runs = append(k.Runs, *run)
		}
		r.Keys[key] = k
	}
	for to, e := range l.tasks {
		r.Tasks[to] = TaskReport{Keys: slices.Sorted(maps.Keys(e.keys)), Executions: e.executions}
		if e.executions > 1 {
			r.Repeated = append(r.Repeated, to)
		}
	}
	slices.Sort(r.Repeated)
	return r
}

// ledger counts creates and executions. It forgets nothing it lists, and lists a
// bounded number of keys.
type ledger struct {
	limit                                   int
	creates, answered, executions, unlisted int
	keys                                    map[string]*keyEntry
	tasks                                   map[string]*taskEntry
}

type keyEntry struct {
	creates, executions int
	sessions            []string
	runs                []*Run
	last                *task
}

type taskEntry struct {
	executions int
	keys       map[string]struct{}
}

func newLedger(limit int) ledger {
	return ledger{limit: limit, keys: map[string]*keyEntry{}, tasks: map[string]*taskEntry{}}
}

func (l *ledger) posted(key string) {
	l.creates++
	e := l.keys[key]
	if e == nil {
		if len(l.keys) >= l.limit {
			l.unlisted++
			return
		}
		e = &keyEntry{}
		l.keys[key] = e
	}
	e.creates++
}

func (l *ledger) executed(t *task) {
	l.executions++
	e := l.keys[t.key]
	if e == nil {
		return
	}
	e.executions++
	e.sessions = append(e.sessions, t.session)
	e.runs = append(e.runs, t.run)
	e.last = t
	target := l.tasks[t.to]
	if target == nil {
		target = &taskEntry{keys: map[string]struct{}{}}
		l.tasks[t.to] = target
	}
	target.executions++
	target.keys[t.key] = struct{}{}
}

// Call is one call as it arrived. Header holds the caller's credentials.
type Call struct {
	Op     Op
	Time   time.Time
	Header http.Header
	// Body is nil for a call that a fault of the whole server met.
	Body []byte
}

// recorder keeps the latest calls. The server's lock guards it.
type recorder struct {
	limit  int
	calls  []Call
	start  int
	counts map[Op]int
	// arrived is closed at the next call; nil while nobody waits.
	arrived chan struct{}
}

func (c *recorder) record(s *Server, op Op, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.counts == nil {
		c.counts = map[Op]int{}
	}
	c.counts[op]++
	if c.arrived != nil {
		close(c.arrived)
		c.arrived = nil
	}
	if c.limit < 0 {
		return
	}
	call := Call{Op: op, Time: time.Now(), Header: r.Header.Clone(), Body: body}
	if len(c.calls) < c.limit {
		c.calls = append(c.calls, call)
		return
	}
	c.calls[c.start] = call
	c.start = (c.start + 1) % c.limit
}

// Calls returns the recorded calls, the oldest first; with ops, only those.
func (s *Server) Calls(ops ...Op) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.calls.calls[s.calls.start:], s.calls.calls[:s.calls.start])
	if len(ops) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(c Call) bool { return !slices.Contains(ops, c.Op) })
}

// WaitCalls returns when at least n calls of an operation have arrived since the
// start, or with the context's error.
func (s *Server) WaitCalls(ctx context.Context, op Op, n int) error {
	for {
		s.mu.Lock()
		if s.calls.counts[op] >= n {
			s.mu.Unlock()
			return nil
		}
		if s.calls.arrived == nil {
			s.calls.arrived = make(chan struct{})
		}
		arrived := s.calls.arrived
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
