package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
	"github.com/agentruntime/operator/internal/access/frontproxy"
	"github.com/agentruntime/operator/internal/access/impersonate"
	"github.com/agentruntime/operator/internal/facade"
	"github.com/agentruntime/operator/internal/facade/compileapi"
	"github.com/agentruntime/operator/internal/facade/content"
	"github.com/agentruntime/operator/internal/facade/middleware"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
	"github.com/agentruntime/operator/internal/servingcert"
)

// Names in config/.
const (
	facadeService = "agentruntime-facade"
	apiGroup      = "compile.agentruntime.dev"
	apiVersion    = "v1"
)

// parts are what the facade is made of.
type parts struct {
	options options
	log     *slog.Logger

	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	// clients is client-go's; live reads and writes as the facade itself, without a
	// cache; cache holds CompileTasks and AgentRuntimes.
	clients  kubernetes.Interface
	live     client.Client
	cache    cache.Cache
	rings    *ringsecret.Follower
	store    *tasks.Store
	runtimes *runtimes

	// background is what runs beside the server, by its name.
	background map[string]func(context.Context) error
	checks     []facade.Check
	server     *facade.Server
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
	config.UserAgent = "agentruntime-facade/" + version
	return config, nil
}

// build makes all parts; nothing runs yet.
func build(config *rest.Config, o options, log *slog.Logger) (*parts, error) {
	p := &parts{options: o, log: log, config: config, background: map[string]func(context.Context) error{}}
	p.background["health probes"] = p.serveHealth
	for _, step := range []func() error{p.buildClients, p.buildStore, p.buildMetrics, p.buildServer} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *parts) buildClients() (err error) {
	p.scheme = runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(p.scheme))
	utilruntime.Must(v1alpha1.AddToScheme(p.scheme))
	if p.http, err = rest.HTTPClientFor(p.config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if p.clients, err = kubernetes.NewForConfigAndClient(p.config, p.http); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if p.live, err = client.New(p.config, client.Options{Scheme: p.scheme, HTTPClient: p.http}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	p.cache, err = cache.New(p.config, cache.Options{
		Scheme: p.scheme, HTTPClient: p.http,
		ByObject: map[client.Object]cache.ByObject{&v1alpha1.CompileTask{}: tasks.CacheOptions()},
	})
	if err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	p.background["cache"] = p.cache.Start
	return nil
}

// buildStore makes what reads and writes tasks. Writes have a client of their own,
// which can do nothing but act as somebody.
func (p *parts) buildStore() (err error) {
	p.rings = ringsecret.NewFollower(p.live, p.options.namespace, clock.RealClock{})
	p.background["key ring"] = p.rings.Run
	acting := rest.CopyConfig(p.config)
	acting.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return impersonate.New(base, impersonate.Options{OperatorNamespace: p.options.namespace, Extras: p.options.impersonateExtra})
	})
	writer, err := client.New(acting, client.Options{Scheme: p.scheme, Mapper: p.live.RESTMapper()})
	if err != nil {
		return fmt.Errorf("make the client that acts for callers: %w", err)
	}
	p.store, err = tasks.New(tasks.Options{
		Informers: p.cache, Live: p.live, Writer: writer, As: impersonate.WithUser, Rings: p.rings,
	})
	if err != nil {
		return err
	}
	known := &runtimes{cache: p.cache, checker: content.NewChecker(p.live, p.options.namespace, 0)}
	p.runtimes = known
	p.background["store"] = func(ctx context.Context) error {
		if err := errors.Join(p.store.Attach(ctx), known.attach(ctx)); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	p.check("tasks", func() error {
		if !p.store.Synced() {
			return errors.New("the cache of tasks is not filled yet")
		}
		return nil
	})
	p.check("runtimes", known.ready)
	p.check("key ring", p.rings.Ready)
	return nil
}

func (p *parts) check(name string, ready func() error) {
	p.checks = append(p.checks, facade.Check{Name: name, Ready: ready})
}

