package fakeruntime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Defaults of Options.
const (
	DefaultMaxCalls = 4096
	DefaultMaxTasks = 200_000
)

// Options says how a server begins. The zero value completes every task at once.
type Options struct {
	// Addr is where to listen; "" is a free port of the loopback address.
	Addr string
	// GatewayToken, when set, is demanded of every call (A.7).
	GatewayToken string
	// RequireAPIKey refuses calls without X-API-Key (E.1.1).
	RequireAPIKey bool
	// UserOf tells users apart; nil means ByAPIKey.
	UserOf func(http.Header) string
	// Default is the behaviour of tasks that no rule matches.
	Default Behaviour
	// Latency delays every call before it has its effect.
	Latency time.Duration
	// NoHeldPolls ignores Prefer: wait, as an executor that does not know it.
	NoHeldPolls bool
	// Durable keeps keys and sessions over Restart.
	Durable bool
	// LoseAnswerEvery drops the answer of every n-th create that went well, its
	// effect staying; 0 drops none.
	LoseAnswerEvery int
	// MaxCalls bounds the recorded calls, the oldest going first; 0 means
	// DefaultMaxCalls, a negative value records none (for load).
	MaxCalls int
	// MaxTasks bounds the tasks kept, of which finished ones go first, and the
	// keys a report lists; 0 means DefaultMaxTasks.
	MaxTasks int
}

// ByAPIKey takes the user's credential for the user.
func ByAPIKey(h http.Header) string { return h.Get(runtimeapi.HeaderAPIKey) }

// ByAccountAndUser takes the account and user headers for the user, so that a
// renewed credential stays the same user's.
func ByAccountAndUser(h http.Header) string {
	return h.Get(runtimeapi.HeaderAccount) + "/" + h.Get(runtimeapi.HeaderUser)
}

// Server is a running fake executor.
type Server struct {
	// URL is the base URL, without a trailing slash.
	URL string

	opts   Options
	server *http.Server
	served chan struct{}
	prefix string

	mu       sync.Mutex
	closing  chan struct{} // closed by Restart and Close: held calls end
	held     bool
	rules    []rule
	faults   faults
	keys     map[userKey]*task
	sessions map[string]*task
	order    []*task
	next     int
	ledger   ledger
	calls    recorder
	conns    map[net.Conn]struct{}
}

type userKey struct{ user, key string }

type rule struct {
	match     Match
	behaviour Behaviour
}

// Start listens and serves until Close. As httptest does, it panics when it cannot
// listen; Listen returns that error.
func Start(opts Options) *Server {
	s, err := Listen(opts)
	if err != nil {
		panic(err)
	}
	return s
}

// Listen is Start for a caller that chose the address.
func Listen(opts Options) (*Server, error) {
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("fake runtime: %w", err)
	}
	if opts.UserOf == nil {
		opts.UserOf = ByAPIKey
	}
	if opts.MaxTasks <= 0 {
		opts.MaxTasks = DefaultMaxTasks
	}
	if opts.MaxCalls == 0 {
		opts.MaxCalls = DefaultMaxCalls
	}
	s := &Server{
		URL:      "http://" + listener.Addr().String(),
		opts:     opts,
		served:   make(chan struct{}),
		prefix:   "fs-" + strings.ToLower(rand.Text()[:8]) + "-",
		closing:  make(chan struct{}),
		held:     !opts.NoHeldPolls,
		keys:     map[userKey]*task{},
		sessions: map[string]*task{},
		ledger:   newLedger(opts.MaxTasks),
		calls:    recorder{limit: opts.MaxCalls},
		conns:    map[net.Conn]struct{}{},
	}
	s.server = &http.Server{Handler: s.handler(), ConnState: s.track, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// Close ends every call and connection. It returns when the listener is gone.
func (s *Server) Close() {
	s.mu.Lock()
	s.endHeld()
	s.mu.Unlock()
	_ = s.server.Close()
	<-s.served
}

// Restart drops every connection and call under way. Without Options.Durable the
// server forgets its keys and sessions; with it, tasks that had not ended have
// failed or are cancelled (E.1.5). Counts of the report stay, rules too.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endHeld()
	s.closing = make(chan struct{})
	for conn := range s.conns {
		_ = conn.Close()
	}
	now := time.Now()
	for _, t := range s.sessions {
		t.advance(now)
		t.restart(now)
	}
	if !s.opts.Durable {
		clear(s.keys)
		clear(s.sessions)
		s.order = nil
	}
}

func (s *Server) endHeld() {
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
}

// On gives tasks that match, from their first create on, a behaviour of their own.
// Of several rules the last one added counts.
func (s *Server) On(match Match, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule{match, b})
}

// AddFault makes calls of the whole server fail, before their bodies are read.
// Commit does not count here.
func (s *Server) AddFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Each fault counts the calls from its own addition on.
	f.Skip += s.faults.calls[f.Op]
	s.faults.list = append(s.faults.list, f)
}

