package compiletask

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// verdict is the queue's answer to a task that wants to start.
type verdict int

const (
	// admitted: the task holds its target and a slot of its runtime.
	admitted verdict = iota
	// targetBusy: another task runs on the target, or an older one waits for it.
	targetBusy
	// runtimeBusy: the runtime runs as many tasks as it may.
	runtimeBusy
	// unlisted: the queue does not know the task, or it is held out of it.
	unlisted
)

// ticket is what the queue needs to know of a task.
type ticket struct {
	uid     types.UID
	key     types.NamespacedName
	target  string
	runtime string
	created time.Time
	// waited tells that the task's status already says it waits, so that it was
	// not submitted. Of two equally old tasks the one that has not waited goes
	// first: an earlier process may have started it without a record.
	waited bool
	// version is the resource version at which this process first saw the task. Of
	// two that nobody has written to it tells which was created first, which their
	// times, in whole seconds, may not.
	version string
	// running tells that an executor may have the task: it holds its target and
	// its slot whatever the limits say.
	running bool
}

// queue decides which task may start: one at a time per (namespace, target),
// oldest first, and per runtime as many as it allows, with namespaces taking
// turns. It holds nothing that can't be rebuilt from the tasks themselves.
//
// The slices are heaps with lazy deletion: an entry that left or started stays
// in its heap until it reaches the top.
type queue struct {
	// wake is told each task that was admitted while it waited. It is called with
	// the lock held and must not call back.
	wake func(types.NamespacedName)

	mu sync.Mutex
	// gathering tells that tasks from before this process are still being put, in no
	// order, so that none may start: an older one may come. The first task that asks
	// ends it, since passes begin when all have been put.
	gathering bool
	entries   map[types.UID]*entry
	targets   map[targetKey]*targetState
	runtimes  map[string]*runtimeState
}

type targetKey struct{ namespace, target string }

type entryState int

const (
	waiting entryState = iota
	active
	held
	gone
)

type entry struct {
	ticket
	state entryState
	// listed tells that the entry stands in its namespace's heads.
	listed bool
}

type targetState struct {
	active  map[types.UID]struct{}
	waiting entryHeap
	// members counts the entries that refer to the target, so that the state
	// goes with the last of them.
	members int
}

type runtimeState struct {
	limit      int
	active     int
	namespaces map[string]*namespaceState
}

type namespaceState struct {
	active int
	heads  entryHeap
	// members counts the entries of the namespace on this runtime.
	members int
}

func newQueue(wake func(types.NamespacedName)) *queue {
	return &queue{
		wake:     wake,
		entries:  map[types.UID]*entry{},
		targets:  map[targetKey]*targetState{},
		runtimes: map[string]*runtimeState{},
	}
}

// put adds a task or brings what is known of it up to date. A task that moves to
// another runtime starts anew.
func (q *queue) put(t ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, known := q.entries[t.uid]
	if known && (e.runtime != t.runtime || e.target != t.target) {
		q.remove(e)
		known = false
	}
	if !known {
		e = &entry{ticket: t, state: waiting}
		q.entries[t.uid] = e
		target := q.targetOf(e)
		target.members++
		q.namespaceOf(e).members++
		if t.running {
			q.activate(e)
			return
		}
		q.pushWaiting(e)
		q.offerHead(e)
		return
	}
	e.waited = t.waited
	if t.running && e.state != active {
		q.activate(e)
	}
}

// gather has nothing start until a task asks to.
func (q *queue) gather() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gathering = true
}

// admit asks whether a task may start now. Once admitted it stays so until
// remove, hold or forget.
func (q *queue) admit(uid types.UID) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gathering = false
	e, ok := q.entries[uid]
	if !ok {
		return unlisted
	}
	if e.state == held {
		e.state = waiting
		q.pushWaiting(e)
	}
	if e.state == active {
		return admitted
	}
	q.offerHead(e)
	q.fill(e.runtime, e)
	switch {
	case e.state == active:
		return admitted
	case q.head(q.targetOf(e)) != e:
		return targetBusy
	default:
		return runtimeBusy
	}
}

