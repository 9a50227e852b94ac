package tasks

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var idPattern = regexp.MustCompile(`^cmp_[0-9a-f]{32}$`)

// foreignSuffix makes a name that no object can have, for names have no capitals.
const foreignSuffix = "-FOREIGN"

// Find returns the namespace's task of a wire id, at least as new as this process's
// own last write of it. Where there is none it looks live under the name that the id
// stands for. Where visible refuses it, it looks live for what can't be there: so a
// task of somebody else's can't be told from none, neither by the error, which is the
// same of apierrors.IsNotFound, nor by the time that a task takes to be read. What
// visible says of a task must not change while it exists. Other errors are those of
// the live read.
func (s *Store) Find(ctx context.Context, namespace, id string, visible func(*v1alpha1.CompileTask) bool) (*v1alpha1.CompileTask, error) {
	if !idPattern.MatchString(id) {
		return nil, notFound(id)
	}
	key := types.NamespacedName{Namespace: namespace, Name: "cmp-" + strings.TrimPrefix(id, v1alpha1.TaskIDPrefix)}
	cached := s.index.withID(namespace, id)
	switch {
	case cached == nil:
	case !visible(cached):
		key.Name += foreignSuffix
	case s.recent.newest(cached) == cached:
		return cached, nil
	default:
		key = keyOf(cached)
	}
	task, err := s.fresh(ctx, key)
	switch {
	case apierrors.IsNotFound(err), err == nil && !visible(task), err == nil && task.TaskID() != id:
		return nil, notFound(id)
	case err != nil:
		return nil, err
	}
	return task, nil
}

// ByName returns the namespace's task of an object name, at least as new as this
// process's own last write of it, read live where the cache has none. One that is not
// there is an error of apierrors.IsNotFound.
func (s *Store) ByName(ctx context.Context, namespace, name string) (*v1alpha1.CompileTask, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if cached := s.index.named(key); cached != nil && s.recent.newest(cached) == cached {
		return cached, nil
	}
	return s.fresh(ctx, key)
}

// fresh reads live what the cache has not, or has too old. When that fails, the state
// of the own write answers: it is newer than the cache.
func (s *Store) fresh(ctx context.Context, key types.NamespacedName) (*v1alpha1.CompileTask, error) {
	task, err := s.read(ctx, key)
	if err != nil && !apierrors.IsNotFound(err) {
		if own := s.recent.named(key); own != nil && ctx.Err() == nil {
			return own, nil
		}
	}
	return task, err
}

// read reads live, and has the store know what it has read: a later read must not
// show an older state.
func (s *Store) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.CompileTask, error) {
	known, task := s.recent.named(key), &v1alpha1.CompileTask{}
	if err := s.live.Get(ctx, key, task); err != nil {
		// What was written since the read began may be there.
		if apierrors.IsNotFound(err) && known != nil {
			s.recent.gone(key, known.UID)
		}
		return nil, fmt.Errorf("get CompileTask %s: %w", key, err)
	}
	return s.learn(task), nil
}

// learn takes in a state that the API server has just given.
func (s *Store) learn(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	trim(task)
	if cached := s.index.named(keyOf(task)); cached == nil || cached.UID != task.UID || newer(task.ResourceVersion, cached.ResourceVersion) {
		s.recent.note(task)
	}
	s.hub.publish(task)
	return task
}

// Watch sends the newest state of the task whenever it is newer than what was sent
// last; the task itself counts as sent. A change between the caller's read of the task
// and Watch is not lost. A reader that is slow misses states, never the last one. The
// channel is closed when the task is gone or ctx ends; ctx must end some time. Errors
// are ErrTooManyWatches and those of a live read.
func (s *Store) Watch(ctx context.Context, task *v1alpha1.CompileTask) (<-chan *v1alpha1.CompileTask, error) {
	w, err := s.hub.add(ctx, task)
	if err != nil {
		return nil, err
	}
	// Only now: what comes between the look and the beginning of a watch is lost.
	if err := s.catchUp(ctx, task); err != nil {
		s.hub.remove(w)
		return nil, err
	}
	return w.changes, nil
}

// catchUp offers a new watcher what came before it. A task that the index lacks is
// either too new for it or gone already, and only the API server knows.
func (s *Store) catchUp(ctx context.Context, task *v1alpha1.CompileTask) error {
	now := s.index.named(keyOf(task))
	if now == nil || now.UID != task.UID {
		live, err := s.read(ctx, keyOf(task))
		if apierrors.IsNotFound(err) || err == nil && live.UID != task.UID {
			s.hub.gone(task.UID)
			return nil
		}
		return err
	}
	s.hub.publish(s.recent.newest(now))
	return nil
}

// resource is what errors name.
var resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "compiletasks"}

// notFound is the one answer for all that is not to be seen.
func notFound(name string) error {
	return apierrors.NewNotFound(resource, name)
}
