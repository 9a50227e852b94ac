package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	testenv "github.com/agentruntime/operator/test/envtest"
)

// Names that config/ gives.
const (
	// Namespace is the operator's.
	Namespace = "agentruntime-system"
	// FacadeHost is the name that the facade's certificate is for.
	FacadeHost = "agentruntime-facade." + Namespace + ".svc"

	webhookService   = "agentruntime-webhook"
	facadeService    = "agentruntime-facade"
	facadeSecret     = "agentruntime-facade-certificate"
	facadeAPIService = "v1.compile.agentruntime.dev"
)

// Options say what to run.
type Options struct {
	// Assets is the folder of etcd, kube-apiserver and kubectl; empty means
	// test/envtest's.
	Assets string
	// Overlay is the kustomization to install, below the project's root; empty
	// means config/overlays/aggregated-api.
	Overlay string
	// ManagerFlags, FacadeFlags and RuntimeFlags are added to those that every
	// stack has, and win over them.
	ManagerFlags, FacadeFlags, RuntimeFlags []string
	// APIServerArgs are further flags of the API server.
	APIServerArgs map[string]string
	// WithoutRuntime leaves the built-in executor and its AgentRuntime out.
	WithoutRuntime bool
	// Step is told of each step before and after it is done; nil for silence.
	Step func(number, of int, title string, took time.Duration, done bool)
}

func (o *Options) complete() error {
	if o.Assets == "" {
		o.Assets = testenv.Assets()
	}
	var err error
	if o.Assets, err = filepath.Abs(o.Assets); err != nil {
		return fmt.Errorf("find the control plane: %w", err)
	}
	if _, err := os.Stat(filepath.Join(o.Assets, "kube-apiserver")); err != nil {
		return fmt.Errorf("find the control plane (run 'make controlplane' to build it): %w", err)
	}
	if o.Overlay == "" {
		o.Overlay = "config/overlays/aggregated-api"
	}
	if o.Step == nil {
		o.Step = func(int, int, string, time.Duration, bool) {}
	}
	return nil
}
