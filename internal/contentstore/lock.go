package contentstore

import (
	"strings"
	"sync"
)

// lockTable holds the roots that are being written. It knows only held locks, so
// it never grows beyond the number of running batches.
type lockTable struct {
	mu   sync.Mutex
	held map[string]struct{}
}

// acquire locks a tree, or reports false when it, a tree around it or a tree
// inside it is locked. Keys are slash-separated paths without a trailing slash.
func (t *lockTable) acquire(key string) (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other := range t.held {
		if within(key, other) || within(other, key) {
			return nil, false
		}
	}
	if t.held == nil {
		t.held = make(map[string]struct{})
	}
	t.held[key] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.held, key)
	}, true
}

func (t *lockTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// within reports whether path is root or lies below it.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/')
}
