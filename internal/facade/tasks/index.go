package tasks

import (
	"sync"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// degree of the trees: wide enough that 100,000 tasks lie four nodes deep.
const degree = 32

// index has the newest state of each task that the informer holds, and no others. A
// change or a look-up takes O(log n) of its time, a part of a list O(log n + part).
type index struct {
	mu     sync.RWMutex
	byName map[types.NamespacedName]*v1alpha1.CompileTask
	byID   map[wireKey]*v1alpha1.CompileTask
	// all and own order tasks for lists: of a namespace, and of one requester in it.
	all, own *btree.BTreeG[item]
}

// wireKey is a wire id within its namespace.
type wireKey struct{ namespace, id string }

// item is a task in a tree. A tree of own tasks has the requester's name first.
type item struct {
	scope
	place Place
	uid   types.UID
	task  *v1alpha1.CompileTask
}

// scope is what a list is of: a namespace, and a requester unless it is of all.
type scope struct{ namespace, requester string }

func (s scope) has(task *v1alpha1.CompileTask) bool {
	return s.namespace == task.Namespace && (s.requester == "" || s.requester == task.Spec.Requester.Username)
}

func newIndex() *index {
	return &index{
		byName: map[types.NamespacedName]*v1alpha1.CompileTask{},
		byID:   map[wireKey]*v1alpha1.CompileTask{},
		all:    btree.NewG(degree, before),
		own:    btree.NewG(degree, before),
	}
}

func before(a, b item) bool {
	switch {
	case a.namespace != b.namespace:
		return a.namespace < b.namespace
	case a.requester != b.requester:
		return a.requester < b.requester
	}
	if order := a.place.compare(b.place); order != 0 {
		return order < 0
	}
	// An object's name can be chosen so that two have one id; both are listed.
	return a.uid < b.uid
}

// put takes in a task, in place of what has its name. It returns a task of the same
// name that was another one, if there was.
func (x *index) put(task *v1alpha1.CompileTask) (replaced *v1alpha1.CompileTask) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.byName[keyOf(task)]; old != nil {
		x.drop(old)
		if old.UID != task.UID {
			replaced = old
		}
	}
	place := placeOf(task)
	x.byName[keyOf(task)] = task
	x.byID[wireKey{task.Namespace, place.ID}] = task
	x.all.ReplaceOrInsert(itemOf(task, place, ""))
	x.own.ReplaceOrInsert(itemOf(task, place, task.Spec.Requester.Username))
	return replaced
}

// remove takes the task out, unless another has its name by now.
func (x *index) remove(task *v1alpha1.CompileTask) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.byName[keyOf(task)]; old != nil && old.UID == task.UID {
		x.drop(old)
	}
}

func (x *index) drop(old *v1alpha1.CompileTask) {
	place := placeOf(old)
	delete(x.byName, keyOf(old))
	if id := (wireKey{old.Namespace, place.ID}); x.byID[id] == old {
		delete(x.byID, id)
	}
	x.all.Delete(itemOf(old, place, ""))
	x.own.Delete(itemOf(old, place, old.Spec.Requester.Username))
}

func itemOf(task *v1alpha1.CompileTask, place Place, requester string) item {
	return item{scope: scope{task.Namespace, requester}, place: place, uid: task.UID, task: task}
}

// named returns the task of a name, nil when there is none.
func (x *index) named(key types.NamespacedName) *v1alpha1.CompileTask {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byName[key]
}

// withID returns the task of a wire id, nil when there is none.
func (x *index) withID(namespace, id string) *v1alpha1.CompileTask {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byID[wireKey{namespace, id}]
}

// next fills out, up to its capacity, with the tasks of the scope that come after the
// position, and returns the position of the last one.
func (x *index) next(out []*v1alpha1.CompileTask, of scope, after position) ([]*v1alpha1.CompileTask, position) {
	tree := x.all
	if of.requester != "" {
		tree = x.own
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	start, last := item{scope: of, place: after.place, uid: after.uid}, after
	tree.AscendGreaterOrEqual(start, func(i item) bool {
		if i.scope != of || len(out) == cap(out) {
			return false
		}
		if after.before(i) {
			out, last = append(out, i.task), position{place: i.place, uid: i.uid}
		}
		return true
	})
	return out, last
}
