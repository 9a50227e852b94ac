package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestDefaultLimits(t *testing.T) {
	want := Limits{
		Admitted: 40, AdmittedPerUser: 10, Running: 10, QueueWait: 3600 * time.Second, RunTime: 3600 * time.Second,
		CleanupGrace: 40 * time.Second, HeldPolls: 1024,
	}
	if got := DefaultLimits(); got != want || got.Validate() != nil {
		t.Errorf("limits %+v, %v", got, got.Validate())
	}
	if err := (Limits{}).Validate(); err == nil {
		t.Error("no limits are valid")
	}
}

func TestAdmissionIsBounded(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Admitted, c.Limits.AdmittedPerUser, c.Limits.Running = 5, 3, 2 })
	g := newGate()
	s.engine.run = g.run
	ids := map[string]string{} // session -> user
	create := func(key string) answer {
		n := len(ids)
		a := s.post(runtimeapi.PathTasks, taskBody(fmt.Sprintf("viking://resources/%d", n)),
			user(key, runtimeapi.HeaderIdempotencyKey, fmt.Sprintf("cmp_%d", n)))
		if a.code == 202 {
			ids[a.session()] = key
		}
		return a
	}
	refused := func(what string, a answer) {
		t.Helper()
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.code != 429 || a.errorCode() != runtimeapi.CodeResourceExhausted ||
			a.message() != "Compile task admission limit exceeded." || err != nil || after < 1 {
			t.Errorf("%s: %d %s, Retry-After %q", what, a.code, a.body, a.header.Get("Retry-After"))
		}
	}
	for range 3 {
		create(alice)
	}
	refused("a user's fourth", create(alice))
	create(bob)
	create(bob)
	refused("the sixth of all", create("carol"))
	if len(ids) != 5 {
		t.Fatalf("%d admitted", len(ids))
	}
	for id, key := range ids {
		if key != alice {
			continue
		}
		a := s.post(runtimeapi.PathTasks, taskBody(wiki), user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_0"))
		if a.code != 202 || ids[a.session()] != alice {
			t.Errorf("a replay of %s while full = %d %s", id, a.code, a.body)
		}
	}
	if _, ran := s.engine.counts(); ran != 2 {
		t.Errorf("%d run at once, want 2", ran)
	}
	close(g.let)
	for id, key := range ids {
		s.end(id, key)
	}
	s.end(s.create(wiki, user("carol")), "carol")
	s.assertIdle()
}

// assertIdle checks that a server that has nothing to do keeps nothing.
func (s *stack) assertIdle() {
	s.t.Helper()
	m := s.server.manager
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		idle := len(m.entries)+len(m.queue)+len(m.busy)+len(m.perUser)+m.admitted+m.running+m.held == 0
		state := fmt.Sprintf("%d entries, %d queued, %d busy, users %v, admitted %d, running %d, held %d",
			len(m.entries), len(m.queue), len(m.busy), m.perUser, m.admitted, m.running, m.held)
		m.mu.Unlock()
		if idle {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(state)
		}
	}
}

func TestTablesDoNotGrowWithMisses(t *testing.T) {
	s := newStack(t)
	for i := range 200 {
		s.status(fmt.Sprintf("ses_%d", i), alice)
		s.cancel(fmt.Sprintf("ses_%d", i), alice)
	}
	s.assertIdle()
}

func TestOneRunPerTargetInOrder(t *testing.T) {
	s := newStack(t, func(c *Config) { c.TrustLoopbackIdentity = true })
	g := newGate()
	s.engine.run = g.run
	in := func(account, user string) headers {
		return headers{runtimeapi.HeaderAccount, account, runtimeapi.HeaderUser, user}
	}
	s.create("viking://resources/a", in("one", "u1"))
	s.create("viking://resources/a", in("one", "u2")) // Another user of the account waits too.
	s.create("viking://resources/a", in("one", "u1"))
	s.create("viking://resources/a", in("two", "u1")) // Another account does not.
	s.create("viking://resources/b", in("one", "u1")) // Nor does another target.

	for range 3 {
		receive(t, g.began)
	}
	if _, ran := s.engine.counts(); ran != 3 {
		t.Errorf("%d run at once, want 3", ran)
	}
	close(g.let)
	receive(t, g.began)
	receive(t, g.began)
	s.assertIdle()
	var users []string
	for _, task := range s.engine.ran {
		if task.Principal.Account == "one" && task.To == "viking://resources/a" {
			users = append(users, task.Principal.User)
		}
	}
	if !slices.Equal(users, []string{"u1", "u2", "u1"}) {
		t.Errorf("order %v", users)
	}
}

func TestNoTwoRunsShareATargetUnderLoad(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Admitted, c.Limits.AdmittedPerUser, c.Limits.Running = 400, 400, 4 })
	var targets sync.Map
	var running, most atomic.Int32
	s.engine.run = func(_ context.Context, task runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
		if _, busy := targets.LoadOrStore(task.To, true); busy {
			t.Errorf("two runs on %s", task.To)
		}
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		progress("agent")
		progress("writing")
		running.Add(-1)
		targets.Delete(task.To)
		return okOutcome(), nil
	}
	var wg sync.WaitGroup
	for i := range 120 {
		wg.Go(func() {
			key := fmt.Sprintf("user-%d", i%7)
			id := s.create(fmt.Sprintf("viking://resources/%d", i%5), user(key))
			if i%6 == 0 {
				s.cancel(id, key)
			}
			s.end(id, key)
		})
	}
	wg.Wait()
	s.assertIdle()
	if most.Load() > 4 {
		t.Errorf("%d ran at once, want at most 4", most.Load())
	}
}

var someone = newPrincipal("default", "someone")

func TestManyCreatesAtOnce(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Admitted, c.Limits.AdmittedPerUser = 1000, 1000 })
	var wg sync.WaitGroup
	start := time.Now()
	for i := range 64 {
		wg.Go(func() {
			for j := range 5 {
				id := s.create(fmt.Sprintf("viking://resources/%d/%d", i, j), user(alice, runtimeapi.HeaderIdempotencyKey, fmt.Sprintf("cmp_%d_%d", i, j)))
				if a := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=20"); a.code != http.StatusOK {
					t.Errorf("status = %d %s", a.code, a.body)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("320 tasks from create to end in %s", time.Since(start))
	s.assertIdle()
}
