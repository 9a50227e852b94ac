package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/agentruntime/operator/test/kill/process"
)

// debugServer serves what the suites ask of the process. It is a manager.Runnable.
type debugServer struct {
	listener net.Listener
}

func listenDebug(ctx context.Context, address string) (*debugServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for debugging: %w", err)
	}
	return &debugServer{listener: listener}, nil
}

func (d *debugServer) address() string { return d.listener.Addr().String() }

// Start implements manager.Runnable.
func (d *debugServer) Start(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc(process.PathStats, stats)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve for debugging: %w", err)
	}
	return nil
}

func stats(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("gc") != "" {
		runtime.GC()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(process.Stats{
		Goroutines: runtime.NumGoroutine(), HeapInUse: memory.HeapInuse, Mallocs: memory.Mallocs,
	})
}