// ClearFaults ends the faults that AddFault began.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.list = nil
}

// SetHeldPolls turns the support of Prefer: wait on or off.
func (s *Server) SetHeldPolls(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
}

// errNoTask is returned for a task that has no session.
var errNoTask = errors.New("fake runtime: no session for this key or target")

// Advance takes the next step of the task with this key, or this target, or ends
// its cancel. It fails without a session or without a next step.
func (s *Server) Advance(name string) error {
	return s.with(name, func(t *task, now time.Time) error {
		if !t.take(now) {
			return errors.New("fake runtime: no step is left")
		}
		return nil
	})
}

// Set puts the task with this key, or this target, into a status, past its script.
func (s *Server) Set(name string, status runtimeapi.TaskStatus) error {
	return s.with(name, func(t *task, now time.Time) error {
		t.behaviour.Steps = nil
		t.set(status, now)
		return nil
	})
}

// Fail adds a fault to the task with this key, or this target. It counts calls from
// now on.
func (s *Server) Fail(name string, f Fault) error {
	return s.with(name, func(t *task, _ time.Time) error {
		f.Skip += t.faults.calls[f.Op]
		t.faults.list = append(t.faults.list, f)
		return nil
	})
}

// Lose forgets the session and key of the task: its calls answer 404, and a create
// with the same key runs it again, which the report shows.
func (s *Server) Lose(name string) error {
	return s.with(name, func(t *task, now time.Time) error {
		delete(s.sessions, t.session)
		delete(s.keys, userKey{t.user, t.key})
		t.set(t.status, now) // wakes held polls
		return nil
	})
}

// Status returns where the task with this key, or this target, is.
func (s *Server) Status(name string) (runtimeapi.TaskStatus, error) {
	var status runtimeapi.TaskStatus
	err := s.with(name, func(t *task, _ time.Time) error {
		status = t.wire()
		return nil
	})
	return status, err
}

// with runs f on the newest session of a key or target.
func (s *Server) with(name string, f func(*task, time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := len(s.order) - 1; i >= 0; i-- {
		t := s.order[i]
		if (t.key == name || t.to == name) && s.sessions[t.session] == t {
			t.advance(now)
			return f(t, now)
		}
	}
	return errNoTask
}

// track keeps the open connections, for Restart.
func (s *Server) track(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, conn)
	}
}

// claim returns the task of a create, new or not. Its behaviour is chosen once.
func (s *Server) claim(c Create) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := userKey{c.User, c.Key}
	if t := s.keys[id]; t != nil && c.Key != "" {
		return t
	}
	behaviour := s.opts.Default
	for i := len(s.rules) - 1; i >= 0; i-- {
		if s.rules[i].match(c) {
			behaviour = s.rules[i].behaviour
			break
		}
	}
	t := &task{user: c.User, key: c.Key, to: c.Payload.To, behaviour: behaviour, faults: newFaults(behaviour.Faults)}
	if c.Key != "" {
		s.keys[id] = t
	}
	s.order = append(s.order, t)
	s.evict()
	return t
}

// commit gives the task its session unless it has one, and reports whether the
// answer is to be lost.
func (s *Server) commit(t *task) (session string, lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := (userKey{t.user, t.key}); t.key != "" && s.keys[id] != t {
		// A restart or Lose came in between: another call's task is the one now,
		// or the key counts anew.
		if other := s.keys[id]; other != nil {
			t = other
		} else {
			t.session = ""
			s.keys[id] = t
			s.order = append(s.order, t)
		}
	}
	if t.session == "" {
		s.next++
		t.step, t.version = 0, 0
		t.begin(s.prefix+strconv.Itoa(s.next), time.Now())
		s.sessions[t.session] = t
		s.ledger.executed(t)
	}
	s.ledger.answered++
	every := s.opts.LoseAnswerEvery
	return t.session, every > 0 && s.ledger.answered%every == 0
}

// evict drops the oldest finished tasks above the bound; a running one goes to
// the end of the row.
func (s *Server) evict() {
	now := time.Now()
	for tries := 0; len(s.order) > s.opts.MaxTasks && tries < 16; tries++ {
		t := s.order[0]
		s.order[0] = nil
		s.order = s.order[1:]
		t.advance(now)
		if t.session != "" && !t.status.Status.Terminal() && s.sessions[t.session] == t {
			s.order = append(s.order, t)
			continue
		}
		if s.sessions[t.session] == t {
			delete(s.sessions, t.session)
		}
		if id := (userKey{t.user, t.key}); s.keys[id] == t {
			delete(s.keys, id)
		}
	}
}

// pause waits for a time and a channel, unless the call or the server ends first.
func (s *Server) pause(ctx context.Context, d time.Duration, hold <-chan struct{}) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return http.ErrServerClosed
		}
	}
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return http.ErrServerClosed
	}
}
