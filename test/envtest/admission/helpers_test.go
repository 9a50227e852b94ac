package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func newObject(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetName(unique(strings.ToLower(kind)))
	return object
}

// minimalSpec is the least that a CompileTask needs.
func minimalSpec() map[string]any {
	return map[string]any{
		"from":  []any{"viking://resources/research"},
		"to":    "viking://resources/wiki",
		"skill": "viking://agent/skills/llm-wiki",
	}
}

// fullSpec sets every field that can be set together with credentialsSecretName.
func fullSpec() map[string]any {
	spec := minimalSpec()
	spec["instruction"] = "Be brief."
	spec["args"] = map[string]any{"model_name": "m", "deep": map[string]any{"list": []any{map[string]any{"key": int64(1)}}}}
	spec["runtimeName"] = "builtin"
	spec["credentialsSecretName"] = "key"
	spec["suspend"] = true
	spec["activeDeadlineSeconds"] = int64(60)
	spec["ttlSecondsAfterFinished"] = int64(60)
	spec["ttlSecondsAfterFailed"] = int64(60)
	return spec
}

// with returns a copy of spec with a field set; a nil value takes it out.
func with(spec map[string]any, field string, value any) map[string]any {
	out := map[string]any{}
	for key, old := range spec {
		out[key] = old
	}
	out[field] = value
	if value == nil {
		delete(out, field)
	}
	return out
}

func taskOf(namespace string, spec map[string]any) *unstructured.Unstructured {
	task := newObject("CompileTask")
	task.SetNamespace(namespace)
	task.Object["spec"] = spec
	return task
}

// createTask makes a task as the user, who needs the right to.
func createTask(ctx context.Context, as client.Client, namespace string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	task := taskOf(namespace, spec)
	Expect(as.Create(ctx, task)).To(Succeed())
	return task
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("admission")}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// mergePatch is a JSON merge patch, sent raw: unlike kubectl it reads nothing first.
func mergePatch(patch map[string]any) client.Patch {
	GinkgoHelper()
	text, err := json.Marshal(patch)
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch(types.MergePatchType, text)
}

func specPatch(fields map[string]any) client.Patch {
	GinkgoHelper()
	return mergePatch(map[string]any{"spec": fields})
}

// patchOf sends a patch of the task without changing the test's copy of it.
func patchOf(ctx context.Context, as client.Client, task *unstructured.Unstructured, patch client.Patch, options ...client.PatchOption) error {
	return as.Patch(ctx, task.DeepCopy(), patch, options...)
}

func current(ctx context.Context, task *unstructured.Unstructured) *v1alpha1.CompileTask {
	GinkgoHelper()
	var found v1alpha1.CompileTask
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(task), &found)).To(Succeed())
	return &found
}

// grant gives a person rights in a namespace, cluster-wide when it is empty, and
// waits until the API server knows.
func grant(ctx context.Context, namespace string, user string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: unique("test-role")}, Rules: rules}
	Expect(admin.Create(ctx, role)).To(Succeed())
	bind(ctx, namespace, user, role.Name)
}

// bind gives a person a ClusterRole in a namespace, cluster-wide when it is empty.
func bind(ctx context.Context, namespace string, user string, roles ...string) {
	GinkgoHelper()
	for _, name := range roles {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
		meta := metav1.ObjectMeta{Name: unique("test-binding"), Namespace: namespace}
		if namespace == "" {
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
			Expect(admin.Create(ctx, binding)).To(Succeed())
			DeferCleanup(remove, client.Object(binding))
		} else {
			Expect(admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})).To(Succeed())
		}
		var role rbacv1.ClusterRole
		Expect(admin.Get(ctx, types.NamespacedName{Name: name}, &role)).To(Succeed())
		for _, rule := range role.Rules {
			waitAllowed(ctx, namespace, user, rule)
		}
	}
}

// remove is for DeferCleanup, of what is in no namespace.
func remove(ctx context.Context, object client.Object) {
	Expect(admin.Delete(ctx, object)).To(Succeed())
}

func waitAllowed(ctx context.Context, namespace, user string, rule rbacv1.PolicyRule) {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attrs := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		attrs.Name = rule.ResourceNames[0]
	}
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attrs}}
		g.Expect(admin.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue())
	}).Should(Succeed())
}

func rule(resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resources}, Verbs: verbs}
}

func coreRule(resource, name string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
}

// grantManager gives the manager's ServiceAccount the rights on tasks that its
// controllers have, and with the facade's every write of Payloads, so that what
// is refused here is refused by a policy.
func grantManager(ctx context.Context) {
	GinkgoHelper()
	grant(ctx, "", managerUser,
		rule("compiletasks", "get", "list", "watch", "patch", "delete"),
		rule("compiletasks/status", "update"),
		rule("payloads", "create", "get", "update", "patch", "delete"))
	grant(ctx, "", facadeUser, rule("payloads", "create", "get", "update", "patch", "delete"))
}

// beRefused matches an API error with the code and all of the texts.
func beRefused(code int32, texts ...string) OmegaMatcher {
	return WithTransform(func(err error) string {
		if err == nil {
			return "no error"
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return "no API error: " + err.Error()
		}
		return fmt.Sprintf("%d %s", status.Status().Code, err)
	}, And(HavePrefix(fmt.Sprintf("%d ", code)), containAll(texts)))
}

func containAll(texts []string) OmegaMatcher {
	matchers := []OmegaMatcher{}
	for _, text := range texts {
		matchers = append(matchers, ContainSubstring(text))
	}
	return And(matchers...)
}

// causeFields are the fields that an API error names for programs.
func causeFields(err error) []string {
	GinkgoHelper()
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue(), "no API error: %v", err)
	Expect(status.Status().Details).NotTo(BeNil())
	fields := []string{}
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}
