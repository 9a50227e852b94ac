package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/agentruntime"
	"github.com/agentruntime/operator/controllers/compiletask"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/executor/registry"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
	"github.com/agentruntime/operator/internal/servingcert"
	webhookv1alpha1 "github.com/agentruntime/operator/webhook/v1alpha1"
)

// Names in config/.
const (
	leaseName            = "agentruntime-manager"
	webhookService       = "agentruntime-webhook"
	webhookSecret        = "agentruntime-webhook-certificate"
	webhookConfiguration = "agentruntime"
)

const (
	// reconcileTimeout caps a pass, which calls the API server only.
	reconcileTimeout = time.Minute
	// cacheSyncTimeout is how long the first listing of all objects may take.
	cacheSyncTimeout = 10 * time.Minute
	// drainTimeout is how long running passes have when the manager stops.
	drainTimeout = 20 * time.Second
	// renewDeadline is how long a leader tries to renew its lease before it gives up.
	renewDeadline = 10 * time.Second
)

// run runs the manager until ctx ends.
func run(ctx context.Context, o options) error {
	setupLogging(o)
	config, err := restConfig(o)
	if err != nil {
		return err
	}
	rotator, err := newRotator(config, o)
	if err != nil {
		return err
	}
	managerOptions, err := managerOptions(config, o, rotator)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	keyRing, err := ringsecret.Ensure(ctx, mgr.GetAPIReader(), mgr.GetClient(), o.namespace)
	if err != nil {
		return err
	}
	tasks, err := setupControllers(mgr, o, keyRing)
	if err != nil {
		return err
	}
	if err := setupAdmission(mgr, rotator, keyRing); err != nil {
		return err
	}
	ctrl.Log.Info("Starting the manager", "version", version, "namespace", o.namespace)
	err = mgr.Start(ctx)
	tasks.Wait()
	return err
}

func setupLogging(o options) {
	level, err := zapcore.ParseLevel(o.logLevel)
	if err != nil {
		level = zapcore.InfoLevel
	}
	ctrl.SetLogger(zap.New(zap.Level(level), zap.UseDevMode(o.logFormat == "console")))
}

func restConfig(o options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		config, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	// The API server has fair queues of its own; a limit here only adds latency.
	config.QPS = -1
	return config, nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

func managerOptions(config *rest.Config, o options, rotator *servingcert.Rotator) (ctrl.Options, error) {
	admission := webhook.Options{Host: o.webhookHost, Port: o.webhookPort, CertDir: o.webhookCertDir}
	if rotator != nil {
		admission.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = rotator.GetCertificate }}
	}
	drain, timeout, renew := drainTimeout, reconcileTimeout, renewDeadline
	out := ctrl.Options{
		Scheme:                        newScheme(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		RenewDeadline:                 &renew,
		GracefulShutdownTimeout:       &drain,
		WebhookServer:                 webhook.NewServer(admission),
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.CompileTask{}: compiletask.CacheOptions(),
		}},
	}
	out.Controller.ReconciliationTimeout = timeout
	// With very many tasks on a busy cluster the first listing takes its time.
	out.Controller.CacheSyncTimeout = cacheSyncTimeout
	if !o.metricsInsecure {
		out.Metrics.SecureServing = true
		out.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if o.leaderElect && o.identity != "" {
		lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.namespace, leaseName,
			resourcelock.ResourceLockConfig{Identity: o.identity}, config, renewDeadline)
		if err != nil {
			return ctrl.Options{}, fmt.Errorf("make the leader's lock: %w", err)
		}
		out.LeaderElectionResourceLockInterface = lock
	}
	return out, nil
}

// setupControllers adds the controllers, and returns the one whose calls outlive
// its passes.
func setupControllers(mgr ctrl.Manager, o options, keyRing *sealed.KeyRing) (*compiletask.Reconciler, error) {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	taskMetrics, err := compiletask.NewMetrics(metrics.Registry, mgr.GetClient())
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	executors := registry.New(mgr.GetAPIReader(), o.namespace)
	tasks := &compiletask.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Executors: executors,
		Authorizer: access.NewSubjectAccessReviews(clientset.AuthorizationV1()),
		KeyRing:    keyRing, ReloadKeyRing: ringsecret.NewFollower(mgr.GetAPIReader(), o.namespace, clock.RealClock{}).Reload,
		Recorder: mgr.GetEventRecorder("agentruntime-compiletask"),
		Metrics:  taskMetrics, Clock: clock.RealClock{}, FirstPollWait: o.firstPollWait,
	}
	if err := tasks.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	runtimes := &agentruntime.Reconciler{
		Client: mgr.GetClient(), Executors: executors, Tasks: tasks,
		Recorder: mgr.GetEventRecorder("agentruntime-agentruntime"), Now: time.Now,
	}
	return tasks, runtimes.SetupWithManager(mgr)
}

// setupAdmission serves the webhooks, and makes the manager ready only when it can
// answer the API server.
func setupAdmission(mgr ctrl.Manager, rotator *servingcert.Rotator, keyRing *sealed.KeyRing) error {
	if err := webhookv1alpha1.SetupWithManager(mgr, webhookv1alpha1.Options{KeyRing: keyRing}); err != nil {
		return err
	}
	checks := map[string]healthz.Checker{"admission": mgr.GetWebhookServer().StartedChecker()}
	if rotator != nil {
		if err := mgr.Add(rotator); err != nil {
			return fmt.Errorf("add the certificate's rotation: %w", err)
		}
		checks["certificate"] = rotator.Ready
	}
	for name, check := range checks {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add the readiness check %s: %w", name, err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	return nil
}

// newRotator keeps the certificate of config/webhook; nil when something else
// does.
func newRotator(config *rest.Config, o options) (*servingcert.Rotator, error) {
	if !o.webhookCertRotation {
		return nil, nil
	}
	direct, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	host := fmt.Sprintf("%s.%s.svc", webhookService, o.namespace)
	return &servingcert.Rotator{
		Client:    direct,
		Secret:    types.NamespacedName{Namespace: o.namespace, Name: webhookSecret},
		DNSNames:  []string{host, host + ".cluster.local"},
		Publisher: servingcert.WebhookConfigurations{Client: direct, Name: webhookConfiguration},
		Clock:     clock.RealClock{},
	}, nil
}
