package admission_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var _ = Describe("With the webhook's server down", Ordered, func() {
	// What the specs use is made before, for nothing can be created in them. Most
	// tasks have args, since the webhook sees no update of the others.
	var namespace, emptied string
	var withArgs, plain, finalized *unstructured.Unstructured
	BeforeAll(func(ctx SpecContext) {
		namespace, emptied = newNamespace(ctx), newNamespace(ctx)
		withArgs = createTask(ctx, admin, namespace, fullSpec())
		plain = createTask(ctx, admin, namespace, minimalSpec())
		for range 3 {
			createTask(ctx, admin, emptied, fullSpec())
		}
		finalized = createTask(ctx, admin, namespace, fullSpec())
		Expect(patchOf(ctx, serviceAccount(managerUser), finalized, finalizersPatch(v1alpha1.FinalizerCancelOnDelete))).To(Succeed())
		stopWebhook()
		Eventually(func() error { return admin.Create(ctx, taskOf(namespace, minimalSpec()), client.DryRunAll) }).
			Should(beRefused(http.StatusInternalServerError, "failed calling webhook"))
	})
	AfterAll(func(ctx SpecContext) {
		startWebhook()
		waitForAdmission(ctx)
	})

	gone := func(ctx context.Context, task *unstructured.Unstructured) {
		GinkgoHelper()
		err := admin.Get(ctx, client.ObjectKeyFromObject(task), task.DeepCopy())
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "err: %v", err)
	}

	It("nothing is created, and the error says why", func(ctx SpecContext) {
		Expect(admin.Create(ctx, taskOf(namespace, minimalSpec()))).
			To(beRefused(http.StatusInternalServerError, "failed calling webhook", "default-compiletask.agentruntime.dev"))
	})

	It("a change of the spec of a task with args is refused", func(ctx SpecContext) {
		Expect(patchOf(ctx, admin, withArgs, specPatch(map[string]any{"suspend": false}))).
			To(beRefused(http.StatusInternalServerError, "failed calling webhook", "validate-compiletask.agentruntime.dev"))
	})

	It("a renamed key in args is refused", func(ctx SpecContext) {
		err := patchOf(ctx, admin, withArgs, specPatch(map[string]any{"args": map[string]any{"model_name": nil, "model": "m"}}))
		Expect(err).To(beRefused(http.StatusInternalServerError, "failed calling webhook"))
	})

	It("intents of a task without args work", func(ctx SpecContext) {
		Expect(patchOf(ctx, admin, plain, specPatch(map[string]any{"suspend": true}))).To(Succeed())
		Expect(patchOf(ctx, admin, plain, specPatch(map[string]any{"cancel": true, "ttlSecondsAfterFinished": 5}))).To(Succeed())
	})

	It("status is written", func(ctx SpecContext) {
		manager := serviceAccount(managerUser)
		for _, task := range []*unstructured.Unstructured{withArgs, plain, finalized} {
			stored := current(ctx, task)
			stored.Status.Stage = "writing"
			Expect(manager.Status().Update(ctx, stored)).To(Succeed())
		}
	})

	It("a finalizer is put on and comes off", func(ctx SpecContext) {
		manager := serviceAccount(managerUser)
		for _, finalizers := range [][]string{{v1alpha1.FinalizerCancelOnDelete}, {}} {
			Expect(patchOf(ctx, manager, withArgs, mergePatch(map[string]any{"metadata": map[string]any{"finalizers": finalizers}}))).To(Succeed())
			Expect(current(ctx, withArgs).Finalizers).To(HaveLen(len(finalizers)))
		}
	})

	It("metadata is changed", func(ctx SpecContext) {
		Expect(patchOf(ctx, admin, withArgs, mergePatch(map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}},
		}))).To(Succeed())
	})

	It("owners are set and taken off by the garbage collector", func(ctx SpecContext) {
		collector := serviceAccount(collectorUser)
		owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
		for _, owners := range [][]any{{owner}, {}} {
			Expect(patchOf(ctx, collector, withArgs, mergePatch(map[string]any{"metadata": map[string]any{"ownerReferences": owners}}))).To(Succeed())
		}
	})

	It("a task is deleted, at once or when its finalizer comes off", func(ctx SpecContext) {
		task := finalized.DeepCopy()
		Expect(admin.Delete(ctx, task)).To(Succeed())
		Expect(current(ctx, finalized).DeletionTimestamp).NotTo(BeNil())
		Expect(patchOf(ctx, serviceAccount(managerUser), finalized, mergePatch(map[string]any{"metadata": map[string]any{"finalizers": nil}}))).To(Succeed())
		gone(ctx, finalized)
		Expect(admin.Delete(ctx, plain.DeepCopy())).To(Succeed())
		gone(ctx, plain)
	})

	It("foreground deletion ends with the garbage collector's patch", func(ctx SpecContext) {
		policy := metav1.DeletePropagationForeground
		Expect(admin.Delete(ctx, withArgs.DeepCopy(), &client.DeleteOptions{PropagationPolicy: &policy})).To(Succeed())
		Expect(current(ctx, withArgs).Finalizers).To(ConsistOf(metav1.FinalizerDeleteDependents))
		Expect(patchOf(ctx, serviceAccount(collectorUser), withArgs, mergePatch(map[string]any{"metadata": map[string]any{"finalizers": nil}}))).To(Succeed())
		gone(ctx, withArgs)
	})

	It("a namespace is emptied by the namespace controller", func(ctx SpecContext) {
		tasks := func() []v1alpha1.CompileTask {
			var list v1alpha1.CompileTaskList
			Expect(admin.List(ctx, &list, client.InNamespace(emptied))).To(Succeed())
			return list.Items
		}
		Expect(tasks()).To(HaveLen(3))
		object := &v1alpha1.CompileTask{}
		Expect(serviceAccount(namespaceUser).DeleteAllOf(ctx, object, client.InNamespace(emptied))).To(Succeed())
		Expect(tasks()).To(BeEmpty())
	})
})