func (p *parts) buildMetrics() error {
	options := metricsserver.Options{BindAddress: p.options.metricsAddress}
	if !p.options.metricsInsecure {
		options.SecureServing = true
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	server, err := metricsserver.NewServer(options, p.config, p.http)
	if err != nil {
		return fmt.Errorf("make the metrics server: %w", err)
	}
	if server != nil {
		p.background["metrics"] = server.Start
	}
	return nil
}

func (p *parts) buildServer() error {
	authenticator, err := access.NewAuthenticator(access.Options{
		Reviews:           p.clients.AuthenticationV1(),
		Keys:              apikey.NewLookup(p.clients.CoreV1().Secrets(p.options.namespace), 0, nil),
		OperatorNamespace: p.options.namespace, Audience: p.options.audience,
	})
	if err != nil {
		return err
	}
	dialect, err := compileapi.New(compileapi.Config{
		Tasks:      p.store,
		Authorizer: access.NewCachedAuthorizer(access.NewSubjectAccessReviews(p.clients.AuthorizationV1()), 0, nil),
		Runtimes:   p.runtimes,
		Keys:       p.rings,
	})
	if err != nil {
		return err
	}
	config := facade.Config{
		Routes: dialect.Routes(), Authenticator: authenticator, DefaultNamespace: p.options.defaultNamespace,
		InsecureHTTP: p.options.insecureHTTP, Ping: p.ping, AllowedOrigins: p.options.corsOrigins,
		Limits:  middleware.Limits{Rate: p.options.rateLimit, Burst: p.options.rateBurst, InFlight: p.options.maxInFlight},
		Times:   facade.Times{Drain: p.options.drainTimeout},
		Version: version, Logger: p.log, Registerer: metrics.Registry,
	}
	if config.GetCertificate, err = p.certificate(); err != nil {
		return err
	}
	if p.options.aggregated {
		if config.Aggregated, err = p.aggregation(dialect); err != nil {
			return err
		}
	}
	config.Checks = p.checks
	p.server, err = facade.New(config)
	return err
}

// ping reaches the API server by what everybody may read.
func (p *parts) ping(ctx context.Context) error {
	_, err := p.clients.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	return err
}

// certificate gives what the server serves TLS with; nil for plain HTTP.
func (p *parts) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	switch {
	case p.options.insecureHTTP:
		return nil, nil //nolint:nilnil // Plain HTTP has none.
	case p.options.tlsCertFile != "":
		watcher, err := certwatcher.New(p.options.tlsCertFile, p.options.tlsKeyFile)
		if err != nil {
			return nil, fmt.Errorf("load --tls-cert-file: %w", err)
		}
		p.background["certificate"] = watcher.Start
		return watcher.GetCertificate, nil
	}
	rotator := p.rotator()
	p.background["certificate"] = rotator.Start
	p.check("certificate", func() error { return rotator.Ready(nil) })
	return rotator.GetCertificate, nil
}

func (p *parts) rotator() *servingcert.Rotator {
	host := fmt.Sprintf("%s.%s.svc", facadeService, p.options.namespace)
	rotator := &servingcert.Rotator{
		Client:   p.live,
		Secret:   types.NamespacedName{Namespace: p.options.namespace, Name: p.options.certificateSecret},
		DNSNames: append([]string{host, host + ".cluster.local", "localhost"}, p.options.certificateHosts...),
		Clock:    clock.RealClock{},
	}
	if p.options.aggregated {
		rotator.Publisher = servingcert.APIService{Client: p.live, Name: apiVersion + "." + apiGroup}
	}
	return rotator
}

func (p *parts) aggregation(dialect *compileapi.API) (*facade.Aggregated, error) {
	proxy, err := frontproxy.New(p.clients, p.options.namespace)
	if err != nil {
		return nil, err
	}
	p.background["front proxy"] = proxy.Run
	p.check("front proxy", proxy.Ready)
	return &facade.Aggregated{
		Authenticator: proxy,
		Groups: []facade.Group{{
			Name: apiGroup, Version: apiVersion, Routes: dialect.Routes(),
			Kinds: map[string]string{"compile": "CompileRequest", "submissions": "Task", "tasks": "Task"},
		}},
	}, nil
}
