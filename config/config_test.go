// Package config tests what the manifests promise: who may do and reach what, what
// is mounted, and what is left out.
package config

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/envtest"
)

// manifests are the objects of a kustomization, as it renders.
type manifests []*unstructured.Unstructured

func render(t *testing.T, kustomization string) manifests {
	t.Helper()
	objects, err := envtest.Load(t.Context(), kustomization)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// get reads the one object of the kind and name.
func get[T any](t *testing.T, m manifests, kind, name string) *T {
	t.Helper()
	i := slices.IndexFunc(m, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	var typed T
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m[i].Object, &typed, true); err != nil {
		t.Fatalf("decode %s %s: %v", kind, name, err)
	}
	return &typed
}

func (m manifests) count(kind string) int {
	n := 0
	for _, object := range m {
		if object.GetKind() == kind {
			n++
		}
	}
	return n
}

func hasArgument(pod corev1.PodSpec, prefix string) bool {
	return slices.ContainsFunc(pod.Containers[0].Args, func(argument string) bool { return strings.HasPrefix(argument, prefix) })
}

func managerPod(t *testing.T, m manifests) corev1.PodSpec {
	t.Helper()
	return get[appsv1.Deployment](t, m, "Deployment", "agentruntime-manager").Spec.Template.Spec
}

func runtimePod(t *testing.T, m manifests) corev1.PodSpec {
	t.Helper()
	return get[appsv1.StatefulSet](t, m, "StatefulSet", "agentruntime-runtime").Spec.Template.Spec
}

// secretMounts are the Secrets that a Pod mounts, each with the keys it takes, or
// none for all.
func secretMounts(pod corev1.PodSpec) map[string][]string {
	mounts := map[string][]string{}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		mounts[volume.Secret.SecretName] = nil
		for _, item := range volume.Secret.Items {
			mounts[volume.Secret.SecretName] = append(mounts[volume.Secret.SecretName], item.Key)
		}
	}
	return mounts
}

func TestTheAuthorityKeyOfTheWebhooksIsMountedNowhere(t *testing.T) {
	if diff := cmp.Diff(map[string][]string{}, secretMounts(managerPod(t, render(t, "config/default")))); diff != "" {
		t.Errorf("mounted by default (-want +got):\n%s", diff)
	}
	pod := managerPod(t, render(t, "config/overlays/cert-manager"))
	want := map[string][]string{"agentruntime-webhook-certificate": {corev1.TLSCertKey, corev1.TLSPrivateKeyKey}}
	if diff := cmp.Diff(want, secretMounts(pod)); diff != "" {
		t.Errorf("mounted for cert-manager (-want +got):\n%s", diff)
	}
	if !hasArgument(pod, "--webhook-cert-rotation=false") || !hasArgument(pod, "--webhook-cert-dir=/certs") {
		t.Errorf("with cert-manager the manager gets %q", pod.Containers[0].Args)
	}
}

func TestHeapsStayBelowTheirMemoryLimit(t *testing.T) {
	objects := render(t, "config/default")
	for _, pod := range []corev1.PodSpec{managerPod(t, objects), facadePod(t, objects)} {
		t.Run(pod.Containers[0].Name, func(t *testing.T) { heapStaysBelowLimit(t, pod.Containers[0]) })
	}
}

func heapStaysBelowLimit(t *testing.T, container corev1.Container) {
	t.Helper()
	i := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
	if i < 0 {
		t.Fatal("GOMEMLIMIT is not set")
	}
	if got := container.Env[i].Value; got != "1GiB" {
		t.Fatalf("GOMEMLIMIT is %s: adapt the test", got)
	}
	if limit := container.Resources.Limits.Memory().Value(); limit*85/100 < 1<<30 || limit*75/100 > 1<<30 {
		t.Errorf("1 GiB is %d %% of the limit of %d bytes, want 75 to 85", (100<<30)/limit, limit)
	}
}

