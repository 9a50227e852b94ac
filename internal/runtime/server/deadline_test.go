package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

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
