package compileapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/viking"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func newRing(t testing.TB) *sealed.KeyRing {
	t.Helper()
	data, err := sealed.AddNameKey(sealed.GenerateKeyRingData())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sealed.ParseKeyRing(data)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

type fixedRing struct{ ring *sealed.KeyRing }

func (f fixedRing) Ring(context.Context) (*sealed.KeyRing, error) { return f.ring, nil }

func notFound(name string) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("compiletasks").GroupResource(), name)
}

// memoryTasks keeps tasks in memory, as the real store does in the API server.
type memoryTasks struct {
	ring *sealed.KeyRing
	// createErr, when set, is what Create says; createRace runs before it looks.
	createErr  error
	createRace func()
	cancelErr  error
	cancelRace func(*v1alpha1.CompileTask)
	resultErr  error
	result     json.RawMessage
	listErr    error

	mu       sync.Mutex
	version  int
	creates  int
	cancels  int
	tasks    map[string]*v1alpha1.CompileTask
	watchers map[string][]chan *v1alpha1.CompileTask
}

func newMemoryTasks(ring *sealed.KeyRing) *memoryTasks {
	return &memoryTasks{ring: ring, tasks: map[string]*v1alpha1.CompileTask{}, watchers: map[string][]chan *v1alpha1.CompileTask{}}
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// put stores a task and tells watchers.
func (m *memoryTasks) put(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.putLocked(task)
}

func (m *memoryTasks) putLocked(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	m.version++
	task = task.DeepCopy()
	task.ResourceVersion = strconv.Itoa(m.version)
	if task.UID == "" {
		task.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012x", m.version))
	}
	key := keyOf(task.Namespace, task.Name)
	m.tasks[key] = task
	for _, watcher := range m.watchers[key] {
		select {
		case <-watcher:
		default:
		}
		watcher <- task
	}
	return task
}

// change alters a stored task.
func (m *memoryTasks) change(task *v1alpha1.CompileTask, change func(*v1alpha1.CompileTask)) *v1alpha1.CompileTask {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.tasks[keyOf(task.Namespace, task.Name)].DeepCopy()
	change(changed)
	return m.putLocked(changed)
}

func (m *memoryTasks) remove(task *v1alpha1.CompileTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(task.Namespace, task.Name)
	delete(m.tasks, key)
	for _, watcher := range m.watchers[key] {
		close(watcher)
	}
	delete(m.watchers, key)
}

func (m *memoryTasks) all() []*v1alpha1.CompileTask {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*v1alpha1.CompileTask
	for _, task := range m.tasks {
		out = append(out, task)
	}
	return out
}

func (m *memoryTasks) Find(_ context.Context, namespace, id string, visible func(*v1alpha1.CompileTask) bool) (*v1alpha1.CompileTask, error) {
	for _, task := range m.all() {
		if task.Namespace == namespace && task.TaskID() == id && visible(task) {
			return task, nil
		}
	}
	return nil, notFound(id)
}

func (m *memoryTasks) ByName(_ context.Context, namespace, name string) (*v1alpha1.CompileTask, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if task, ok := m.tasks[keyOf(namespace, name)]; ok {
		return task, nil
	}
	return nil, notFound(name)
}

func placeOf(task *v1alpha1.CompileTask) tasks.Place {
	return tasks.Place{Created: tasks.CreatedAt(task), ID: task.TaskID()}
}

// comparePlaces orders newest first.
func comparePlaces(a, b tasks.Place) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID))
}

func (m *memoryTasks) List(_ context.Context, query tasks.Query) ([]*v1alpha1.CompileTask, bool, error) {
	if m.listErr != nil {
		return nil, false, m.listErr
	}
	all := slices.DeleteFunc(m.all(), func(task *v1alpha1.CompileTask) bool {
		return task.Namespace != query.Namespace ||
			query.Requester != "" && task.Spec.Requester.Username != query.Requester ||
			query.Match != nil && !query.Match(task) ||
			query.After != nil && comparePlaces(placeOf(task), *query.After) <= 0
	})
	slices.SortFunc(all, func(a, b *v1alpha1.CompileTask) int { return comparePlaces(placeOf(a), placeOf(b)) })
	if len(all) > query.Limit {
		return all[:query.Limit], true, nil
	}
	return all, false, nil
}

