package config

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/test/envtest"
)

// TestARealAPIServerTakesWhatShips installs the operator, asks the API server's own
// RBAC what the facade may, and its Pod Security what it thinks of the Pods.
func TestARealAPIServerTakesWhatShips(t *testing.T) {
	env, err := envtest.Start(envtest.Options{Manifests: []string{aggregatedOverlay}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := client.New(env.Config, client.Options{Scheme: envtest.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("every object of every component", func(t *testing.T) { applyDry(t, admin, render(t, everything)) })
	t.Run("Pods under the restricted level", func(t *testing.T) { createPodsDry(t, admin, render(t, everything)) })
	t.Run("the facade's rights", func(t *testing.T) { facadeMay(t, admin) })
}

// applyDry applies strictly, but for cert-manager's kinds, which are not installed.
func applyDry(t *testing.T, admin client.Client, objects manifests) {
	t.Helper()
	strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
	for _, object := range objects {
		if strings.HasPrefix(object.GetAPIVersion(), "cert-manager.io/") {
			continue
		}
		object = object.DeepCopy()
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			// Those of the name lead to this machine, not to a Service.
			object.SetName("other")
		}
		err := strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
		if err != nil {
			t.Errorf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func createPodsDry(t *testing.T, admin client.Client, objects manifests) {
	t.Helper()
	executor := runtimePod(t, objects)
	// A StatefulSet's claims become volumes when it makes a Pod.
	executor.Volumes = append(executor.Volumes, corev1.Volume{Name: "data"})
	for _, spec := range []corev1.PodSpec{managerPod(t, objects), facadePod(t, objects), executor} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: spec.Containers[0].Name}, Spec: spec}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("create the Pod of the %s: %v", pod.Name, err)
		}
	}
	loose := facadePod(t, objects)
	loose.HostNetwork = true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "loose"}, Spec: loose}
	if err := admin.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("the namespace takes any Pod: %v", err)
	}
}

func facadeMay(t *testing.T, admin client.Client) {
	t.Helper()
	own := func(verb, name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Namespace: operatorNamespace, Verb: verb, Resource: "secrets", Name: name}
	}
	tests := map[string]struct {
		ask  authorizationv1.ResourceAttributes
		want bool
	}{
		"read an API key":                             {own("get", "apikey-0123"), true},
		"list API keys":                               {own("list", ""), false},
		"watch Secrets":                               {own("watch", ""), false},
		"renew its certificate":                       {own("update", facadeCertificate), true},
		"write the key ring":                          {own("update", "agentruntime-key-ring"), false},
		"make an API key":                             {own("create", ""), false},
		"read a Secret of a tenant":                   {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "get", Resource: "secrets", Name: "a"}, false},
		"watch tasks":                                 {authorizationv1.ResourceAttributes{Verb: "watch", Group: "agentruntime.dev", Resource: "compiletasks"}, true},
		"make a task as itself":                       {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "create", Group: "agentruntime.dev", Resource: "compiletasks"}, false},
		"list Payloads":                               {authorizationv1.ResourceAttributes{Verb: "list", Group: "agentruntime.dev", Resource: "payloads"}, false},
		"approve":                                     {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "approve", Group: "agentruntime.dev", Resource: "workspaces"}, false},
		"be a user":                                   {authorizationv1.ResourceAttributes{Verb: "impersonate:user-info", Group: "authentication.k8s.io", Resource: "users", Name: "ada"}, true},
		"be a user in the plain way":                  {authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "ada"}, false},
		"be a node":                                   {authorizationv1.ResourceAttributes{Verb: "impersonate:arbitrary-node", Group: "authentication.k8s.io", Resource: "nodes", Name: "n"}, false},
		"make a task as a user":                       {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "impersonate-on:user-info:create", Group: "agentruntime.dev", Resource: "compiletasks"}, true},
		"delete a task as a user":                     {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "impersonate-on:user-info:delete", Group: "agentruntime.dev", Resource: "compiletasks"}, false},
		"read a Secret as a user":                     {authorizationv1.ResourceAttributes{Namespace: "tenant", Verb: "impersonate-on:user-info:get", Resource: "secrets", Name: "a"}, false},
		"put its authority into its APIService":       {authorizationv1.ResourceAttributes{Verb: "patch", Group: "apiregistration.k8s.io", Resource: "apiservices", Name: compileAPIService}, true},
		"change another APIService":                   {authorizationv1.ResourceAttributes{Verb: "patch", Group: "apiregistration.k8s.io", Resource: "apiservices", Name: "v1.apps"}, false},
		"ask who calls":                               {authorizationv1.ResourceAttributes{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, true},
		"learn by whose certificate the proxy speaks": {authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "get", Resource: "configmaps", Name: "extension-apiserver-authentication"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + operatorNamespace + ":" + facadeName, ResourceAttributes: &test.ask,
			}}
			if err := admin.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != test.want {
				t.Errorf("allowed is %t, want %t: %+v", review.Status.Allowed, test.want, test.ask)
			}
		})
	}
}
