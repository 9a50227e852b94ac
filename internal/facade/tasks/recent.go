package tasks

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// recent remembers, for a short time, what this process has written or read live and
// the informer may not have yet. Beyond its bound the oldest is forgotten: a task
// that the index lacks is still found live.
type recent struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	ttl   time.Duration
	max   int
	// order has *sighting, the oldest in front.
	order  *list.List
	byName map[types.NamespacedName]*list.Element
}

// sighting is a state of a task as the API server gave it.
type sighting struct {
	task *v1alpha1.CompileTask
	at   time.Time
}

func newRecent(c clock.PassiveClock, ttl time.Duration, size int) *recent {
	return &recent{clock: c, ttl: ttl, max: size, order: list.New(), byName: map[types.NamespacedName]*list.Element{}}
}

// note remembers a state, unless a newer one of the same task is known.
func (r *recent) note(task *v1alpha1.CompileTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if element := r.byName[keyOf(task)]; element != nil {
		if known := sightingOf(element).task; known.UID == task.UID && newer(known.ResourceVersion, task.ResourceVersion) {
			return
		}
		r.drop(element)
	}
	for r.order.Len() >= r.max {
		r.drop(r.order.Front())
	}
	r.byName[keyOf(task)] = r.order.PushBack(&sighting{task: task, at: r.clock.Now()})
}

// seen forgets what the informer has brought in that state or a newer one.
func (r *recent) seen(task *v1alpha1.CompileTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if element := r.byName[keyOf(task)]; element != nil && !newer(sightingOf(element).task.ResourceVersion, task.ResourceVersion) {
		r.drop(element)
	}
}

// gone forgets a task that the API server no longer has.
func (r *recent) gone(key types.NamespacedName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if element := r.byName[key]; element != nil && sightingOf(element).task.UID == uid {
		r.drop(element)
	}
}

// named returns the state remembered for a name, nil when there is none.
func (r *recent) named(key types.NamespacedName) *v1alpha1.CompileTask {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if element := r.byName[key]; element != nil {
		return sightingOf(element).task
	}
	return nil
}

// newest returns the newer of the task and the state remembered for it.
func (r *recent) newest(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	if known := r.named(keyOf(task)); known != nil && newer(known.ResourceVersion, task.ResourceVersion) {
		return known
	}
	return task
}

// sightings are the states remembered of a scope.
type sightings map[types.NamespacedName]*v1alpha1.CompileTask

// newest returns the newer of the task and the state remembered for it.
func (s sightings) newest(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	if len(s) == 0 {
		return task
	}
	if known := s[keyOf(task)]; known != nil && newer(known.ResourceVersion, task.ResourceVersion) {
		return known
	}
	return task
}

// all returns what is remembered of the scope.
func (r *recent) all(of scope) sightings {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	var out sightings
	for element := r.order.Front(); element != nil; element = element.Next() {
		if task := sightingOf(element).task; of.has(task) {
			if out == nil {
				out = sightings{}
			}
			out[keyOf(task)] = task
		}
	}
	return out
}

func (r *recent) expire() {
	oldest := r.clock.Now().Add(-r.ttl)
	for element := r.order.Front(); element != nil && !sightingOf(element).at.After(oldest); element = r.order.Front() {
		r.drop(element)
	}
}

func (r *recent) drop(element *list.Element) {
	delete(r.byName, keyOf(sightingOf(element).task))
	r.order.Remove(element)
}

func sightingOf(element *list.Element) *sighting {
	return element.Value.(*sighting) //nolint:errcheck // the list holds nothing else
}