// hold takes a task that can't start for a reason of its own out of the others'
// way until it asks again.
func (q *queue) hold(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.entries[uid]
	if !ok || e.state == held {
		return
	}
	q.deactivate(e)
	e.state = held
	q.freed(e)
}

// tied tells that another task of the same target is as old, so that nothing in the
// two objects says which of them goes first.
func (q *queue) tied(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.entries[uid]
	if !ok || q.targetOf(e).members < 2 {
		return false
	}
	return slices.ContainsFunc(q.targetOf(e).waiting, func(other *entry) bool {
		return other != e && other.state != gone && other.created.Equal(e.created)
	})
}

// forget drops a task that ended or is gone and admits those it was in the way of.
func (q *queue) forget(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e, ok := q.entries[uid]; ok {
		q.remove(e)
	}
}

// setLimit says how many tasks a runtime may run. Without a limit none may.
func (q *queue) setLimit(runtime string, limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runtimeOf(runtime).limit = limit
	q.fill(runtime, nil)
}

// dropRuntime forgets the limit of a runtime that is gone.
func (q *queue) dropRuntime(runtime string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := q.runtimes[runtime]; ok {
		r.limit = 0
		q.tidyRuntime(runtime)
	}
}

// counts says how many tasks of a runtime run and wait.
func (q *queue) counts(runtime string) (running, queued int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, ok := q.runtimes[runtime]
	if !ok {
		return 0, 0
	}
	for _, ns := range r.namespaces {
		queued += ns.members
	}
	return r.active, queued - r.active
}

func (q *queue) targetOf(e *entry) *targetState {
	key := targetKey{e.key.Namespace, e.target}
	t, ok := q.targets[key]
	if !ok {
		t = &targetState{active: map[types.UID]struct{}{}}
		q.targets[key] = t
	}
	return t
}

func (q *queue) runtimeOf(name string) *runtimeState {
	r, ok := q.runtimes[name]
	if !ok {
		r = &runtimeState{namespaces: map[string]*namespaceState{}}
		q.runtimes[name] = r
	}
	return r
}

func (q *queue) namespaceOf(e *entry) *namespaceState {
	r := q.runtimeOf(e.runtime)
	ns, ok := r.namespaces[e.key.Namespace]
	if !ok {
		ns = &namespaceState{}
		r.namespaces[e.key.Namespace] = ns
	}
	return ns
}

// head is the task that may start next on a target, nil while one runs there.
func (q *queue) head(t *targetState) *entry {
	if len(t.active) > 0 {
		return nil
	}
	for len(t.waiting) > 0 && t.waiting[0].state != waiting {
		heap.Pop(&t.waiting)
	}
	if len(t.waiting) == 0 {
		return nil
	}
	return t.waiting[0]
}

// offerHead lists the head of e's target among those its runtime may start.
func (q *queue) offerHead(e *entry) {
	head := q.head(q.targetOf(e))
	if head == nil || head.listed {
		return
	}
	ns := q.namespaceOf(head)
	if len(ns.heads) > crowded(ns.members) {
		ns.heads.keepWaiting(func(left *entry) { left.listed = false })
	}
	head.listed = true
	heap.Push(&ns.heads, head)
}

// pushWaiting lists a task among those that wait for its target.
func (q *queue) pushWaiting(e *entry) {
	t := q.targetOf(e)
	if len(t.waiting) > crowded(t.members) {
		t.waiting.keepWaiting(func(*entry) {})
	}
	heap.Push(&t.waiting, e)
}

// crowded is the length above which a heap of so many members is mostly entries
// that left without reaching the top, which they do not while nothing can start.
func crowded(members int) int { return 2*members + 16 }