func TestTheRuntimeReachesNobodyAndHasNoRight(t *testing.T) {
	objects := render(t, "config/runtime")
	policy := get[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "agentruntime-runtime")
	if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) || len(policy.Spec.Egress) > 0 {
		t.Errorf("egress is open: %v", policy.Spec)
	}
	if mounted := runtimePod(t, objects).AutomountServiceAccountToken; mounted == nil || *mounted {
		t.Error("a ServiceAccount token is mounted")
	}
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		if n := objects.count(kind); n > 0 {
			t.Errorf("there are %d objects of kind %s", n, kind)
		}
	}
}

func TestTheRuntimeIsCalledOverTLS(t *testing.T) {
	objects := render(t, "config/runtime")
	pod := runtimePod(t, objects)
	if !hasArgument(pod, "--tls-cert-file=/certificate/tls.crt") || !hasArgument(pod, "--tls-key-file=/certificate/tls.key") {
		t.Errorf("the executor gets %q", pod.Containers[0].Args)
	}
	want := map[string][]string{
		"agentruntime-gateway-token":       nil,
		"agentruntime-runtime-certificate": {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
	}
	if diff := cmp.Diff(want, secretMounts(pod)); diff != "" {
		t.Errorf("mounted (-want +got):\n%s", diff)
	}
	container := pod.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("%s is probed by %q", probe.HTTPGet.Path, probe.HTTPGet.Scheme)
		}
	}
	service := get[corev1.Service](t, objects, "Service", "agentruntime-runtime")
	port := service.Spec.Ports[0]
	if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }) {
		t.Errorf("the Service leads to port %s, which the Pod does not have", port.TargetPort.StrVal)
	}
	sample := get[v1alpha1.AgentRuntime](t, render(t, "config/samples"), "AgentRuntime", "builtin")
	if want := fmt.Sprintf("https://%s.%s.svc:%d", service.Name, service.Namespace, port.Port); sample.Spec.URL != want {
		t.Errorf("the sample calls %s, want %s", sample.Spec.URL, want)
	}
}

func TestTokenReviewsGetAllTheyNeedAndNoMore(t *testing.T) {
	objects := render(t, "config/overlays/runtime-token-review")
	policy := get[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "agentruntime-runtime")
	want := []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{
		{Port: new(intstr.FromInt32(443))}, {Port: new(intstr.FromInt32(6443))},
	}}}
	if diff := cmp.Diff(want, policy.Spec.Egress); diff != "" {
		t.Errorf("egress (-want +got):\n%s", diff)
	}
	pod := runtimePod(t, objects)
	if mounted := pod.AutomountServiceAccountToken; mounted == nil || !*mounted {
		t.Error("no ServiceAccount token is mounted")
	}
	if !hasArgument(pod, "--authenticate-tokens") || !hasArgument(pod, "--token-audience=agentruntime-runtime") {
		t.Errorf("the executor gets %q", pod.Containers[0].Args)
	}
	role := get[rbacv1.ClusterRole](t, objects, "ClusterRole", "agentruntime-runtime")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	binding := get[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", "agentruntime-runtime")
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != pod.ServiceAccountName {
		t.Errorf("the role is bound to %v", binding.Subjects)
	}
}

// TestTasksAreRemovedBeforeWhatTheyNeed reads what make would do: the manager must
// still know a task's AgentRuntime, and run, while the task's finalizer waits.
func TestTasksAreRemovedBeforeWhatTheyNeed(t *testing.T) {
	for _, target := range []string{"undeploy", "uninstall"} {
		command := exec.CommandContext(t.Context(), "make", "-n", target, "KUBECTL=kubectl")
		command.Dir = ".."
		out, err := command.Output()
		if err != nil {
			t.Fatalf("make -n %s: %v", target, err)
		}
		before, after, found := strings.Cut(string(out), "kubectl delete compiletasks.agentruntime.dev --all --all-namespaces --wait;")
		if !found || strings.Contains(before, "kustomize") || !strings.Contains(after, "kubectl kustomize config/crd | kubectl delete") {
			t.Errorf("make %s does not delete all tasks first:\n%s", target, out)
		}
	}
}
