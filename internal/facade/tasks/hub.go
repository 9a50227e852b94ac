package tasks

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// ErrTooManyWatches says that the store has as many watches as it may. It comes
// together with an error of apierrors.IsTooManyRequests.
var ErrTooManyWatches = errors.New("too many watches of CompileTasks")

// hub gives each change of a task to those who watch it. A state is offered in O(1):
// it takes the place of one that the reader has not fetched.
type hub struct {
	mu       sync.Mutex
	max      int
	count    int
	watchers map[types.UID][]*watcher
}

// watcher is one reader of one task. Its fields are guarded by the hub's lock.
type watcher struct {
	uid     types.UID
	changes chan *v1alpha1.CompileTask
	// version is that of the newest state offered.
	version string
	closed  bool
	// detach ends the wait for the reader's context.
	detach func() bool
}

func newHub(size int) *hub { return &hub{max: size, watchers: map[types.UID][]*watcher{}} }

// add begins a watch of what is newer than the task. It ends with ctx.
func (h *hub) add(ctx context.Context, task *v1alpha1.CompileTask) (*watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.max {
		return nil, errors.Join(ErrTooManyWatches, apierrors.NewTooManyRequests("too many tasks are watched", 1))
	}
	w := &watcher{uid: task.UID, changes: make(chan *v1alpha1.CompileTask, 1), version: task.ResourceVersion}
	h.watchers[task.UID] = append(h.watchers[task.UID], w)
	h.count++
	w.detach = context.AfterFunc(ctx, func() { h.remove(w) })
	return w, nil
}

// publish offers a state to all who watch the task.
func (h *hub) publish(task *v1alpha1.CompileTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watchers[task.UID] {
		w.offer(task)
	}
}

// gone ends all watches of a task that is not there any more. A state that was not
// fetched yet still is.
func (h *hub) gone(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watchers[uid] {
		h.close(w)
	}
	delete(h.watchers, uid)
}

// remove ends one watch; it may have ended before.
func (h *hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.closed {
		return
	}
	h.close(w)
	left := slices.DeleteFunc(h.watchers[w.uid], func(other *watcher) bool { return other == w })
	if len(left) == 0 {
		delete(h.watchers, w.uid)
		return
	}
	h.watchers[w.uid] = left
}

func (h *hub) close(w *watcher) {
	w.closed = true
	w.detach()
	close(w.changes)
	h.count--
}

// offer needs the hub's lock, which makes it the only sender.
func (w *watcher) offer(task *v1alpha1.CompileTask) {
	if w.closed || !newer(task.ResourceVersion, w.version) {
		return
	}
	w.version = task.ResourceVersion
	select {
	case <-w.changes:
	default:
	}
	w.changes <- task
}
