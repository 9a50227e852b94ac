package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// renderTimeout bounds one kustomize run.
const renderTimeout = 30 * time.Second

// Assets is the folder of etcd, kube-apiserver and kubectl: KUBEBUILDER_ASSETS,
// or bin/k8s where hack/controlplane puts them.
func Assets() string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return assets
	}
	return filepath.Join(Root(), "bin", "k8s")
}

// Load reads the objects of a manifest: a YAML file, or a folder with a
// kustomization, which is rendered by kubectl. The path is relative to Root, for
// example "config/policies". So tests run against what ships.
func Load(ctx context.Context, path string) ([]*unstructured.Unstructured, error) {
	full := filepath.Join(Root(), path)
	info, err := os.Stat(full)
	if err != nil {
		return nil, fmt.Errorf("find manifest %s: %w", path, err)
	}
	read := os.ReadFile
	if info.IsDir() {
		read = func(folder string) ([]byte, error) { return render(ctx, folder) }
	}
	text, err := read(full)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", path, err)
	}
	objects, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("decode manifest %s: %w", path, err)
	}
	return objects, nil
}

func render(ctx context.Context, folder string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, renderTimeout)
	defer cancel()
	var problems bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(Assets(), "kubectl"), "kustomize", folder)
	command.Stderr = &problems
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize: %w: %s", err, problems.String())
	}
	return text, nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	const bufferBytes = 4096
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), bufferBytes)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// splitWebhooks takes webhook configurations out of the objects and adds them to
// what envtest points at a local server.
func splitWebhooks(objects []*unstructured.Unstructured, install *envtest.WebhookInstallOptions) ([]*unstructured.Unstructured, error) {
	var rest []*unstructured.Unstructured
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case "MutatingWebhookConfiguration":
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
			err = apiruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration)
			install.MutatingWebhooks = append(install.MutatingWebhooks, configuration)
		case "ValidatingWebhookConfiguration":
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			err = apiruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration)
			install.ValidatingWebhooks = append(install.ValidatingWebhooks, configuration)
		default:
			rest = append(rest, object)
		}
		if err != nil {
			return nil, fmt.Errorf("convert %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return rest, nil
}

// create makes the objects, with the namespaces they need. What exists stays.
func create(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	made := map[string]bool{"": true}
	for _, object := range objects {
		namespace := object.GetNamespace()
		if !made[namespace] {
			made[namespace] = true
			err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create namespace %s: %w", namespace, err)
			}
		}
		if err := c.Create(ctx, object.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
