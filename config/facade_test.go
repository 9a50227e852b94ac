package config

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	operatorNamespace  = "agentruntime-system"
	facadeName         = "agentruntime-facade"
	facadeCertificate  = "agentruntime-facade-certificate"
	compileAPIService  = "v1.compile.agentruntime.dev"
	everything         = "config/testdata/everything"
	aggregatedOverlay  = "config/overlays/aggregated-api"
	legacyOverlay      = "config/overlays/legacy-impersonation"
	certManagerOverlay = "config/overlays/cert-manager"
)

func facadePod(t *testing.T, m manifests) corev1.PodSpec {
	t.Helper()
	return get[appsv1.Deployment](t, m, "Deployment", facadeName).Spec.Template.Spec
}

// grant is a rule that a ServiceAccount has, in a namespace or, when it is empty, in
// all.
type grant struct {
	namespace string
	rbacv1.PolicyRule
}

// facadeGrants are the rules of all roles that are bound to the facade and come with
// the manifests.
func facadeGrants(t *testing.T, m manifests) []grant {
	t.Helper()
	var grants []grant
	for _, object := range m {
		switch object.GetKind() {
		case "ClusterRoleBinding":
			binding := get[rbacv1.ClusterRoleBinding](t, m, "ClusterRoleBinding", object.GetName())
			if boundToFacade(binding.Subjects) {
				grants = appendGrants(grants, "", get[rbacv1.ClusterRole](t, m, "ClusterRole", binding.RoleRef.Name).Rules)
			}
		case "RoleBinding":
			binding := get[rbacv1.RoleBinding](t, m, "RoleBinding", object.GetName())
			if boundToFacade(binding.Subjects) && binding.Namespace == operatorNamespace {
				grants = appendGrants(grants, binding.Namespace, get[rbacv1.Role](t, m, "Role", binding.RoleRef.Name).Rules)
			}
		}
	}
	return grants
}

func boundToFacade(subjects []rbacv1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == facadeName && s.Namespace == operatorNamespace
	})
}

func appendGrants(grants []grant, namespace string, rules []rbacv1.PolicyRule) []grant {
	for _, rule := range rules {
		grants = append(grants, grant{namespace, rule})
	}
	return grants
}

func TestTheFacadeHasNoWildcardAndNoSecretOfOthers(t *testing.T) {
	for _, overlay := range []string{"config/default", aggregatedOverlay, legacyOverlay, certManagerOverlay, everything} {
		grants := facadeGrants(t, render(t, overlay))
		if len(grants) < 5 {
			t.Fatalf("%s: found %d rules only: the test looks at the wrong place", overlay, len(grants))
		}
		for _, g := range grants {
			words := slices.Concat(g.APIGroups, g.Resources, g.Verbs)
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "*") }) {
				t.Errorf("%s: a wildcard: %v", overlay, g)
			}
			secrets := slices.ContainsFunc(g.Resources, func(resource string) bool { return strings.HasPrefix(resource, "secrets") })
			if !secrets {
				continue
			}
			if g.namespace != operatorNamespace {
				t.Errorf("%s: Secrets outside the operator's namespace: %v", overlay, g)
			}
			own := slices.Equal(g.ResourceNames, []string{facadeCertificate}) && slices.Equal(g.Verbs, []string{"get", "update"})
			if !own && !slices.Equal(g.Verbs, []string{"get"}) {
				t.Errorf("%s: more than get on Secrets: %v", overlay, g)
			}
		}
	}
}

func TestTheFacadeMayImpersonateForTasksOnly(t *testing.T) {
	for _, g := range facadeGrants(t, render(t, "config/default")) {
		for _, verb := range g.Verbs {
			switch {
			case verb == "impersonate":
				t.Errorf("unconstrained impersonation: %v", g)
			case strings.HasPrefix(verb, "impersonate-on:"):
				if !slices.Equal(g.Resources, []string{"compiletasks"}) || !slices.Equal(g.APIGroups, []string{"agentruntime.dev"}) {
					t.Errorf("impersonation for more than tasks: %v", g)
				}
			}
		}
	}
	for _, rule := range get[rbacv1.ClusterRole](t, render(t, legacyOverlay), "ClusterRole", "agentruntime-facade-legacy-users").Rules {
		if slices.Contains(rule.Resources, "groups") && len(rule.ResourceNames) == 0 {
			t.Errorf("plain impersonation of every group: %v", rule)
		}
	}
}

func TestNoAggregatedRoleShowsBodiesOrOthersTasks(t *testing.T) {
	found := 0
	for _, object := range render(t, everything) {
		aggregated := slices.ContainsFunc(slices.Collect(maps.Keys(object.GetLabels())), func(label string) bool {
			return strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-")
		})
		if object.GetKind() != "ClusterRole" || !aggregated {
			continue
		}
		found++
		role := get[rbacv1.ClusterRole](t, manifests{object}, "ClusterRole", object.GetName())
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if slices.Contains([]string{"payloads", "compiletasks/any", "compiletasks/own", "*"}, resource) {
					t.Errorf("%s is aggregated and holds %s", role.Name, resource)
				}
			}
		}
	}
	if found == 0 {
		t.Error("found no aggregated role: the test looks at the wrong place")
	}
}

