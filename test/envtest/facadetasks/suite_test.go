// Package facadetasks_test runs the facade's task store against a real API server,
// with an informer that can be made to lag.
package facadetasks_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access/impersonate"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	testenv "github.com/agentruntime/operator/test/envtest"
)

var (
	env *testenv.Environment
	k8s client.Client
	// writer acts as the user in the context.
	writer client.Client

	alice = v1alpha1.Requester{Username: "alice"}
	bob   = v1alpha1.Requester{Username: "bob"}
)

func TestFacadeTasks(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The facade's tasks")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(15 * time.Second)
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	var err error
	env, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	k8s, err = client.New(env.Config, client.Options{Scheme: testenv.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	acting := rest.CopyConfig(env.Config)
	acting.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return impersonate.New(base, impersonate.Options{OperatorNamespace: "agentruntime-system"})
	})
	// Discovery acts as nobody, so the mapper is the admin's.
	writer, err = client.New(acting, client.Options{Scheme: testenv.NewScheme(), Mapper: k8s.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	allowAlice(ctx)
})

// allowAlice lets alice, and nobody else, do what a user of the REST API does.
func allowAlice(ctx context.Context) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "writes-tasks"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"compiletasks"}, Verbs: []string{"create", "patch"}}},
	}
	Expect(k8s.Create(ctx, role)).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice-writes-tasks"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: alice.Username}},
	})).To(Succeed())
}

// lagging gives an informer whose events can be held back.
type lagging struct {
	cache.Cache
	held sync.RWMutex
}

func (l *lagging) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := l.Cache.GetInformer(ctx, object, options...)
	return laggingInformer{informer, l}, err
}

type laggingInformer struct {
	cache.Informer
	lag *lagging
}

func (i laggingInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	pass := func() func() { i.lag.held.RLock(); return i.lag.held.RUnlock }
	return i.Informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { defer pass()(); handler.OnAdd(object, initial) },
		UpdateFunc: func(old, object any) { defer pass()(); handler.OnUpdate(old, object) },
		DeleteFunc: func(object any) { defer pass()(); handler.OnDelete(object) },
	})
}

// countingReader counts live reads.
type countingReader struct {
	client.Reader
	mu    sync.Mutex
	count int
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.mu.Lock()
	r.count++
	r.mu.Unlock()
	return r.Reader.Get(ctx, key, object, options...)
}

func (r *countingReader) reads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// rig is a store with what it stands on.
type rig struct {
	*tasks.Store
	lag  *lagging
	live *countingReader
	mu   sync.Mutex
	// ring is what the store knows, current what a reload brings.
	ring, current *sealed.KeyRing
}

// Ring is the ring that the store knows.
func (r *rig) Ring(context.Context) (*sealed.KeyRing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring, nil
}

// Reload gives the store the ring as it is now.
func (r *rig) Reload(context.Context) (*sealed.KeyRing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = r.current
	return r.ring, nil
}

// start runs a store until the end of the spec.
func start() *rig {
	GinkgoHelper()
	informers, err := cache.New(env.Config, cache.Options{
		Scheme: testenv.NewScheme(), ByObject: map[client.Object]cache.ByObject{&v1alpha1.CompileTask{}: tasks.CacheOptions()},
	})
	Expect(err).NotTo(HaveOccurred())
	ring, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
	Expect(err).NotTo(HaveOccurred())
	r := &rig{lag: &lagging{Cache: informers}, live: &countingReader{Reader: k8s}, ring: ring, current: ring}
	r.Store, err = tasks.New(tasks.Options{
		Informers: r.lag, Live: r.live, Writer: writer, As: impersonate.WithUser, Rings: r,
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	Expect(r.Synced()).To(BeFalse())
	Expect(r.Attach(ctx)).To(Succeed())
	go func() { done <- informers.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()))
	})
	Eventually(r.Synced).Should(BeTrue())
	return r
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// newTask is a REST task, received n seconds after midnight.
func newTask(namespace string, n int) *v1alpha1.CompileTask {
	received := metav1.NewMicroTime(time.Date(2026, 8, 1, 0, 0, n, 123000, time.UTC))
	name := resttask.RandomName()
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/docs"}, To: fmt.Sprintf("viking://resources/wiki-%d", n), Skill: "viking://agent/skills/llm-wiki",
			Requester: alice, RESTRequest: &v1alpha1.RESTRequest{Mark: "mark-of-" + name, ReceivedTime: &received},
		},
	}
}

func of(username string) func(*v1alpha1.CompileTask) bool {
	return func(task *v1alpha1.CompileTask) bool { return task.Spec.Requester.Username == username }
}

// setStatus changes a task's status as the manager would.
func setStatus(ctx context.Context, task *v1alpha1.CompileTask, change func(*v1alpha1.CompileTaskStatus)) *v1alpha1.CompileTask {
	GinkgoHelper()
	var now v1alpha1.CompileTask
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(task), &now)).To(Succeed())
	change(&now.Status)
	Expect(k8s.Status().Update(ctx, &now)).To(Succeed())
	return &now
}
