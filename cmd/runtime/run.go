package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/runtime/compile/extractive"
	"github.com/agentruntime/operator/internal/runtime/server"
	"github.com/agentruntime/operator/internal/runtime/session"
)

// program is what a run needs besides its options.
type program struct {
	logTo io.Writer
	// started, when set, is told the bound addresses; metrics may be nil.
	started func(protocol, metrics net.Addr)
}

// parts are what run has opened, and closes in reverse.
type parts struct {
	opts     *Options
	log      *slog.Logger
	registry *prometheus.Registry
	content  *contentstore.Local
	sessions *session.Store
	tokens   *tokenFile
	cert     *certificateFile
	closers  []func() error
}

// run serves until ctx ends, and then stops within the shutdown timeout.
func run(ctx context.Context, opts *Options, p program) (err error) {
	if err := opts.Validate(); err != nil {
		return err
	}
	handler, err := opts.logHandler(p.logTo)
	if err != nil {
		return err
	}
	r := &parts{opts: opts, log: slog.New(handler), registry: prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(); err != nil {
		return err
	}
	// Addresses are bound before anything is promised.
	listeners, err := r.listen(ctx)
	if err != nil {
		return err
	}
	srv, err := r.newServer(listeners.protocol.Addr())
	if err != nil {
		return err
	}
	if p.started != nil {
		p.started(listeners.addresses())
	}
	return r.serve(ctx, srv, listeners)
}

func (r *parts) onClose(f func() error) { r.closers = append(r.closers, f) }

func (r *parts) close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	return errors.Join(errs...)
}

// open opens the stores and reads the files.
func (r *parts) open() (err error) {
	if r.content, err = contentstore.OpenLocal(r.opts.contentDir()); err != nil {
		return err
	}
	r.onClose(r.content.Close)
	r.sessions, err = session.Open(session.Options{
		Dir:             r.opts.sessionDir(),
		RecordRetention: r.opts.SessionRetention,
		MaxFinished:     r.opts.MaxSessions,
		KeyRetention:    r.opts.KeyRetention,
	})
	if err != nil {
		return err
	}
	r.onClose(r.sessions.Close)
	if r.opts.GatewayTokenFile != "" {
		if r.tokens, err = openTokenFile(r.opts.GatewayTokenFile); err != nil {
			return err
		}
	}
	if r.opts.TLSCertFile != "" {
		if r.cert, err = openCertificate(r.opts.TLSCertFile, r.opts.TLSKeyFile); err != nil {
			return err
		}
	}
	return nil
}

// newServer wires the protocol's server for a bound address.
func (r *parts) newServer(address net.Addr) (*server.Server, error) {
	cfg := server.Config{
		Engine:                compile.NewEngine(r.content, extractive.New()),
		Store:                 r.sessions,
		Content:               r.content,
		Limits:                r.opts.Limits,
		Log:                   r.log,
		Metrics:               server.NewMetrics(r.registry),
		ListenerLoopback:      isLoopback(address),
		TrustLoopbackIdentity: r.opts.TrustIdentityHeaders,
		DefaultAccount:        r.opts.DefaultAccount,
		AllowedModels:         r.opts.AllowModelNames,
	}
	if r.tokens != nil {
		cfg.GatewayTokens = r.tokens.current
	} else if !cfg.ListenerLoopback {
		r.log.Warn("No gateway token is configured for a listener that is not on loopback: every call is answered 503")
	}
	if r.cert == nil && !cfg.ListenerLoopback {
		r.log.Warn("Serving plain HTTP beyond loopback: credentials travel unprotected")
	}
	if r.opts.AuthenticateTokens {
		reviewer, err := newReviewer(r.opts.Kubeconfig, r.opts.TokenAudience)
		if err != nil {
			return nil, err
		}
		cfg.Tokens = reviewer
	}
	return server.New(cfg)
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// serve runs the HTTP servers and the file watcher until ctx ends or one of the
// servers fails, and then stops everything in order.
func (r *parts) serve(ctx context.Context, srv *server.Server, l listeners) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	protocol := r.protocolServer(srv)
	metrics := r.metricsServer()
	var tasks sync.WaitGroup
	start := func(name string, s *http.Server, on net.Listener) {
		tasks.Go(func() {
			if err := s.Serve(on); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("serve %s: %w", name, err))
			}
		})
	}
	start("protocol", protocol, l.protocol)
	if l.metrics != nil {
		start("metrics", metrics, l.metrics)
	}
	files := &watcher{log: r.log, now: hup}
	if r.tokens != nil {
		files.files = append(files.files, r.tokens)
	}
	if r.cert != nil {
		files.files = append(files.files, r.cert)
	}
	tasks.Go(func() { files.run(ctx) })
	r.log.Info("Serving", "address", l.protocol.Addr().String(), "tls", r.cert != nil, "sessions", r.opts.sessionDir())

	<-ctx.Done()
	err := r.stop(srv, protocol, metrics) //nolint:contextcheck // ctx has ended; a stop has its own time
	tasks.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// stop answers held polls, lets requests finish, ends the tasks, and leaves the
// metrics for last so that the end can be seen.
func (r *parts) stop(srv *server.Server, protocol, metrics *http.Server) error {
	r.log.Info("Stopping")
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.ShutdownTimeout)
	defer cancel()
	srv.Drain()
	err := protocol.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("finish requests: %w", err), protocol.Close())
	}
	err = errors.Join(err, srv.Shutdown(ctx), metrics.Close())
	r.log.Info("Stopped", "clean", err == nil)
	return err
}
