package compiletask

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ticketFor(i int, namespace, target, runtime string) ticket {
	uid := fmt.Sprintf("uid-%06d", i)
	return ticket{
		uid: types.UID(uid), key: types.NamespacedName{Namespace: namespace, Name: uid},
		target: target, runtime: runtime, created: epoch.Add(time.Duration(i) * time.Second),
	}
}

// step is one operation on both the queue and its model.
type step struct {
	name string
	do   func(t *testing.T, p *pair)
}

func stepsOf(tickets []ticket, limits map[string][]int) []step {
	var steps []step
	for _, tk := range tickets {
		running := tk
		running.running = true
		steps = append(steps,
			step{"put " + string(tk.uid) + " on " + tk.runtime, func(_ *testing.T, p *pair) { p.queue.put(tk); p.model.put(tk) }},
			step{"put running " + string(tk.uid) + " on " + tk.runtime, func(_ *testing.T, p *pair) { p.queue.put(running); p.model.put(running) }},
			step{"admit " + string(tk.uid), func(t *testing.T, p *pair) {
				t.Helper()
				if got, want := p.queue.admit(tk.uid), p.model.admit(tk.uid); got != want {
					t.Fatalf("admit %s: %v, want %v", tk.uid, got, want)
				}
			}},
			step{"hold " + string(tk.uid), func(_ *testing.T, p *pair) { p.queue.hold(tk.uid); p.model.hold(tk.uid) }},
			step{"forget " + string(tk.uid), func(_ *testing.T, p *pair) { p.queue.forget(tk.uid); p.model.forget(tk.uid) }},
		)
	}
	for runtime, values := range limits {
		for _, limit := range values {
			steps = append(steps, step{fmt.Sprintf("limit %s %d", runtime, limit), func(_ *testing.T, p *pair) {
				p.queue.setLimit(runtime, limit)
				p.model.setLimit(runtime, limit)
			}})
		}
	}
	return steps
}

func TestQueueDoesAsItsModelInEveryShortHistory(t *testing.T) {
	steps := stepsOf([]ticket{
		ticketFor(1, "a", "x", "r"), ticketFor(2, "a", "x", "r"), ticketFor(3, "b", "x", "r"),
	}, map[string][]int{"r": {0, 1, 2}})
	const depth = 3
	// Every history begins with two tasks known and one slot, so that short ones
	// get somewhere.
	begin := []step{steps[0], steps[5], steps[10], steps[16]}
	var walk func(history []step)
	walk = func(history []step) {
		if len(history) < depth {
			for _, next := range steps {
				walk(append(history[:len(history):len(history)], next))
			}
			return
		}
		p := newPair()
		all := append(begin[:len(begin):len(begin)], history...)
		for i, s := range all {
			s.do(t, p)
			p.compare(t, func() string { return namesOf(all[:i+1]) })
		}
		p.requireEmpty(t, func() string { return namesOf(all) })
	}
	walk(nil)
}

func TestQueueDoesAsItsModelInLongHistories(t *testing.T) {
	const histories, length = 60, 400
	for seed := range uint64(histories) {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := stepsOf(randomTickets(random), map[string][]int{"r": {0, 1, 2, 3}, "s": {0, 1, 5}})
		p := newPair()
		var names []step
		history := func() string { return fmt.Sprintf("seed %d: %s", seed, namesOf(names[max(0, len(names)-20):])) }
		for range length {
			s := steps[random.IntN(len(steps))]
			names = append(names, s)
			s.do(t, p)
			p.compare(t, history)
		}
		p.requireEmpty(t, history)
	}
}

// randomTickets are tasks of three namespaces on few targets; some appear on two
// runtimes, as they do when a default runtime changes, and some are equally old.
func randomTickets(random *rand.Rand) []ticket {
	var tickets []ticket
	for i := range 14 {
		runtime := []string{"r", "r", "s"}[random.IntN(3)]
		tk := ticketFor(i, string('a'+rune(random.IntN(3))), string('x'+rune(random.IntN(3))), runtime)
		tk.created = epoch.Add(time.Duration(random.IntN(8)) * time.Second)
		tk.waited = random.IntN(3) == 0
		tickets = append(tickets, tk)
		if random.IntN(4) == 0 {
			tk.runtime = "s"
			tickets = append(tickets, tk)
		}
	}
	return tickets
}

func namesOf(steps []step) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return strings.Join(names, "; ")
}