func (m *memoryTasks) Create(_ context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error) {
	if m.createRace != nil {
		m.createRace()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.creates++
	if m.createErr != nil {
		return nil, m.createErr
	}
	if _, exists := m.tasks[keyOf(task.Namespace, task.Name)]; exists {
		return nil, apierrors.NewAlreadyExists(v1alpha1.GroupVersion.WithResource("compiletasks").GroupResource(), task.Name)
	}
	task = task.DeepCopy()
	task.Spec.Requester = user
	task.CreationTimestamp = metav1.NewTime(noon.Truncate(time.Second))
	return m.putLocked(task), nil
}

func (m *memoryTasks) Cancel(_ context.Context, user v1alpha1.Requester, task *v1alpha1.CompileTask) (*v1alpha1.CompileTask, error) {
	if m.cancelErr != nil {
		return nil, m.cancelErr
	}
	m.mu.Lock()
	m.cancels++
	m.mu.Unlock()
	return m.change(task, func(t *v1alpha1.CompileTask) {
		if m.cancelRace != nil {
			m.cancelRace(t)
		}
		t.Spec.Cancel = true
		if user.Username == t.Spec.Requester.Username {
			at := noon.Add(time.Second).Format(metav1.RFC3339Micro)
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, v1alpha1.AnnotationCancelRequestedAt, at)
		}
	}), nil
}

func (m *memoryTasks) Watch(ctx context.Context, task *v1alpha1.CompileTask) (<-chan *v1alpha1.CompileTask, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(task.Namespace, task.Name)
	watcher := make(chan *v1alpha1.CompileTask, 1)
	if now := m.tasks[key]; now == nil {
		close(watcher)
		return watcher, nil
	} else if now.ResourceVersion != task.ResourceVersion {
		watcher <- now
	}
	m.watchers[key] = append(m.watchers[key], watcher)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers[key] = slices.DeleteFunc(m.watchers[key], func(w chan *v1alpha1.CompileTask) bool { return w == watcher })
	})
	return watcher, nil
}

func (m *memoryTasks) Args(_ context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	if task.Spec.Args != nil {
		return task.Spec.Args.Raw, nil
	}
	return resttask.OpenArgs(m.ring, task)
}

func (m *memoryTasks) Result(_ context.Context, task *v1alpha1.CompileTask) (json.RawMessage, error) {
	if m.resultErr != nil || m.result != nil {
		return m.result, m.resultErr
	}
	if task.Status.Result == nil {
		return nil, nil
	}
	return task.Status.Result.Raw, nil
}

// rights are who may do what: "alice get own".
type rights struct {
	mu     sync.Mutex
	err    error
	grants map[string]bool
	asked  []string
}

func newRights(grants ...string) *rights {
	r := &rights{grants: map[string]bool{}}
	for _, grant := range grants {
		r.grants[grant] = true
	}
	return r
}

func (r *rights) set(grant string, allowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[grant] = allowed
}

func (r *rights) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *rights) Allowed(_ context.Context, user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	question := strings.TrimSpace(user.Username + " " + attrs.Verb + " " + attrs.Subresource)
	r.asked = append(r.asked, question)
	if question == user.Username+" use" {
		return r.grants[question] && attrs.Resource == "agentruntimes", "", r.err
	}
	if attrs.Resource != "compiletasks" || attrs.Group != "agentruntime.dev" || attrs.Namespace != "docs" {
		return false, "", r.err
	}
	return r.grants[question], "", r.err
}

// oneRuntime is a cluster with at most one AgentRuntime.
type oneRuntime struct {
	runtime *v1alpha1.AgentRuntime
	content Content
	err     error
}

func (o *oneRuntime) Default(context.Context) (*v1alpha1.AgentRuntime, error) {
	return o.runtime, o.err
}

func (o *oneRuntime) Content(context.Context, *v1alpha1.AgentRuntime, access.Caller) (Content, error) {
	return o.content, nil
}

func runtimeOf(mode v1alpha1.CredentialsMode) *v1alpha1.AgentRuntime {
	runtime := &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: "builtin"}}
	if mode != "" {
		runtime.Spec.Credentials = &v1alpha1.RuntimeCredentials{Mode: mode}
	}
	return runtime
}

// files says what stands where: "dir", "file", or an error's kind.
type files map[string]string

func (f files) Stat(ctx context.Context, who contentstore.Principal, uri viking.URI) (contentstore.Info, error) {
	if who.Account != "docs" || who.User != "alice" {
		return contentstore.Info{}, fmt.Errorf("asked as %v", who)
	}
	switch what := f[uri.String()]; what {
	case "dir", "file":
		return contentstore.Info{URI: uri.String(), Dir: what == "dir"}, nil
	case "":
		return contentstore.Info{}, &contentstore.Error{Kind: contentstore.KindNotFound, Path: uri.String(), Reason: "not found"}
	case "hangs":
		<-ctx.Done()
		return contentstore.Info{}, ctx.Err()
	default:
		return contentstore.Info{}, &contentstore.Error{Kind: contentstore.Kind(what), Reason: "disk /dev/secret"}
	}
}
