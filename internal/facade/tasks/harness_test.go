package tasks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

type userKey struct{}

// server is an API server of one process: what is written is there at once, while the
// store's informer learns of it only from sync.
type server struct {
	mu       sync.Mutex
	version  int
	tasks    map[types.NamespacedName]*v1alpha1.CompileTask
	payloads map[types.NamespacedName]*v1alpha1.Payload
	gets     int
	// found counts those of gets that a task answered.
	found  int
	getErr error
	// after, when set, is the answer to a write that was made, before one that was not.
	before, after error
	users         []string
	patches       []string
}

func (s *server) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	if s.getErr != nil {
		return s.getErr
	}
	switch into := object.(type) {
	case *v1alpha1.CompileTask:
		if task := s.tasks[key]; task != nil {
			s.found++
			task.DeepCopyInto(into)
			return nil
		}
	case *v1alpha1.Payload:
		if payload := s.payloads[key]; payload != nil {
			payload.DeepCopyInto(into)
			return nil
		}
	}
	return notFound(key.Name)
}

func (s *server) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		return s.before
	}
	task, ok := object.(*v1alpha1.CompileTask)
	if !ok {
		return errors.New("no CompileTask")
	}
	s.users = append(s.users, fmt.Sprint(ctx.Value(userKey{})))
	s.stamp(task)
	task.UID = types.UID(fmt.Sprintf("%032x", s.version))
	s.tasks[keyOf(task)] = task.DeepCopy()
	return s.after
}

func (s *server) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		return s.before
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	s.patches = append(s.patches, string(data))
	s.users = append(s.users, fmt.Sprint(ctx.Value(userKey{})))
	task := s.tasks[client.ObjectKeyFromObject(object)]
	if task == nil {
		return notFound(object.GetName())
	}
	task.Spec.Cancel = true
	s.stamp(task)
	if into, ok := object.(*v1alpha1.CompileTask); ok {
		task.DeepCopyInto(into)
	}
	return s.after
}

func (s *server) stamp(task *v1alpha1.CompileTask) {
	s.version++
	task.ResourceVersion = strconv.Itoa(s.version)
}

// change changes a stored task as a controller would, and returns it.
func (s *server) change(task *v1alpha1.CompileTask, by func(*v1alpha1.CompileTask)) *v1alpha1.CompileTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.tasks[keyOf(task)].DeepCopy()
	by(now)
	s.stamp(now)
	s.tasks[keyOf(task)] = now
	return now.DeepCopy()
}

// put stores a task as it is, but for uid and version.
func (s *server) put(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stamp(task)
	if task.UID == "" {
		task.UID = types.UID(fmt.Sprintf("%032x", s.version))
	}
	s.tasks[keyOf(task)] = task.DeepCopy()
	return task.DeepCopy()
}

func (s *server) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets
}

type noInformers struct{}

func (noInformers) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return nil, errors.New("there is none")
}

type rig struct {
	*Store
	server *server
	clock  *clocktesting.FakePassiveClock
	ring   *sealed.KeyRing
	rings  *knownRing
}

// knownRing is a ring that changes only when it is reloaded.
type knownRing struct {
	ring    *sealed.KeyRing
	reload  func() *sealed.KeyRing
	reloads int
	// err, when set, is why it can't be reloaded.
	err error
}

func (k *knownRing) Ring(context.Context) (*sealed.KeyRing, error) { return k.ring, nil }

func (k *knownRing) Reload(context.Context) (*sealed.KeyRing, error) {
	k.reloads++
	if k.err != nil {
		return nil, k.err
	}
	k.ring = k.reload()
	return k.ring, nil
}

func newRing(t testing.TB) *sealed.KeyRing {
	t.Helper()
	ring, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newRig(t testing.TB, limits Limits) *rig {
	t.Helper()
	r := &rig{
		server: &server{tasks: map[types.NamespacedName]*v1alpha1.CompileTask{}, payloads: map[types.NamespacedName]*v1alpha1.Payload{}},
		clock:  clocktesting.NewFakePassiveClock(start), ring: newRing(t),
	}
	r.rings = &knownRing{ring: r.ring, reload: func() *sealed.KeyRing { return r.ring }}
	store, err := New(Options{
		Informers: noInformers{}, Live: r.server, Writer: r.server, Rings: r.rings, Clock: r.clock, Limits: limits,
		As: func(ctx context.Context, user v1alpha1.Requester) context.Context {
			return context.WithValue(ctx, userKey{}, user.Username)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Store = store
	return r
}

// sync has the informer bring a state.
func (r *rig) sync(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	task = task.DeepCopy()
	trim(task)
	r.observe(task)
	return task
}

func named(n int) string { return fmt.Sprintf("cmp-%032x", n) }

func wireID(n int) string { return fmt.Sprintf("cmp_%032x", n) }

var alice, bob = v1alpha1.Requester{Username: "alice", Groups: []string{"dev"}}, v1alpha1.Requester{Username: "bob"}

// newTask is a REST task of alice, received n seconds after the start.
func newTask(n int) *v1alpha1.CompileTask {
	received := metav1.NewMicroTime(start.Add(time.Duration(n) * time.Second))
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: named(n), CreationTimestamp: metav1.NewTime(start)},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/a"}, To: "viking://resources/b", Skill: "viking://agent/skills/s",
			Requester: alice, RESTRequest: &v1alpha1.RESTRequest{Mark: "mark-" + strconv.Itoa(n), ReceivedTime: &received},
		},
	}
}

func of(username string) func(*v1alpha1.CompileTask) bool {
	return func(task *v1alpha1.CompileTask) bool { return task.Spec.Requester.Username == username }
}
