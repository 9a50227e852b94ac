package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agentruntime/operator/internal/runtime/server"
)

// Bounds of an HTTP connection. Held polls move the last two for themselves.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	readTimeout    = 30 * time.Second
	writeTimeout   = 60 * time.Second
	maxHeaderBytes = 64 << 10
)

// Rates of token reviews; answers are remembered, so few are needed.
const (
	reviewQPS   = 50
	reviewBurst = 100
)

// listeners are the bound addresses; metrics is nil when there are none.
type listeners struct {
	protocol net.Listener
	metrics  net.Listener
}

func (l listeners) addresses() (protocol, metrics net.Addr) {
	if l.metrics != nil {
		metrics = l.metrics.Addr()
	}
	return l.protocol.Addr(), metrics
}

// listen binds the addresses. They are closed with the other parts, which does
// no harm after a server has closed them.
func (r *parts) listen(ctx context.Context) (l listeners, err error) {
	var lc net.ListenConfig
	bind := func(address string) (net.Listener, error) {
		on, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		r.onClose(func() error { _ = on.Close(); return nil })
		return on, nil
	}
	if l.protocol, err = bind(r.opts.ListenAddress); err != nil {
		return l, err
	}
	if r.cert != nil {
		l.protocol = tls.NewListener(l.protocol, &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: r.cert.get,
			NextProtos:     []string{"h2", "http/1.1"},
		})
	}
	if r.opts.MetricsAddress != "" {
		l.metrics, err = bind(r.opts.MetricsAddress)
	}
	return l, err
}

func (r *parts) protocolServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
}

func (r *parts) metricsServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	return r.protocolServer(mux)
}

// newReviewer makes a client for token reviews.
func newReviewer(kubeconfig, audience string) (*server.TokenReviewer, error) {
	cfg, err := reviewConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("configure token reviews: %w", err)
	}
	cfg.QPS, cfg.Burst = reviewQPS, reviewBurst
	cfg.ContentType = "application/json"
	client, err := authenticationclient.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure token reviews: %w", err)
	}
	return server.NewTokenReviewer(client.TokenReviews(), audience), nil
}

func reviewConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
