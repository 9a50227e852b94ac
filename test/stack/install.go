package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	testenv "github.com/agentruntime/operator/test/envtest"
)

// install applies the overlay as it ships, but for what only a cluster can have:
// Deployments, and Services with Pods behind them. The webhooks' and the facade's
// Services are made to point at this machine instead, so that the API server
// reaches both under the very names their certificates are for.
func (s *Stack) install(ctx context.Context) error {
	if err := freePorts(ctx, &s.ports.webhook, &s.ports.facade); err != nil {
		return err
	}
	objects, err := testenv.Load(ctx, s.options.Overlay)
	if err != nil {
		return err
	}
	var pending []*unstructured.Unstructured
	for _, object := range objects {
		fitted, err := s.fit(object)
		if err != nil {
			return err
		}
		if fitted != nil {
			pending = append(pending, fitted)
		}
	}
	return s.applyAll(ctx, pending)
}

// fit changes what this machine has differently; nil leaves the object out.
func (s *Stack) fit(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch object.GetKind() {
	case "Deployment":
		return nil, into(object, &appsv1.Deployment{})
	case "Service":
		return s.fitService(object)
	case "APIService":
		return object, unstructured.SetNestedField(object.Object, int64(s.ports.facade), "spec", "service", "port")
	case "MutatingWebhookConfiguration":
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := into(object, configuration); err != nil {
			return nil, err
		}
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.Service.Port = new(int32(s.ports.webhook))
		}
		return from(configuration)
	case "ValidatingWebhookConfiguration":
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := into(object, configuration); err != nil {
			return nil, err
		}
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.Service.Port = new(int32(s.ports.webhook))
		}
		return from(configuration)
	}
	return object, nil
}

func (s *Stack) fitService(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	port, ok := map[string]int{webhookService: s.ports.webhook, facadeService: s.ports.facade}[object.GetName()]
	if !ok {
		return object, nil
	}
	service := &corev1.Service{}
	if err := into(object, service); err != nil {
		return nil, err
	}
	service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost",
		Ports: []corev1.ServicePort{{Port: int32(port)}},
	}
	return from(service)
}

// into decodes strictly, so that a manifest with an unknown field fails.
func into(object *unstructured.Unstructured, typed any) error {
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, typed); err != nil {
		return fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

func from(typed client.Object) (*unstructured.Unstructured, error) {
	content, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// applyAll applies the objects server-side, those again whose kind or namespace
// comes with another of them.
func (s *Stack) applyAll(ctx context.Context, pending []*unstructured.Unstructured) error {
	return s.Until(ctx, "the manifests to be accepted", func() (bool, error) {
		var again []*unstructured.Unstructured
		for _, object := range pending {
			err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("stack"), client.ForceOwnership)
			switch {
			case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
				again = append(again, object)
			case err != nil:
				return false, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		pending = again
		return len(pending) == 0, nil
	})
}

// certificate is what the executor serves TLS with.
type certificate struct {
	certFile, keyFile string
	authority         []byte // PEM, for the AgentRuntime's caBundle
}

// makeCertificate makes the executor's certificate as `make deploy-runtime` does,
// for this machine's address instead of a Service's name.
func (s *Stack) makeCertificate(ctx context.Context, host string) (*certificate, error) {
	text, err := exec.CommandContext(ctx, s.Binary("runtimecert"), "-hosts="+host).Output()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(text, &secret); err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	c := &certificate{
		certFile:  filepath.Join(s.Dir, corev1.TLSCertKey),
		keyFile:   filepath.Join(s.Dir, corev1.TLSPrivateKeyKey),
		authority: secret.Data["ca.crt"],
	}
	return c, c.write(secret.Data)
}

func (c *certificate) write(data map[string][]byte) error {
	return errors.Join(
		os.WriteFile(c.certFile, data[corev1.TLSCertKey], 0o600),
		os.WriteFile(c.keyFile, data[corev1.TLSPrivateKeyKey], 0o600))
}
