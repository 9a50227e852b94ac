package admission_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var _ = Describe("A CompileTask that alice created", func() {
	var (
		namespace string
		task      *unstructured.Unstructured
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		for _, user := range []string{alice.name, bob.name} {
			bind(ctx, namespace, user, "agentruntime-user")
		}
		task = createTask(ctx, alice, namespace, with(minimalSpec(), "args", map[string]any{"a": int64(1)}))
	})
	cancel := map[string]any{"spec": map[string]any{"cancel": true}}
	metadata := func(field string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{field: value}}
	}
	owners := []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}}
	anything := []TableEntry{
		Entry("suspend", map[string]any{"spec": map[string]any{"suspend": true}}),
		Entry("a TTL", map[string]any{"spec": map[string]any{"ttlSecondsAfterFinished": 0}}),
		Entry("a TTL for failed ones", map[string]any{"spec": map[string]any{"ttlSecondsAfterFailed": 0}}),
		Entry("labels", metadata("labels", map[string]any{"a": "b"})),
		Entry("annotations", metadata("annotations", map[string]any{"a": "b"})),
		Entry("finalizers", metadata("finalizers", []any{"example.com/x"})),
		Entry("owners", metadata("ownerReferences", owners)),
	}

	It("can't be read by others, nor even by alice, through kubectl", func(ctx SpecContext) {
		for _, user := range []person{alice, bob} {
			err := user.Get(ctx, client.ObjectKeyFromObject(task), task.DeepCopy())
			Expect(err).To(beRefused(http.StatusForbidden, "cannot get"))
		}
	})

	Context("for alice, who may patch but not get", func() {
		DescribeTable("is hers to change", func(ctx SpecContext, patch map[string]any) {
			Expect(patchOf(ctx, alice, task, mergePatch(patch))).To(Succeed())
		}, append([]TableEntry{Entry("nothing", map[string]any{}), Entry("cancel", cancel)}, anything...))

		It("keeps what is immutable", func(ctx SpecContext) {
			err := patchOf(ctx, alice, task, specPatch(map[string]any{"args": map[string]any{"a": nil, "b": 1}}))
			Expect(err).To(beRefused(http.StatusUnprocessableEntity, "args is immutable"))
		})
	})

	Context("for bob, who may patch but not get", func() {
		DescribeTable("is closed, and shows nothing", func(ctx SpecContext, patch map[string]any) {
			answer := task.DeepCopy()
			answer.Object["spec"] = nil
			err := bob.Patch(ctx, answer, mergePatch(patch))
			Expect(err).To(beRefused(http.StatusForbidden, "agentruntime-compiletask-updates", `the verb "get"`))
			Expect(err.Error()).NotTo(ContainSubstring("viking://"))
			Expect(answer.Object["spec"]).To(BeNil())
		}, append([]TableEntry{Entry("an empty patch", map[string]any{}), Entry("cancel", cancel)}, anything...))

		It("answers the same to a dry run", func(ctx SpecContext) {
			err := patchOf(ctx, bob, task, mergePatch(map[string]any{}), client.DryRunAll)
			Expect(err).To(beRefused(http.StatusForbidden, `the verb "get"`))
		})
	})

	It("is closed to bob with update and cancel but not get, by PUT too", func(ctx SpecContext) {
		grant(ctx, namespace, bob.name, rule("compiletasks", "update", "cancel"))
		stored := current(ctx, task)
		Expect(bob.Update(ctx, stored.DeepCopy())).To(beRefused(http.StatusForbidden, `the verb "get"`))
		stored.Spec.Cancel = true
		Expect(bob.Update(ctx, stored.DeepCopy())).To(beRefused(http.StatusForbidden, `the verb "get"`))
	})

	It("gives nothing for a grant in another namespace", func(ctx SpecContext) {
		bind(ctx, newNamespace(ctx), bob.name, "agentruntime-admin")
		Expect(patchOf(ctx, bob, task, mergePatch(cancel))).To(beRefused(http.StatusForbidden, `the verb "get"`))
	})

	Context("for bob, who may also get", func() {
		BeforeEach(func(ctx SpecContext) { bind(ctx, namespace, bob.name, "agentruntime-viewer") })

		It("takes a patch that changes nothing", func(ctx SpecContext) {
			Expect(patchOf(ctx, bob, task, mergePatch(map[string]any{}))).To(Succeed())
		})
		It("is not his to cancel", func(ctx SpecContext) {
			Expect(patchOf(ctx, bob, task, mergePatch(cancel))).To(beRefused(http.StatusForbidden, `the verb "cancel"`))
		})
		DescribeTable("is not his to change", func(ctx SpecContext, patch map[string]any) {
			Expect(patchOf(ctx, bob, task, mergePatch(patch))).To(beRefused(http.StatusForbidden, `the verb "update"`))
		}, anything)

		Context("and cancel", func() {
			BeforeEach(func(ctx SpecContext) { grant(ctx, namespace, bob.name, rule("compiletasks", "cancel")) })

			It("is his to cancel", func(ctx SpecContext) {
				Expect(patchOf(ctx, bob, task, mergePatch(cancel))).To(Succeed())
				Expect(current(ctx, task).Spec.Cancel).To(BeTrue())
			})
			DescribeTable("is not his to change otherwise", func(ctx SpecContext, patch map[string]any) {
				Expect(patchOf(ctx, bob, task, mergePatch(patch))).To(beRefused(http.StatusForbidden, `the verb "update"`))
			}, anything)
			It("is not his to change along with a cancel", func(ctx SpecContext) {
				err := patchOf(ctx, bob, task, specPatch(map[string]any{"cancel": true, "suspend": true}))
				Expect(err).To(beRefused(http.StatusForbidden, `the verb "update"`))
			})
		})
	})

	Context("for carol, with the shipped admin role", func() {
		BeforeEach(func(ctx SpecContext) { bind(ctx, namespace, carol.name, "agentruntime-admin") })
		DescribeTable("is open to every intent", func(ctx SpecContext, patch map[string]any) {
			Expect(patchOf(ctx, carol, task, mergePatch(patch))).To(Succeed())
		}, append([]TableEntry{Entry("cancel", cancel)}, anything...))
		It("keeps what is immutable", func(ctx SpecContext) {
			Expect(patchOf(ctx, carol, task, specPatch(map[string]any{"to": "viking://resources/b"}))).
				To(beRefused(http.StatusUnprocessableEntity, "to is immutable"))
		})
	})

	Context("for the manager", func() {
		It("takes finalizers, annotations and owners without further rights", func(ctx SpecContext) {
			manager := serviceAccount(managerUser)
			Expect(patchOf(ctx, manager, task, mergePatch(metadata("finalizers", []any{v1alpha1.FinalizerCancelOnDelete})))).To(Succeed())
			Expect(patchOf(ctx, manager, task, mergePatch(metadata("annotations", map[string]any{"a": "b"})))).To(Succeed())
			Expect(patchOf(ctx, manager, task, mergePatch(metadata("finalizers", nil)))).To(Succeed())
		})
		It("may not cancel in a user's name", func(ctx SpecContext) {
			Expect(patchOf(ctx, serviceAccount(managerUser), task, mergePatch(cancel))).
				To(beRefused(http.StatusForbidden, `the verb "cancel"`))
		})
	})

	It("can be deleted by nobody without the right, and needs no webhook for it", func(ctx SpecContext) {
		Expect(alice.Delete(ctx, task.DeepCopy())).To(beRefused(http.StatusForbidden, "cannot delete"))
		bind(ctx, namespace, carol.name, "agentruntime-admin")
		Expect(carol.Delete(ctx, task.DeepCopy())).To(Succeed())
	})
})
