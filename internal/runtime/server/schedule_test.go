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
	"testing/synctest"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
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

// direct is a manager without HTTP, for tests in which time is simulated.
func direct(t *testing.T, engine runtime.Engine, limits Limits) (*manager, *session.Store) {
	t.Helper()
	store, err := session.Open(session.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Engine: engine, Store: store, Limits: limits}
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	m, err := newManager(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, store
}

var someone = newPrincipal("default", "someone")

func (m *manager) mustCreate(t *testing.T, to string) string {
	t.Helper()
	got, err := m.create(t.Context(), createRequest{who: someone, payload: runtimeapi.CompilePayload{To: to}})
	if err != nil {
		t.Fatal(err)
	}
	return got.id
}

func (m *manager) mustStatus(t *testing.T, id string, wait time.Duration) session.Record {
	t.Helper()
	rec, _, err := m.status(t.Context(), id, someone.scope, awaited{wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestATaskMayWaitInTheQueueForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := DefaultLimits()
		limits.RunTime = 5 * time.Hour
		m, store := direct(t, &scriptedEngine{run: blockUntilStopped}, limits)
		first := m.mustCreate(t, "same")
		queued := m.mustCreate(t, "same")
		time.Sleep(time.Hour - time.Second)
		if got := m.mustStatus(t, queued, 0); got.Status != runtimeapi.StatusPending {
			t.Errorf("before: %+v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := m.mustStatus(t, queued, 0)
		if got.Status != runtimeapi.StatusFailed || got.Error.Code != runtimeapi.CodeDeadlineExceeded || got.Stage != "queued" {
			t.Errorf("after: %+v", got)
		}
		if rec, _, err := store.Get(queued); err != nil || rec.Status != runtimeapi.StatusFailed {
			t.Errorf("stored: %+v, %v", rec, err)
		}
		if got := m.mustStatus(t, first, 0); got.Status != runtimeapi.StatusRunning || m.admitted != 1 {
			t.Errorf("the other: %+v, admitted %d", got, m.admitted)
		}
	})
}

func TestATaskMayRunForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := direct(t, &scriptedEngine{run: blockUntilStopped}, DefaultLimits())
		id := m.mustCreate(t, "to")
		time.Sleep(time.Hour - time.Second)
		if got := m.mustStatus(t, id, 0); got.Status != runtimeapi.StatusRunning {
			t.Errorf("before: %+v", got)
		}
		got := m.mustStatus(t, id, 10*time.Second)
		if got.Status != runtimeapi.StatusFailed || got.Error.Code != runtimeapi.CodeDeadlineExceeded || got.Stage != firstStage {
			t.Errorf("after: %+v", got)
		}
	})
}

func TestAnOutcomeSavedAfterTheDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := direct(t, &scriptedEngine{run: func(ctx context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
			<-ctx.Done()
			progress("salvaging")
			time.Sleep(10 * time.Second)
			out := okOutcome()
			out.Stage = "salvaged"
			return out, nil
		}}, DefaultLimits())
		id := m.mustCreate(t, "to")
		time.Sleep(time.Hour)
		if got := m.mustStatus(t, id, time.Minute); got.Status != runtimeapi.StatusCompleted || got.Stage != "salvaged" {
			t.Errorf("ended as %+v", got)
		}
	})
}

func TestARunThatIgnoresItsDeadlineKeepsItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		m, _ := direct(t, &scriptedEngine{run: func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			<-let
			return okOutcome(), nil
		}}, DefaultLimits())
		id := m.mustCreate(t, "same")
		time.Sleep(time.Hour + 39*time.Second)
		if got := m.mustStatus(t, id, 0); got.Status != runtimeapi.StatusRunning {
			t.Errorf("within the grace: %+v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := m.mustStatus(t, id, 0)
		if got.Status != runtimeapi.StatusFailed || got.Error.Code != runtimeapi.CodeDeadlineExceeded {
			t.Errorf("after the grace: %+v", got)
		}
		next := m.mustCreate(t, "same")
		synctest.Wait()
		if got := m.mustStatus(t, next, 0); got.Status != runtimeapi.StatusPending {
			t.Errorf("a second run on the target: %+v", got)
		}
		close(let)
		if got := m.mustStatus(t, next, time.Minute); got.Status != runtimeapi.StatusCompleted {
			t.Errorf("the next: %+v", got)
		}
		if got := m.mustStatus(t, id, 0); got.Status != runtimeapi.StatusFailed {
			t.Errorf("a late outcome replaced the failure: %+v", got)
		}
	})
}

func TestACancelledRunThatIgnoresItStaysCancelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		m, _ := direct(t, &scriptedEngine{run: func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			<-let
			return okOutcome(), nil
		}}, DefaultLimits())
		id := m.mustCreate(t, "same")
		if _, err := m.cancel(t.Context(), id, someone.scope); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := m.mustStatus(t, id, 0); got.Status != runtimeapi.StatusCancelling {
			t.Errorf("before it stopped: %+v", got)
		}
		close(let)
		if got := m.mustStatus(t, id, time.Minute); got.Status != runtimeapi.StatusCancelled {
			t.Errorf("after: %+v", got)
		}
	})
}

func TestStagesReachTheDiskWithinASecondOrTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := direct(t, &scriptedEngine{run: func(ctx context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
			progress("agent")
			<-ctx.Done()
			return runtime.Outcome{}, ctx.Err()
		}}, DefaultLimits())
		id := m.mustCreate(t, "to")
		synctest.Wait()
		time.Sleep(2 * flushDelay)
		synctest.Wait()
		if rec, _, err := store.Get(id); err != nil || rec.Stage != "agent" || rec.Status != runtimeapi.StatusRunning {
			t.Errorf("stored %+v, %v", rec, err)
		}
	})
}

func TestFinishedSessionsArePruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := direct(t, &scriptedEngine{}, DefaultLimits())
		id := m.mustCreate(t, "to")
		m.mustStatus(t, id, time.Minute)
		time.Sleep(session.DefaultRecordRetention + 2*pruneEvery)
		synctest.Wait()
		if _, found, err := store.Get(id); found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
	})
}

func TestAHeldPollIsHeldForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := direct(t, &scriptedEngine{run: blockUntilStopped}, DefaultLimits())
		id := m.mustCreate(t, "to")
		start := time.Now()
		if got := m.mustStatus(t, id, 25*time.Second); got.Status != runtimeapi.StatusRunning || time.Since(start) != 25*time.Second {
			t.Errorf("after %s: %+v", time.Since(start), got)
		}
	})
}

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