func TestTheFacadeDrainsBeforeItIsKilled(t *testing.T) {
	pod := facadePod(t, render(t, "config/default"))
	container := pod.Containers[0]
	i := slices.IndexFunc(container.Args, func(argument string) bool { return strings.HasPrefix(argument, "--drain-timeout=") })
	if i < 0 {
		t.Fatal("--drain-timeout is not set")
	}
	drain, err := time.ParseDuration(strings.TrimPrefix(container.Args[i], "--drain-timeout="))
	if err != nil {
		t.Fatal(err)
	}
	before := time.Duration(container.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace <= before+drain {
		t.Errorf("it has %s, and takes %s and %s", grace, before, drain)
	}
	rolling := get[appsv1.Deployment](t, render(t, "config/default"), "Deployment", facadeName).Spec.Strategy.RollingUpdate
	if rolling.MaxUnavailable.IntValue() != 0 {
		t.Errorf("a rollout takes %s Pods away first", rolling.MaxUnavailable)
	}
}

func TestTheFacadeIsReachedWhereItListens(t *testing.T) {
	objects := render(t, aggregatedOverlay)
	container := facadePod(t, objects).Containers[0]
	service := get[corev1.Service](t, objects, "Service", facadeName)
	var ports []int32
	for _, port := range service.Spec.Ports {
		ports = append(ports, port.Port)
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.TargetPort.StrVal && p.ContainerPort == 1933
		}) {
			t.Errorf("port %d leads to %s, which the Pod does not have", port.Port, port.TargetPort.StrVal)
		}
	}
	if diff := cmp.Diff([]int32{443, 1933}, ports); diff != "" {
		t.Errorf("the Service's ports (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "APIService" })
	want := map[string]any{
		"group": "compile.agentruntime.dev", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(15),
		"service": map[string]any{"namespace": service.Namespace, "name": service.Name, "port": int64(443)},
	}
	if diff := cmp.Diff(want, objects[i].Object["spec"]); diff != "" || objects[i].GetName() != compileAPIService {
		t.Errorf("APIService %s (-want +got):\n%s", objects[i].GetName(), diff)
	}
	if !hasArgument(facadePod(t, objects), "--aggregated=true") || hasArgument(facadePod(t, render(t, "config/default")), "--aggregated") {
		t.Error("--aggregated does not go with the component")
	}
	executor := get[networkingv1.NetworkPolicy](t, render(t, "config/runtime"), "NetworkPolicy", "agentruntime-runtime")
	if !slices.ContainsFunc(executor.Spec.Ingress[0].From, func(peer networkingv1.NetworkPolicyPeer) bool {
		return peer.PodSelector != nil && peer.PodSelector.MatchLabels["app.kubernetes.io/component"] == "facade"
	}) {
		t.Error("the executor's content store is closed to the facade")
	}
}

func TestCertManagerTakesTheFacadesRightsToCertificates(t *testing.T) {
	objects := render(t, everything)
	pod := facadePod(t, objects)
	want := map[string][]string{facadeCertificate: {corev1.TLSCertKey, corev1.TLSPrivateKeyKey}}
	if diff := cmp.Diff(want, secretMounts(pod)); diff != "" {
		t.Errorf("mounted (-want +got):\n%s", diff)
	}
	if !hasArgument(pod, "--tls-cert-file=/certificate/tls.crt") || !hasArgument(pod, "--tls-key-file=/certificate/tls.key") {
		t.Errorf("with cert-manager the facade gets %q", pod.Containers[0].Args)
	}
	for _, g := range facadeGrants(t, objects) {
		if slices.Contains(g.Verbs, "update") || slices.Contains(g.Resources, "apiservices") {
			t.Errorf("the facade keeps %v", g)
		}
	}
}

var (
	flagName    = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`)
	flagDefault = regexp.MustCompile(`--impersonate-extra .*\(default \[([^\]]*)\]\)`)
)

// TestManifestsAndProgramsAgree holds what the manifests give the programs against
// the programs' own help.
func TestManifestsAndProgramsAgree(t *testing.T) {
	objects := render(t, everything)
	for _, pod := range []corev1.PodSpec{managerPod(t, objects), facadePod(t, objects), runtimePod(t, objects)} {
		container := pod.Containers[0]
		text := programHelp(t, strings.TrimPrefix(container.Command[0], "/"))
		var known []string
		for _, match := range flagName.FindAllStringSubmatch(text, -1) {
			known = append(known, match[1])
		}
		for _, argument := range container.Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
			if !slices.Contains(known, name) {
				t.Errorf("%s has no flag %s", container.Name, argument)
			}
		}
		if container.Name != "facade" {
			continue
		}
		if !strings.Contains(text, `"`+facadeCertificate+`"`) {
			t.Errorf("the facade's --certificate-secret is not by default %s", facadeCertificate)
		}
		match := flagDefault.FindStringSubmatch(text)
		if match == nil {
			t.Fatal("--impersonate-extra has no default")
		}
		extrasAre(t, objects, strings.Split(match[1], ","))
	}
}

// extrasAre wants the roles to allow the extras that the facade passes on.
func extrasAre(t *testing.T, m manifests, want []string) {
	t.Helper()
	slices.Sort(want)
	for _, role := range []string{"agentruntime-facade-impersonation", "agentruntime-facade-legacy-users"} {
		var got []string
		for _, rule := range get[rbacv1.ClusterRole](t, m, "ClusterRole", role).Rules {
			for _, resource := range rule.Resources {
				if key, isExtra := strings.CutPrefix(resource, "userextras/"); isExtra {
					got = append(got, key)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("extras of %s (-flag +role):\n%s", role, diff)
		}
	}
}

func programHelp(t *testing.T, program string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), program)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/"+program)
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	text, err := exec.CommandContext(t.Context(), binary, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v\n%s", program, err, text)
	}
	return string(text)
}
