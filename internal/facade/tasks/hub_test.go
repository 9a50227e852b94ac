package tasks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// stage returns the next state's stage, or what else happened.
func stage(changes <-chan *v1alpha1.CompileTask) string {
	select {
	case task, open := <-changes:
		if !open {
			return "closed"
		}
		return task.Status.Stage
	default:
		return "nothing"
	}
}

func stageIs(stage string) func(*v1alpha1.CompileTask) {
	return func(task *v1alpha1.CompileTask) { task.Status.Stage = stage }
}

func want(t *testing.T, changes <-chan *v1alpha1.CompileTask, stages ...string) {
	t.Helper()
	for _, wanted := range stages {
		if got := stage(changes); got != wanted {
			t.Fatalf("got %s, want %s", got, wanted)
		}
	}
}

func TestASlowReaderGetsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Limits{})
		task := r.sync(r.server.put(newTask(1)))
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := r.Watch(ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		want(t, changes, "nothing")
		one := r.server.change(task, stageIs("one"))
		r.sync(one)
		want(t, changes, "one", "nothing")
		r.sync(one) // a resync
		want(t, changes, "nothing")
		for n := range 100 {
			r.sync(r.server.change(task, stageIs(fmt.Sprint(n))))
		}
		want(t, changes, "99", "nothing")
		r.sync(r.server.put(newTask(2))) // another's change
		want(t, changes, "nothing")
		cancel()
		synctest.Wait()
		want(t, changes, "closed")
		if r.hub.count != 0 || len(r.hub.watchers) != 0 {
			t.Error("the hub keeps something")
		}
	})
}

func TestAChangeBeforeTheWatchIsNotLost(t *testing.T) {
	r := newRig(t, Limits{})
	task := r.sync(r.server.put(newTask(1)))
	r.sync(r.server.change(task, stageIs("between")))
	changes, err := r.Watch(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	want(t, changes, "between", "nothing")
	// Own writes count before the informer brings them.
	if _, err := r.Cancel(t.Context(), alice, task); err != nil {
		t.Fatal(err)
	}
	if got := <-changes; !got.Spec.Cancel {
		t.Error("the own write is not told")
	}
	late, err := r.Watch(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-late; !got.Spec.Cancel {
		t.Error("the own write is not told to a later watch")
	}
}

func TestTheEndOfATaskEndsItsWatches(t *testing.T) {
	r := newRig(t, Limits{})
	task := r.sync(r.server.put(newTask(1)))
	changes, err := r.Watch(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	last := r.sync(r.server.change(task, stageIs("last")))
	delete(r.server.tasks, keyOf(task))
	r.forget(last)
	want(t, changes, "last", "closed")

	gone, err := r.Watch(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	want(t, gone, "closed")

	// A relist may show only the next task of the name.
	again := r.sync(r.server.put(newTask(1)))
	replaced, err := r.Watch(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	next := newTask(1)
	next.UID = "next"
	r.sync(r.server.put(next))
	want(t, replaced, "closed")
	earlier, err := r.Watch(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	want(t, earlier, "closed")
}

func TestATaskTooNewForTheCacheCanBeWatched(t *testing.T) {
	r := newRig(t, Limits{Watches: 1})
	created, err := r.Create(t.Context(), alice, newTask(1))
	if err != nil {
		t.Fatal(err)
	}
	r.server.change(created, stageIs("since"))
	r.server.getErr = apierrors.NewServiceUnavailable("away")
	if _, err := r.Watch(t.Context(), created); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("watched: %v", err)
	}
	r.server.getErr = nil
	changes, err := r.Watch(t.Context(), created)
	if err != nil {
		t.Fatal("the failed watch still counts", err)
	}
	want(t, changes, "since", "nothing")
}

func TestWatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5000
		r := newRig(t, Limits{Watches: most})
		task := r.sync(r.server.put(newTask(1)))
		ctx, cancel := context.WithCancel(t.Context())
		all := make([]<-chan *v1alpha1.CompileTask, most)
		for i := range all {
			var err error
			if all[i], err = r.Watch(ctx, task); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Watch(ctx, task); !errors.Is(err, ErrTooManyWatches) || !apierrors.IsTooManyRequests(err) {
			t.Errorf("one too many: %v", err)
		}
		r.sync(r.server.change(task, stageIs("told")))
		for _, changes := range all {
			want(t, changes, "told", "nothing")
		}
		cancel()
		synctest.Wait()
		for _, changes := range all {
			want(t, changes, "closed")
		}
		if changes, err := r.Watch(t.Context(), task); err != nil || stage(changes) != "told" {
			t.Error("ended watches still count", err)
		}
	})
}
