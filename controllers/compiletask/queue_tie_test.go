package compiletask

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// twins are two tasks of one target that were created in the same second.
func twins() (first, second ticket) {
	first, second = ticketFor(2, "a", "x", "r"), ticketFor(1, "a", "x", "r")
	second.created = first.created
	first.version, second.version = "99", "100"
	return first, second
}

func TestOfTwinsTheOneSeenFirstGoesFirst(t *testing.T) {
	first, second := twins()
	q := newQueue(func(types.NamespacedName) {})
	q.setLimit("r", 10)
	q.put(second)
	q.put(first)
	if got := q.admit(second.uid); got != targetBusy {
		t.Errorf("admit the second: %v, want %v", got, targetBusy)
	}
	if got := q.admit(first.uid); got != admitted {
		t.Errorf("admit the first: %v, want %v", got, admitted)
	}
}

func TestTied(t *testing.T) {
	first, second := twins()
	later := ticketFor(3, "a", "x", "r")
	elsewhere := first
	elsewhere.uid, elsewhere.target = "elsewhere", "y"
	running := second
	running.running = true
	cases := map[string]struct {
		others []ticket
		forget bool
		want   bool
	}{
		"a task alone is not tied":                               {nil, false, false},
		"a task is tied with one as old that waits":              {[]ticket{second}, false, true},
		"a task is not tied with a younger one":                  {[]ticket{later}, false, false},
		"a task is not tied with one of another target":          {[]ticket{elsewhere}, false, false},
		"a task is not tied with one that is on record":          {[]ticket{running}, false, false},
		"a task is not tied with one that has left, if unlisted": {[]ticket{second}, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(func(types.NamespacedName) {})
			q.put(first)
			for _, other := range c.others {
				q.put(other)
				if c.forget {
					q.forget(other.uid)
				}
			}
			if got := q.tied(first.uid); got != c.want {
				t.Errorf("tied: %v, want %v", got, c.want)
			}
		})
	}
	if newQueue(nil).tied("unknown") {
		t.Error("an unknown task is tied")
	}
}

func TestAmbiguous(t *testing.T) {
	first, second := twins()
	cases := map[string]struct {
		waits bool
		twin  bool
		age   time.Duration
		want  bool
	}{
		"a task that never waited is not":               {false, true, 0, false},
		"a task that waited beside its twin is":         {true, true, time.Minute, true},
		"a task that waited and may get a twin is":      {true, false, time.Second, true},
		"a task that waited and can't get a twin isn't": {true, false, time.Minute, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{queue: newQueue(func(types.NamespacedName) {})}
			r.queue.put(first)
			if c.twin {
				r.queue.put(second)
			}
			task := waitingTask(first, c.waits)
			if got := r.ambiguous(&scope{task: task, now: first.created.Add(c.age)}); got != c.want {
				t.Errorf("ambiguous: %v, want %v", got, c.want)
			}
		})
	}
}

// waitingTask is the object of a ticket, and says that it waits if it does.
func waitingTask(t ticket, waits bool) *v1alpha1.CompileTask {
	task := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.key.Namespace, Name: t.key.Name, UID: t.uid, CreationTimestamp: metav1.Time{Time: t.created},
	}}
	if waits {
		task.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionSubmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTargetBusy,
		}}
	}
	return task
}

func TestNothingStartsWhileTasksAreGathered(t *testing.T) {
	older, younger := ticketFor(1, "a", "x", "r"), ticketFor(2, "a", "x", "r")
	var woken []types.NamespacedName
	q := newQueue(func(key types.NamespacedName) { woken = append(woken, key) })
	q.gather()
	q.put(younger)
	q.setLimit("r", 10)
	if running, _ := q.counts("r"); running != 0 || len(woken) != 0 {
		t.Fatalf("%d run and %v are woken before all tasks are known", running, woken)
	}
	q.put(older)
	if got := q.admit(younger.uid); got != targetBusy {
		t.Errorf("admit the younger: %v, want %v", got, targetBusy)
	}
	if got := q.admit(older.uid); got != admitted {
		t.Errorf("admit the older: %v, want %v", got, admitted)
	}
}