func TestQueueKeepsAgeWhateverIsLearnedOfWaiting(t *testing.T) {
	const tasks = 200
	random := rand.New(rand.NewPCG(7, 7))
	q := newQueue(func(types.NamespacedName) {})
	q.setLimit("r", 1)
	for _, i := range random.Perm(tasks) {
		tk := ticketFor(i/3, "a", "x", "r")
		tk.uid = types.UID(fmt.Sprint(i))
		q.put(tk)
		// A status write later the task comes again, and says that it has waited.
		tk.waited = random.IntN(2) == 0
		q.put(tk)
	}
	last := time.Time{}
	for range tasks {
		q.admit(types.UID("0"))
		ran := types.UID("")
		for uid, e := range q.entries {
			if e.state == active {
				ran = uid
				if e.created.Before(last) {
					t.Fatalf("%s, created %s, ran after one of %s", uid, e.created, last)
				}
				last = e.created
			}
		}
		if ran == "" {
			// The first one has ended by now; any other asks.
			for uid := range q.entries {
				q.admit(uid)
				break
			}
			continue
		}
		q.forget(ran)
	}
	if len(q.entries) > tasks/2 {
		t.Fatalf("%d of %d tasks are left", len(q.entries), tasks)
	}
}

func TestQueueSharesARuntimeBetweenNamespaces(t *testing.T) {
	q := newQueue(func(types.NamespacedName) {})
	q.setLimit("r", 4)
	for i := range 100 {
		q.put(ticketFor(i, "big", fmt.Sprint("t", i), "r"))
	}
	for i := range 4 {
		q.admit(types.UID(fmt.Sprintf("uid-%06d", i)))
	}
	// Younger than all of the other namespace, they still get every second slot.
	for i := 100; i < 110; i++ {
		q.put(ticketFor(i, "small", fmt.Sprint("t", i), "r"))
		q.admit(types.UID(fmt.Sprintf("uid-%06d", i)))
	}
	for i := range 4 {
		q.forget(types.UID(fmt.Sprintf("uid-%06d", i)))
	}
	got := map[string]int{}
	for _, e := range q.entries {
		if e.state == active {
			got[e.key.Namespace]++
		}
	}
	if got["big"] != 2 || got["small"] != 2 {
		t.Fatalf("active by namespace: %v, want 2 of each", got)
	}
}

func TestQueueForgetsWhatLeavesWhileNothingCanStart(t *testing.T) {
	const rounds, bound = 20_000, 200
	cases := map[string]struct {
		target func(i int) string
		size   func(q *queue) int
	}{
		"tasks that come and go behind one that runs on their target": {
			target: func(int) string { return "x" },
			size:   func(q *queue) int { return cap(q.targets[targetKey{"a", "x"}].waiting) },
		},
		"tasks that come and go behind a full runtime": {
			target: func(i int) string { return fmt.Sprint("t", i) },
			size:   func(q *queue) int { return cap(q.runtimes["r"].namespaces["a"].heads) },
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue(func(types.NamespacedName) {})
			q.setLimit("r", 1)
			q.put(ticketFor(0, "a", "x", "r"))
			if got := q.admit("uid-000000"); got != admitted {
				t.Fatalf("first task: %v", got)
			}
			for i := 1; i <= rounds; i++ {
				tk := ticketFor(i, "a", test.target(i), "r")
				q.put(tk)
				q.admit(tk.uid)
				q.forget(tk.uid)
			}
			if size := test.size(q); size > bound {
				t.Fatalf("%d places for entries that are gone", size)
			}
		})
	}
}

func TestQueueCountsAndDrops(t *testing.T) {
	q := newQueue(func(types.NamespacedName) {})
	q.setLimit("r", 1)
	for i := range 3 {
		q.put(ticketFor(i, "a", fmt.Sprint(i), "r"))
	}
	q.admit("uid-000000")
	if running, queued := q.counts("r"); running != 1 || queued != 2 {
		t.Fatalf("counts: %d running, %d waiting; want 1 and 2", running, queued)
	}
	if running, queued := q.counts("unknown"); running != 0 || queued != 0 {
		t.Fatalf("counts of an unknown runtime: %d, %d", running, queued)
	}
	q.dropRuntime("r")
	if got := q.admit("uid-000001"); got != runtimeBusy {
		t.Fatalf("admit on a runtime that is gone: %v, want runtimeBusy", got)
	}
	if got := q.admit("nobody"); got != unlisted {
		t.Fatalf("admit of an unknown task: %v, want unlisted", got)
	}
}

func BenchmarkQueue100k(b *testing.B) {
	const tasks = 100_000
	for b.Loop() {
		q := newQueue(func(types.NamespacedName) {})
		q.setLimit("r", 100)
		for i := range tasks {
			q.put(ticketFor(i, fmt.Sprint("ns", i%50), fmt.Sprint("t", i%20_000), "r"))
		}
		for i := range tasks {
			uid := types.UID(fmt.Sprintf("uid-%06d", i))
			q.admit(uid)
			q.forget(uid)
		}
		if len(q.entries) != 0 {
			b.Fatal("tasks are left")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
}
