// Package envtest starts a real API server with this project's resources and
// admission policies in it, for the suites that need one.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Root is the project's root folder.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		// Built with -trimpath the caller's path is relative to the module: walk up
		// from the test's own folder instead.
		dir, err := os.Getwd()
		for err == nil && dir != filepath.Dir(dir) {
			if _, statErr := os.Stat(filepath.Join(dir, "PROJECT")); statErr == nil {
				return dir
			}
			if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
				return dir
			}
			dir = filepath.Dir(dir)
		}
		return "."
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// NewScheme returns a scheme with Kubernetes' and this project's types.
func NewScheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Options say what an Environment holds beside the CRDs.
type Options struct {
	// Webhooks are installed with the client configuration of a local server.
	MutatingWebhooks   []*admissionregistrationv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionregistrationv1.ValidatingWebhookConfiguration
	// Manifests are installed beside the CRDs: YAML files and kustomizations, by
	// their path below Root, such as "config/policies". Webhook configurations
	// among them are treated like those above.
	Manifests []string
	// APIServerArgs are further flags of the API server, such as
	// "enable-admission-plugins".
	APIServerArgs map[string]string
}

// Environment is a running control plane.
type Environment struct {
	*envtest.Environment
	// Config is a cluster admin's.
	Config *rest.Config
}

// Start runs etcd and an API server from Assets, and installs the CRDs and the
// manifests asked for. Stop ends both.
func Start(options Options) (*Environment, error) {
	assets := Assets()
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(Root(), "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		Scheme:                NewScheme(),
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			MutatingWebhooks:   options.MutatingWebhooks,
			ValidatingWebhooks: options.ValidatingWebhooks,
		},
	}
	objects, err := loadAll(context.Background(), options.Manifests)
	if err != nil {
		return nil, err
	}
	objects, err = splitWebhooks(objects, &env.WebhookInstallOptions)
	if err != nil {
		return nil, err
	}
	args := env.ControlPlane.GetAPIServer().Configure()
	for name, value := range options.APIServerArgs {
		args.Set(name, value)
	}
	config, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("start the control plane from %s (run 'make controlplane' to build it): %w", assets, err)
	}
	// Tests are not throttled by the client; the API server has its own limits.
	config.QPS = -1
	started := &Environment{Environment: env, Config: config}
	if err := started.install(context.Background(), objects); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return started, nil
}

func loadAll(ctx context.Context, paths []string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, path := range paths {
		objects, err := Load(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

func (e *Environment) install(ctx context.Context, objects []*unstructured.Unstructured) error {
	if len(objects) == 0 {
		return nil
	}
	admin, err := client.New(e.Config, client.Options{Scheme: e.Scheme})
	if err != nil {
		return fmt.Errorf("make the client that installs manifests: %w", err)
	}
	return create(ctx, admin, objects)
}
