package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	webhookService = "agentruntime-webhook"
	eventsRole     = "demo-events-viewer"
)

func newScheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// install applies config/default as it ships, but for what only a cluster can
// have: Deployments, and a Service with Pods behind it. The webhooks' Service is
// made to point at this machine instead, so that the API server reaches the
// manager under the very name its certificate is for.
func (s *stack) install(ctx context.Context) error {
	var err error
	if s.ports.webhook, err = freePort(ctx); err != nil {
		return err
	}
	rendered, err := exec.CommandContext(ctx, filepath.Join(s.assets, "kubectl"), "kustomize", "config/default").Output()
	if err != nil {
		return fmt.Errorf("kubectl kustomize config/default: %w", err)
	}
	objects, err := decode(rendered)
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

// fit changes what the demo has differently; nil leaves the object out.
func (s *stack) fit(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch object.GetKind() {
	case "Deployment":
		return nil, into(object, &appsv1.Deployment{})
	case "Service":
		if object.GetName() != webhookService {
			return object, nil
		}
		service := &corev1.Service{}
		if err := into(object, service); err != nil {
			return nil, err
		}
		service.Spec = corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "localhost",
			Ports: []corev1.ServicePort{{Port: int32(s.ports.webhook)}},
		}
		return from(service)
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

func decode(stream []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	var out []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// applyAll applies the objects server-side, those again whose kind or namespace
// comes with another of them.
func (s *stack) applyAll(ctx context.Context, pending []*unstructured.Unstructured) error {
	return s.until(ctx, "the manifests to be accepted", func() (bool, error) {
		var again []*unstructured.Unstructured
		for _, object := range pending {
			err := s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("demo"), client.ForceOwnership)
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

func (s *stack) serviceAccountToken(ctx context.Context, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount %s: %w", name, err)
	}
	return request.Status.Token, nil
}

// makeUser gives the demo's user the shipped roles in one namespace.
func (s *stack) makeUser(ctx context.Context) error {
	user, err := s.plane.AddUser(envtest.User{Name: demoUser}, nil)
	if err != nil {
		return fmt.Errorf("make a user: %w", err)
	}
	if s.user, err = s.writeKubeconfig(demoUser, user); err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demoNamespace}},
		// In a cluster the role view shows events; here nothing aggregates it.
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: eventsRole},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch"}}},
		},
	}
	for _, role := range []string{eventsRole, "agentruntime-viewer", "agentruntime-user", "agentruntime-runtime-user"} {
		objects = append(objects, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: demoNamespace, Name: demoUser + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: demoUser}},
		})
	}
	for _, object := range objects {
		if err := s.client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// registerRuntime applies the sample AgentRuntime with this machine's address and
// the authority of the executor's certificate, and waits until the manager says that it answers.
func (s *stack) registerRuntime(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "agentruntime-gateway-token"},
		Type:       v1alpha1.SecretTypeGatewayToken, StringData: map[string]string{"token": s.token},
	}
	if err := s.client.Create(ctx, secret); err != nil {
		return err
	}
	var runtime v1alpha1.AgentRuntime
	if err := readYAML("config/samples/agentruntime.yaml", &runtime); err != nil {
		return err
	}
	runtime.Spec.URL = fmt.Sprintf("https://127.0.0.1:%d", s.ports.runtime)
	runtime.Spec.CABundle = s.cert.authority
	if err := s.client.Create(ctx, &runtime); err != nil {
		return err
	}
	return s.until(ctx, "AgentRuntime "+runtime.Name+" to be Ready", func() (bool, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(&runtime), &runtime)
		return apimeta.IsStatusConditionTrue(runtime.Status.Conditions, v1alpha1.ConditionReady), err
	})
}
