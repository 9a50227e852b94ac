package admission_test

import (
	"context"
	"encoding/json"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const finalizerPolicy = "agentruntime-compiletask-finalizer"

// finalizersPatch is a merge patch that leaves a task these finalizers only.
func finalizersPatch(finalizers ...string) client.Patch {
	GinkgoHelper()
	return mergePatch(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// applyFinalizer is a server-side apply of the task with the finalizer and spec.
func applyFinalizer(task *unstructured.Unstructured, spec map[string]any) client.Patch {
	GinkgoHelper()
	intent := map[string]any{
		"apiVersion": task.GetAPIVersion(), "kind": task.GetKind(),
		"metadata": map[string]any{"name": task.GetName(), "namespace": task.GetNamespace(), "finalizers": []any{v1alpha1.FinalizerCancelOnDelete}},
	}
	if spec != nil {
		intent["spec"] = spec
	}
	text, err := json.Marshal(intent)
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch(types.ApplyPatchType, text)
}

func jsonPatch(text string) client.Patch {
	return client.RawPatch(types.JSONPatchType, []byte(text))
}

var _ = Describe("The finalizer that says a task is with an executor", func() {
	const finalizer, other = v1alpha1.FinalizerCancelOnDelete, "example.com/x"
	var (
		namespace string
		manager   client.Client
		task      *unstructured.Unstructured
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		bind(ctx, namespace, alice.name, "agentruntime-user")
		manager = serviceAccount(managerUser)
		task = createTask(ctx, alice, namespace, minimalSpec())
	})
	asAdmin := func(ctx context.Context) client.Client {
		bind(ctx, namespace, carol.name, "agentruntime-admin")
		return carol
	}
	put := func(ctx context.Context, finalizers ...string) {
		GinkgoHelper()
		Expect(patchOf(ctx, manager, task, finalizersPatch(finalizers...))).To(Succeed())
	}

	It("is on no new task, whoever creates it", func(ctx SpecContext) {
		grant(ctx, namespace, managerUser, rule("compiletasks", "create"))
		for _, as := range []client.Client{alice, asAdmin(ctx), admin, manager} {
			created := taskOf(namespace, minimalSpec())
			created.SetFinalizers([]string{other, finalizer})
			Expect(as.Create(ctx, created)).To(beRefused(http.StatusForbidden, finalizerPolicy, "can't be created"))
		}
	})

	It("is on no task that an apply creates", func(ctx SpecContext) {
		created := taskOf(namespace, minimalSpec())
		err := patchOf(ctx, alice, created, applyFinalizer(created, minimalSpec()), client.FieldOwner("alice"))
		Expect(err).To(beRefused(http.StatusForbidden, finalizerPolicy, "can't be created"))
	})

	It("leaves other finalizers to who creates or changes the task", func(ctx SpecContext) {
		created := taskOf(namespace, minimalSpec())
		created.SetFinalizers([]string{other})
		Expect(alice.Create(ctx, created)).To(Succeed())
		Expect(patchOf(ctx, alice, created, finalizersPatch())).To(Succeed())
	})

	It("is not put on by the requester, in any way", func(ctx SpecContext) {
		add := jsonPatch(`[{"op":"add","path":"/metadata/finalizers","value":["` + finalizer + `"]}]`)
		for _, patch := range []client.Patch{finalizersPatch(finalizer), finalizersPatch(other, finalizer), add} {
			Expect(patchOf(ctx, alice, task, patch)).To(beRefused(http.StatusForbidden, finalizerPolicy, "only the operator puts on"))
		}
		for _, owner := range []string{"alice", "manager"} {
			err := patchOf(ctx, alice, task, applyFinalizer(task, nil), client.FieldOwner(owner), client.ForceOwnership)
			Expect(err).To(beRefused(http.StatusForbidden, finalizerPolicy, "only the operator puts on"))
		}
		Expect(current(ctx, task).Finalizers).To(BeEmpty())
	})

	It("is not put on by an admin, nor by a name like the manager's", func(ctx SpecContext) {
		const alike = managerUser + "s"
		bind(ctx, namespace, alike, "agentruntime-admin")
		for _, as := range []client.Client{asAdmin(ctx), admin, serviceAccount(alike)} {
			Expect(patchOf(ctx, as, task, finalizersPatch(finalizer))).To(beRefused(http.StatusForbidden, finalizerPolicy, "only the operator puts on"))
		}
		stored := current(ctx, task)
		stored.Finalizers = []string{finalizer}
		Expect(carol.Update(ctx, stored)).To(beRefused(http.StatusForbidden, finalizerPolicy, "only the operator puts on"))
	})

	It("is put on and taken off by the manager", func(ctx SpecContext) {
		put(ctx, finalizer)
		Expect(current(ctx, task).Finalizers).To(ConsistOf(finalizer))
		put(ctx)
		Expect(current(ctx, task).Finalizers).To(BeEmpty())
	})

	It("is not taken off by the requester", func(ctx SpecContext) {
		put(ctx, other, finalizer)
		remove := jsonPatch(`[{"op":"remove","path":"/metadata/finalizers"}]`)
		for _, patch := range []client.Patch{finalizersPatch(), finalizersPatch(other), remove} {
			Expect(patchOf(ctx, alice, task, patch)).To(beRefused(http.StatusForbidden, finalizerPolicy, `"update" on compiletasks/finalizers`))
		}
		Expect(current(ctx, task).Finalizers).To(ConsistOf(other, finalizer))
	})

	It("is taken off by an admin, so that a trapped task goes", func(ctx SpecContext) {
		put(ctx, finalizer)
		owner := asAdmin(ctx)
		Expect(owner.Delete(ctx, task.DeepCopy())).To(Succeed())
		Expect(patchOf(ctx, alice, task, finalizersPatch())).To(beRefused(http.StatusForbidden, finalizerPolicy))
		Expect(patchOf(ctx, owner, task, finalizersPatch())).To(Succeed())
		err := admin.Get(ctx, client.ObjectKeyFromObject(task), task.DeepCopy())
		Expect(err).To(beRefused(http.StatusNotFound))
	})

	It("is not taken off by who may update tasks but not their finalizers", func(ctx SpecContext) {
		put(ctx, finalizer)
		grant(ctx, namespace, bob.name, rule("compiletasks", "get", "update", "patch"))
		Expect(patchOf(ctx, bob, task, finalizersPatch())).To(beRefused(http.StatusForbidden, finalizerPolicy))
	})

	It("holds up no other change of a task that has it", func(ctx SpecContext) {
		put(ctx, finalizer)
		Expect(patchOf(ctx, alice, task, specPatch(map[string]any{"cancel": true}))).To(Succeed())
		Expect(patchOf(ctx, alice, task, finalizersPatch(finalizer, other))).To(Succeed())
		collector := serviceAccount(collectorUser)
		grant(ctx, namespace, collectorUser, rule("compiletasks", "get", "patch"))
		Expect(patchOf(ctx, collector, task, finalizersPatch(finalizer, metav1.FinalizerDeleteDependents))).To(Succeed())
		Expect(patchOf(ctx, collector, task, finalizersPatch(finalizer))).To(Succeed())
	})

	It("neither holds up status nor comes through it", func(ctx SpecContext) {
		stored := current(ctx, task)
		stored.Status.Stage, stored.Finalizers = "writing", []string{finalizer}
		Expect(admin.Status().Update(ctx, stored)).To(Succeed())
		Expect(current(ctx, task).Status.Stage).To(Equal("writing"))
		Expect(current(ctx, task).Finalizers).To(BeEmpty())

		put(ctx, finalizer)
		stored = current(ctx, task)
		stored.Status.Stage, stored.Finalizers = "queued", nil
		Expect(manager.Status().Update(ctx, stored)).To(Succeed())
		Expect(current(ctx, task).Status.Stage).To(Equal("queued"))
		Expect(current(ctx, task).Finalizers).To(ConsistOf(finalizer))
	})
})
