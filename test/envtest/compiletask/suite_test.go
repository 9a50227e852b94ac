// Package compiletask_test runs the CompileTask controller in a manager against a
// real API server and a programmable executor over real HTTP.
package compiletask_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/compiletask"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/executor/registry"
	"github.com/agentruntime/operator/internal/sealed"
	testenv "github.com/agentruntime/operator/test/envtest"
)

const operatorNamespace = "agentruntime-system"

var (
	env     *testenv.Environment
	k8s     client.Client
	keyRing *sealed.KeyRing
	// rotatedRing has a key more, which the manager learns of only by reading anew.
	rotatedRing *sealed.KeyRing
)

func TestCompileTask(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "CompileTask")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.MultiWriter(GinkgoWriter, &logs)), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(15 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)

	var err error
	env, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	DeferCleanup(requireSecretsNowhere)
	k8s, err = client.New(env.Config, client.Options{Scheme: testenv.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	ringData := sealed.GenerateKeyRingData()
	keyRing, err = sealed.ParseKeyRing(ringData)
	Expect(err).NotTo(HaveOccurred())
	ringData, err = sealed.RotateKeyRingData(ringData)
	Expect(err).NotTo(HaveOccurred())
	rotatedRing, err = sealed.ParseKeyRing(ringData)
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}})).To(Succeed())
})

// requireSecretsNowhere looks for the secrets of all specs in all that was logged
// and in all that was written.
func requireSecretsNowhere() {
	ctx := context.Background()
	written := map[string]client.ObjectList{
		"CompileTasks": &v1alpha1.CompileTaskList{}, "AgentRuntimes": &v1alpha1.AgentRuntimeList{},
		"Payloads": &v1alpha1.PayloadList{}, "events": &eventsv1.EventList{},
	}
	texts := map[string]string{"logs": logs.String()}
	for name, list := range written {
		Expect(k8s.List(ctx, list)).To(Succeed())
		text, err := json.Marshal(list)
		Expect(err).NotTo(HaveOccurred())
		texts[name] = string(text)
	}
	for name, text := range texts {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				Fail("a secret shows in the " + name)
			}
		}
	}
}

// startManager runs a manager with the controller until the returned function is
// called, which waits for its end.
func startManager(options ...func(*compiletask.Reconciler)) (stop func()) {
	GinkgoHelper()
	skip := true
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:     testenv.NewScheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.CompileTask{}: compiletask.CacheOptions()}},
	})
	Expect(err).NotTo(HaveOccurred())
	clientset, err := kubernetes.NewForConfig(env.Config)
	Expect(err).NotTo(HaveOccurred())
	metrics, err := compiletask.NewMetrics(prometheus.NewRegistry(), mgr.GetClient())
	Expect(err).NotTo(HaveOccurred())
	reconciler := &compiletask.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Executors:     registry.New(mgr.GetAPIReader(), operatorNamespace),
		Authorizer:    access.NewSubjectAccessReviews(clientset.AuthorizationV1()),
		KeyRing:       keyRing,
		ReloadKeyRing: func(context.Context) (*sealed.KeyRing, error) { return rotatedRing, nil },
		Recorder:      mgr.GetEventRecorder("compiletask"),
		Metrics:       metrics,
		Clock:         clock.RealClock{},
		FirstPollWait: 500 * time.Millisecond,
	}
	for _, option := range options {
		option(reconciler)
	}
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		Eventually(done).Should(Receive(BeNil()))
		reconciler.Wait()
	}
	DeferCleanup(func() { stop() })
	return stop
}

// newNamespace makes a namespace of the spec's own.
func newNamespace() string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(k8s.Create(context.Background(), namespace)).To(Succeed())
	return namespace.Name
}

// newRuntime makes an AgentRuntime for an executor and removes it after the spec.
func newRuntime(url string, change ...func(*v1alpha1.AgentRuntimeSpec)) *v1alpha1.AgentRuntime {
	GinkgoHelper()
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "runtime-"},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: url, PollIntervalSeconds: 1, DurableKeys: true, MaxConcurrentTasks: 100},
	}
	for _, c := range change {
		c(&runtime.Spec)
	}
	Expect(k8s.Create(context.Background(), runtime)).To(Succeed())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(k8s.Delete(context.Background(), runtime))).To(Succeed()) })
	return runtime
}

var serial int

// newTask is a valid CompileTask that is not created yet.
func newTask(namespace, runtime string, change ...func(*v1alpha1.CompileTask)) *v1alpha1.CompileTask {
	serial++
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("task-%d", serial)},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/docs"}, To: fmt.Sprintf("viking://resources/wiki-%d", serial),
			Skill: "viking://agent/skills/llm-wiki", RuntimeName: runtime,
			Requester: v1alpha1.Requester{Username: "alice"},
		},
	}
	for _, c := range change {
		c(task)
	}
	return task
}

func create(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	GinkgoHelper()
	Expect(k8s.Create(context.Background(), task)).To(Succeed())
	return task
}

// current reads the task anew.
func current(task *v1alpha1.CompileTask) func() *v1alpha1.CompileTask {
	return func() *v1alpha1.CompileTask {
		var now v1alpha1.CompileTask
		if err := k8s.Get(context.Background(), client.ObjectKeyFromObject(task), &now); err != nil {
			return nil
		}
		return &now
	}
}

// phaseOf reads the task's phase as it is stored.
func phaseOf(task *v1alpha1.CompileTask) func() v1alpha1.CompileTaskPhase {
	return func() v1alpha1.CompileTaskPhase {
		if now := current(task)(); now != nil {
			return now.Status.Phase
		}
		return ""
	}
}
