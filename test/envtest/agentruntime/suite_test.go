// Package agentruntime_test runs the AgentRuntime controller in a manager against
// a real API server and programmable executors over real HTTP.
package agentruntime_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/agentruntime"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/executor/registry"
	testenv "github.com/agentruntime/operator/test/envtest"
)

const operatorNamespace = "agentruntime-system"

var (
	k8s     client.Client
	clients *countingRegistry
	counter counts
)

// countingRegistry notes which clients were dropped.
type countingRegistry struct {
	*registry.Registry

	mu        sync.Mutex
	forgotten map[string]int
}

func (r *countingRegistry) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten[name]++
	r.Registry.Forget(name)
}

func (r *countingRegistry) forgot(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forgotten[name] > 0
}

var _ agentruntime.Executors = &countingRegistry{}

// counts are the numbers of tasks that the controller is told.
type counts struct {
	mu               sync.Mutex
	running, waiting int
}

func (c *counts) TaskCounts(string) (running, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, c.waiting
}

func (c *counts) set(running, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.waiting = running, waiting
}

func TestAgentRuntime(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "AgentRuntime")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(10 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)

	env, err := testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	k8s, err = client.New(env.Config, client.Options{Scheme: testenv.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}})).To(Succeed())

	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: testenv.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	Expect(err).NotTo(HaveOccurred())
	clients = &countingRegistry{Registry: registry.New(mgr.GetAPIReader(), operatorNamespace), forgotten: map[string]int{}}
	reconciler := &agentruntime.Reconciler{
		Client: mgr.GetClient(), Executors: clients, Tasks: &counter, Recorder: mgr.GetEventRecorder("agentruntime"), Now: time.Now,
	}
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(done).Should(Receive(BeNil()))
	})
})

// given makes an AgentRuntime and removes it after the spec.
func given(url string, change ...func(*v1alpha1.AgentRuntime)) *v1alpha1.AgentRuntime {
	GinkgoHelper()
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "runtime-"},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: url, RequestTimeoutSeconds: 1},
	}
	for _, c := range change {
		c(runtime)
	}
	Expect(k8s.Create(context.Background(), runtime)).To(Succeed())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(k8s.Delete(context.Background(), runtime))).To(Succeed()) })
	return runtime
}

// condition reads a condition as "Status/Reason", "" when there is none.
func condition(runtime *v1alpha1.AgentRuntime, conditionType string) func() string {
	return func() string {
		if found := meta.FindStatusCondition(current(runtime).Status.Conditions, conditionType); found != nil {
			return string(found.Status) + "/" + found.Reason
		}
		return ""
	}
}

func messageOf(runtime *v1alpha1.AgentRuntime, conditionType string) string {
	if found := meta.FindStatusCondition(current(runtime).Status.Conditions, conditionType); found != nil {
		return found.Message
	}
	return ""
}

func current(runtime *v1alpha1.AgentRuntime) *v1alpha1.AgentRuntime {
	GinkgoHelper()
	var now v1alpha1.AgentRuntime
	Expect(k8s.Get(context.Background(), client.ObjectKeyFromObject(runtime), &now)).To(Succeed())
	return &now
}

func patch(runtime *v1alpha1.AgentRuntime, text string) {
	GinkgoHelper()
	Expect(k8s.Patch(context.Background(), &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: runtime.Name}},
		client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}

// probe has the controller probe at once, as its own timer would later.
func probe(runtime *v1alpha1.AgentRuntime) {
	GinkgoHelper()
	patch(runtime, `{"metadata":{"annotations":{"poked":"`+time.Now().String()+`"}}}`)
}

var _ executor.Executor = (*executor.HTTP)(nil)
