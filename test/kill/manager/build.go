package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/agentruntime"
	"github.com/agentruntime/operator/controllers/compiletask"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/executor/registry"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/kill/crash"
)

// operatorNamespace is where gateway tokens would be read from.
const operatorNamespace = "agentruntime-system"

// reconcileTimeout is the shipped manager's.
const reconcileTimeout = time.Minute

// cacheSyncTimeout lets a manager start beside very many tasks on a busy machine;
// controller-runtime's two minutes are not always enough for 100,000.
const cacheSyncTimeout = 15 * time.Minute

// build wires the two controllers as the shipped manager does, with the killer in
// what they are given.
func build(config *rest.Config, ring *sealed.KeyRing, killer *crash.Killer, o options) (ctrl.Manager, *compiletask.Reconciler, error) {
	mgr, err := ctrl.NewManager(config, managerOptions(o))
	if err != nil {
		return nil, nil, fmt.Errorf("make the manager: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	taskMetrics, err := compiletask.NewMetrics(metrics.Registry, mgr.GetClient())
	if err != nil {
		return nil, nil, fmt.Errorf("register metrics: %w", err)
	}
	executors := crash.WrapExecutors(registry.New(mgr.GetAPIReader(), operatorNamespace), killer)
	tasks := &compiletask.Reconciler{
		Client: crash.WrapClient(mgr.GetClient(), killer), APIReader: mgr.GetAPIReader(), Executors: executors,
		Authorizer: access.NewSubjectAccessReviews(clientset.AuthorizationV1()),
		KeyRing:    ring, Recorder: mgr.GetEventRecorder("agentruntime-compiletask"),
		Metrics: taskMetrics, Clock: clock.RealClock{}, FirstPollWait: o.firstPollWait,
	}
	if err := tasks.SetupWithManager(mgr); err != nil {
		return nil, nil, err
	}
	runtimes := &agentruntime.Reconciler{
		Client: mgr.GetClient(), Executors: executors, Tasks: tasks,
		Recorder: mgr.GetEventRecorder("agentruntime-agentruntime"), Now: time.Now,
	}
	return mgr, tasks, runtimes.SetupWithManager(mgr)
}

func managerOptions(o options) ctrl.Options {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	byTask := compiletask.CacheOptions()
	for _, namespace := range split(o.namespaces) {
		if byTask.Namespaces == nil {
			byTask.Namespaces = map[string]cache.Config{}
		}
		byTask.Namespaces[namespace] = cache.Config{}
	}
	out := ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.CompileTask{}: byTask}},
	}
	out.Controller.ReconciliationTimeout = reconcileTimeout
	out.Controller.CacheSyncTimeout = cacheSyncTimeout
	if o.stale > 0 {
		out.NewCache = lateCache(o.stale)
	}
	return out
}