// fill starts tasks on a runtime while it has room, each time from the namespace
// that runs the fewest there. asking is not woken: it hears the answer directly.
func (q *queue) fill(runtime string, asking *entry) {
	r := q.runtimeOf(runtime)
	for r.active < r.limit && !q.gathering {
		next := q.next(r)
		if next == nil {
			break
		}
		q.activate(next)
		if next != asking {
			q.wake(next.key)
		}
	}
	q.tidyRuntime(runtime)
}

func (q *queue) next(r *runtimeState) *entry {
	var best *entry
	var bestNamespace *namespaceState
	for _, ns := range r.namespaces {
		candidate := q.topHead(ns)
		if candidate == nil {
			continue
		}
		if best == nil || ns.active < bestNamespace.active || (ns.active == bestNamespace.active && older(candidate, best)) {
			best, bestNamespace = candidate, ns
		}
	}
	return best
}

// topHead is the oldest task of a namespace that is the head of its target.
func (q *queue) topHead(ns *namespaceState) *entry {
	for len(ns.heads) > 0 {
		top := ns.heads[0]
		if top.state == waiting && q.head(q.targetOf(top)) == top {
			return top
		}
		heap.Pop(&ns.heads)
		top.listed = false
	}
	return nil
}

func (q *queue) activate(e *entry) {
	e.state = active
	q.targetOf(e).active[e.uid] = struct{}{}
	q.runtimeOf(e.runtime).active++
	q.namespaceOf(e).active++
}

func (q *queue) deactivate(e *entry) {
	if e.state != active {
		return
	}
	delete(q.targetOf(e).active, e.uid)
	q.runtimeOf(e.runtime).active--
	q.namespaceOf(e).active--
}

func (q *queue) remove(e *entry) {
	q.deactivate(e)
	e.state = gone
	delete(q.entries, e.uid)
	q.targetOf(e).members--
	q.namespaceOf(e).members--
	q.freed(e)
}

// freed lets others take the place of e, which no longer waits or runs, and
// drops what is no longer referred to.
func (q *queue) freed(e *entry) {
	q.offerHead(e)
	// The next task of the target may be bound to another runtime.
	if head := q.head(q.targetOf(e)); head != nil && head.runtime != e.runtime {
		q.fill(head.runtime, nil)
	}
	if q.targetOf(e).members == 0 {
		delete(q.targets, targetKey{e.key.Namespace, e.target})
	}
	if ns := q.namespaceOf(e); ns.members == 0 {
		delete(q.runtimeOf(e.runtime).namespaces, e.key.Namespace)
	}
	q.fill(e.runtime, nil)
}

func (q *queue) tidyRuntime(name string) {
	if r, ok := q.runtimes[name]; ok && r.limit == 0 && len(r.namespaces) == 0 {
		delete(q.runtimes, name)
	}
}

// older orders tasks by age, then as ticket.waited and ticket.version say, then by
// uid.
func older(a, b *entry) bool {
	if !a.created.Equal(b.created) {
		return a.created.Before(b.created)
	}
	if a.waited != b.waited {
		return b.waited
	}
	if order, err := resourceversion.CompareResourceVersion(a.version, b.version); err == nil && order != 0 {
		return order < 0
	}
	return a.uid < b.uid
}

// entryHeap is a heap.Interface with the oldest entry on top.
type entryHeap []*entry

func (h entryHeap) Len() int           { return len(h) }
func (h entryHeap) Less(i, j int) bool { return older(h[i], h[j]) }
func (h entryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// keepWaiting drops what does not wait any more, and repetitions; dropped hears of
// the former.
func (h *entryHeap) keepWaiting(dropped func(*entry)) {
	seen := make(map[*entry]struct{}, len(*h))
	*h = slices.DeleteFunc(*h, func(e *entry) bool {
		_, again := seen[e]
		seen[e] = struct{}{}
		if e.state != waiting {
			dropped(e)
		}
		return again || e.state != waiting
	})
	heap.Init(h)
}

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) {
	if e, ok := x.(*entry); ok {
		*h = append(*h, e)
	}
}

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
