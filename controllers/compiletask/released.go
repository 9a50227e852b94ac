package compiletask

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// released holds the tasks whose finalizer this process is taking off or has taken
// off, until the cache shows it. A task is added before the write leaves, so that
// the event that drops it can't come first.
type released struct {
	mu  sync.Mutex
	all map[types.UID]struct{}
}

func newReleased() *released { return &released{all: map[types.UID]struct{}{}} }

// add reports whether the task was not there yet.
func (r *released) add(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.all[uid]
	r.all[uid] = struct{}{}
	return !there
}

func (r *released) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, uid)
}
