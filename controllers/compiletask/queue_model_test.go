package compiletask

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// modelQueue says in the plainest way what queue does: it looks at every task
// for every question.
type modelQueue struct {
	tasks  map[types.UID]*modelTask
	limits map[string]int
	woken  []types.NamespacedName
}

type modelTask struct {
	ticket
	state entryState
}

func newModelQueue() *modelQueue {
	return &modelQueue{tasks: map[types.UID]*modelTask{}, limits: map[string]int{}}
}

func (m *modelQueue) put(t ticket) {
	if known, ok := m.tasks[t.uid]; ok {
		if known.runtime == t.runtime && known.target == t.target {
			known.waited = t.waited
			if t.running {
				known.state = active
			}
			return
		}
		m.forget(t.uid)
	}
	task := &modelTask{ticket: t, state: waiting}
	if t.running {
		task.state = active
	}
	m.tasks[t.uid] = task
}

func (m *modelQueue) admit(uid types.UID) verdict {
	task, ok := m.tasks[uid]
	if !ok {
		return unlisted
	}
	if task.state == active {
		return admitted
	}
	task.state = waiting
	m.fill(task.runtime, task)
	switch {
	case task.state == active:
		return admitted
	case !m.isHead(task):
		return targetBusy
	}
	return runtimeBusy
}

func (m *modelQueue) hold(uid types.UID) {
	task, ok := m.tasks[uid]
	if !ok || task.state == held {
		return
	}
	task.state = held
	m.freed(task)
}

func (m *modelQueue) forget(uid types.UID) {
	task, ok := m.tasks[uid]
	if !ok {
		return
	}
	delete(m.tasks, uid)
	m.freed(task)
}

func (m *modelQueue) setLimit(runtime string, limit int) {
	m.limits[runtime] = limit
	m.fill(runtime, nil)
}

func (m *modelQueue) freed(task *modelTask) {
	for _, other := range m.tasks {
		if other.key.Namespace == task.key.Namespace && other.target == task.target && m.isHead(other) {
			m.fill(other.runtime, nil)
			break
		}
	}
	m.fill(task.runtime, nil)
}

// isHead tells that a task waits, that nothing runs on its target, and that no
// older one waits there.
func (m *modelQueue) isHead(task *modelTask) bool {
	if task.state != waiting {
		return false
	}
	for _, other := range m.tasks {
		if other == task || other.key.Namespace != task.key.Namespace || other.target != task.target {
			continue
		}
		if other.state == active || (other.state == waiting && modelOlder(other, task)) {
			return false
		}
	}
	return true
}

func (m *modelQueue) active(runtime, namespace string) int {
	n := 0
	for _, task := range m.tasks {
		if task.state == active && task.runtime == runtime && (namespace == "" || task.key.Namespace == namespace) {
			n++
		}
	}
	return n
}

func (m *modelQueue) fill(runtime string, asking *modelTask) {
	for m.active(runtime, "") < m.limits[runtime] {
		var best *modelTask
		for _, task := range m.tasks {
			if task.runtime == runtime && m.isHead(task) && (best == nil || m.before(task, best)) {
				best = task
			}
		}
		if best == nil {
			return
		}
		best.state = active
		if best != asking {
			m.woken = append(m.woken, best.key)
		}
	}
}

// before orders by how much the namespace has already, then by age.
func (m *modelQueue) before(a, b *modelTask) bool {
	mine, theirs := m.active(a.runtime, a.key.Namespace), m.active(b.runtime, b.key.Namespace)
	if mine != theirs {
		return mine < theirs
	}
	return modelOlder(a, b)
}

func modelOlder(a, b *modelTask) bool {
	switch {
	case !a.created.Equal(b.created):
		return a.created.Before(b.created)
	case a.waited != b.waited:
		return b.waited
	}
	return a.uid < b.uid
}

// pair is a queue and its model, kept in step.
type pair struct {
	queue *queue
	model *modelQueue
	woken []types.NamespacedName
}

func newPair() *pair {
	p := &pair{model: newModelQueue()}
	p.queue = newQueue(func(key types.NamespacedName) { p.woken = append(p.woken, key) })
	return p
}

// compare fails when the two are not in the same state, or have not woken the
// same tasks since the last time.
func (p *pair) compare(t *testing.T, history func() string) {
	t.Helper()
	got, want := map[types.UID]entryState{}, map[types.UID]entryState{}
	for uid, e := range p.queue.entries {
		got[uid] = e.state
	}
	for uid, task := range p.model.tasks {
		want[uid] = task.state
	}
	if !maps.Equal(got, want) {
		t.Fatalf("states after %s (-model +queue):\n%s", history(), cmp.Diff(want, got))
	}
	byName := func(a, b types.NamespacedName) int { return slices.Compare([]byte(a.String()), []byte(b.String())) }
	slices.SortFunc(p.woken, byName)
	slices.SortFunc(p.model.woken, byName)
	if !slices.Equal(p.woken, p.model.woken) {
		t.Fatalf("woken after %s: %v, want %v", history(), p.woken, p.model.woken)
	}
	p.woken, p.model.woken = nil, nil
	p.invariants(t, history)
}

// invariants are what must hold whatever the model says.
func (p *pair) invariants(t *testing.T, history func() string) {
	t.Helper()
	running := map[string]int{}
	members := map[targetKey]int{}
	for _, e := range p.queue.entries {
		key := targetKey{e.key.Namespace, e.target}
		members[key]++
		if e.state == active {
			running[e.runtime]++
			if _, ok := p.queue.targets[key].active[e.uid]; !ok {
				t.Fatalf("after %s: %s is active and not known to its target", history(), e.uid)
			}
		}
	}
	for name, r := range p.queue.runtimes {
		inNamespaces := 0
		for _, ns := range r.namespaces {
			inNamespaces += ns.active
		}
		if r.active != running[name] || inNamespaces != r.active {
			t.Fatalf("after %s: runtime %s counts %d active, %d by namespace, has %d", history(), name, r.active, inNamespaces, running[name])
		}
	}
	for key, target := range p.queue.targets {
		if target.members != members[key] || target.members == 0 {
			t.Fatalf("after %s: target %v counts %d members, has %d", history(), key, target.members, members[key])
		}
	}
}

// requireEmpty forgets everything and looks for what is left.
func (p *pair) requireEmpty(t *testing.T, history func() string) {
	t.Helper()
	for _, uid := range slices.Sorted(maps.Keys(p.queue.entries)) {
		p.queue.forget(uid)
		p.model.forget(uid)
		p.compare(t, history)
	}
	for name := range p.model.limits {
		p.queue.dropRuntime(name)
	}
	if n := len(p.queue.entries) + len(p.queue.targets) + len(p.queue.runtimes); n != 0 {
		t.Fatalf("after %s and forgetting everything, %d entries, %d targets and %d runtimes are left",
			history(), len(p.queue.entries), len(p.queue.targets), len(p.queue.runtimes))
	}
}
