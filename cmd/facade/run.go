package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// gcPercent is the garbage, in percent of what is in use, at which it is collected.
// Most of the facade's memory is what thousands of clients may have opened: buffers
// and stacks of connections, and garbage may thus be at most 40 % on top of it. The
// usual 100 would let the peak be twice what is in use; collecting is cheap, for what
// is in use holds few pointers.
const gcPercent = 40

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	log, err := newLogger(o)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	config, err := restConfig(o)
	if err != nil {
		return err
	}
	p, err := build(config, o, log)
	if err != nil {
		return err
	}
	log.Info("Starting the facade", "version", version, "namespace", o.namespace, "listenAddress", o.listenAddress)
	return p.run(ctx)
}

func newLogger(o options) (*slog.Logger, error) {
	level, err := parseLevel(o.logLevel)
	if err != nil {
		return nil, err
	}
	settings := &slog.HandlerOptions{Level: level}
	if o.logFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, settings)), nil
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, settings)), nil
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	switch text {
	case "error", "info", "debug":
		return level, level.UnmarshalText([]byte(text))
	}
	return level, fmt.Errorf("--log-level %q: use error, info or debug", text)
}

// run runs what serves in the background, and the server in front of it until ctx
// ends. The background goes on until the server has drained.
func (p *parts) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var running sync.WaitGroup
	for name, start := range p.background {
		running.Go(func() {
			err := start(background)
			if background.Err() == nil {
				stop(errors.Join(fmt.Errorf("the part %q has ended", name), err))
			}
		})
	}
	served := p.server.Run(ctx, p.options.listenAddress)
	cancel()
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, served)
	}
	return served
}

// serveHealth answers /healthz and /readyz to the kubelet, in plain HTTP, on a
// listener of their own.
func (p *parts) serveHealth(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.options.healthAddress)
	if err != nil {
		return fmt.Errorf("listen for health probes on %s: %w", p.options.healthAddress, err)
	}
	server := &http.Server{Handler: p.healthHandler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health probes: %w", err)
	}
	return nil
}

func (p *parts) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.server.Ready(); err != nil {
			// Which part it is, is told by the server's own /readyz.
			p.log.Info("Not ready", "err", err)
			http.Error(w, "not ready; see the log", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
