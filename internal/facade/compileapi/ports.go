package compileapi

import (
	"context"
	"encoding/json"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/viking"
)

// Tasks is where CompileTasks are kept. What it returns may be shared and must not
// be changed. Its errors are those of the API server; a task that is not there is
// one of apierrors.IsNotFound. It is what this package needs of *tasks.Store.
type Tasks interface {
	// Find returns the namespace's task of a wire id, as new as the caller's own
	// last write. A task that visible refuses is not there.
	Find(ctx context.Context, namespace, id string, visible func(*v1alpha1.CompileTask) bool) (*v1alpha1.CompileTask, error)
	// List returns the tasks that fit the query, newest first, and whether there
	// are more of them.
	List(ctx context.Context, query tasks.Query) (found []*v1alpha1.CompileTask, more bool, err error)
	// ByName returns the namespace's task of an object name, read live where the
	// cache has none.
	ByName(ctx context.Context, namespace, name string) (*v1alpha1.CompileTask, error)
	// Create stores a task as the user.
	Create(ctx context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error)
	// Cancel asks, as the user, for the task to stop, and returns it as it is then.
	Cancel(ctx context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error)
	// Watch sends the newest state of the task whenever it is newer than what was
	// sent last, task itself being the first; a reader that is slow misses states,
	// never the last one. The channel is closed when the task is gone or ctx ends.
	Watch(ctx context.Context, task *v1alpha1.CompileTask) (<-chan *v1alpha1.CompileTask, error)
	// Args returns the task's public args in their exact text, nil when it has none.
	Args(ctx context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error)
	// Result returns the task's result, nil when it has none.
	Result(ctx context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error)
}

// Runtimes says what a new task would run on.
type Runtimes interface {
	// Default is the AgentRuntime that new tasks get, nil when none is marked.
	Default(ctx context.Context) (*v1alpha1.AgentRuntime, error)
	// Content is where the files behind viking:// URIs can be looked up for that
	// runtime and caller, nil when that is not configured.
	Content(ctx context.Context, runtime *v1alpha1.AgentRuntime, caller access.Caller) (Content, error)
}

// Content looks files up. Its errors are those of the package contentstore.
type Content interface {
	// Stat describes what stands at uri.
	Stat(ctx context.Context, who contentstore.Principal, uri viking.URI) (contentstore.Info, error)
}

var _ Tasks = (*tasks.Store)(nil)

// KeyRings holds the key ring under which tasks are marked and bodies sealed.
type KeyRings interface {
	// Ring is the ring as it is now.
	Ring(ctx context.Context) (*sealed.KeyRing, error)
}
