package admission_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
)

// restTask is what the REST API makes for a user: marked, with sealed args and
// credentials.
func restTask(namespace, user, name string) *unstructured.Unstructured {
	GinkgoHelper()
	return restTaskAt(namespace, user, name, time.Now())
}

// restTaskAt is restTask with the time at which its request came in.
func restTaskAt(namespace, user, name string, received time.Time) *unstructured.Unstructured {
	GinkgoHelper()
	origin := resttask.Origin{Namespace: namespace, Name: name, Received: received}
	args, err := resttask.SealArgs(keyRing, origin, json.RawMessage(`{"n": 12345678901234567890}`))
	Expect(err).NotTo(HaveOccurred())
	credentials, err := resttask.SealCredentials(keyRing, origin, resttask.Credentials{APIKey: "sk-forwarded"})
	Expect(err).NotTo(HaveOccurred())
	task := taskOf(namespace, minimalSpec())
	task.SetName(name)
	spec := specOf(task)
	spec["restRequest"] = map[string]any{"mark": resttask.Mark(keyRing, origin, user), "receivedTime": received.UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
	spec["sealedArgs"], spec["sealedCredentials"] = plain(args), plain(credentials)
	return task
}

func specOf(task *unstructured.Unstructured) map[string]any {
	GinkgoHelper()
	spec, ok := task.Object["spec"].(map[string]any)
	Expect(ok).To(BeTrue())
	return spec
}

func plain(body *v1alpha1.SealedBody) map[string]any {
	GinkgoHelper()
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(body)
	Expect(err).NotTo(HaveOccurred())
	// As JSON has it: the converter keeps bytes as they are.
	text, err := json.Marshal(out)
	Expect(err).NotTo(HaveOccurred())
	var decoded map[string]any
	Expect(json.Unmarshal(text, &decoded)).To(Succeed())
	decoded["size"] = body.Size
	return decoded
}

func markOf(mark string) func(map[string]any) {
	return func(spec map[string]any) { spec["restRequest"] = map[string]any{"mark": mark} }
}

// endTask puts a terminal condition on a task, as the manager does.
func endTask(ctx context.Context, task *unstructured.Unstructured) {
	GinkgoHelper()
	ended := current(ctx, task)
	ended.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted, LastTransitionTime: metav1.Now(),
	}}
	Expect(admin.Status().Update(ctx, ended)).To(Succeed())
}

var _ = Describe("A CompileTask of the REST API", func() {
	var namespace, name string
	BeforeEach(func(ctx SpecContext) {
		namespace, name = newNamespace(ctx), resttask.RandomName()
		for _, user := range []string{alice.name, bob.name} {
			bind(ctx, namespace, user, "agentruntime-user")
		}
	})

	It("is created with the mark that fits, and keeps its bodies", func(ctx SpecContext) {
		task := restTask(namespace, alice.name, name)
		Expect(alice.Create(ctx, task)).To(Succeed())
		stored := current(ctx, task)
		Expect(resttask.Marked(keyRing, stored)).To(BeTrue())
		Expect(resttask.OpenArgs(keyRing, stored)).To(BeEquivalentTo(`{"n": 12345678901234567890}`))
		credentials, err := resttask.OpenCredentials(keyRing, stored)
		Expect(err).NotTo(HaveOccurred())
		Expect(credentials.APIKey).To(Equal("sk-forwarded"))
	})

	It("is refused with a mark that does not fit", func(ctx SpecContext) {
		now := time.Now()
		for what, mark := range map[string]string{
			"an invented one":      "0123456789abcdef0123456789abcdef",
			"another user's":       resttask.Mark(keyRing, resttask.Origin{Namespace: namespace, Name: name, Received: now}, bob.name),
			"another namespace's":  resttask.Mark(keyRing, resttask.Origin{Namespace: "default", Name: name, Received: now}, alice.name),
			"another task's":       resttask.Mark(keyRing, resttask.Origin{Namespace: namespace, Name: resttask.RandomName(), Received: now}, alice.name),
			"the digest of a name": resttask.KeyedName(keyRing, namespace, alice.name, "key"),
		} {
			task := restTaskAt(namespace, alice.name, name, now)
			markOf(mark)(specOf(task))
			err := alice.Create(ctx, task)
			Expect(err).To(beRefused(http.StatusUnprocessableEntity, "validate-compiletask", "spec.restRequest", "leave it out"), what)
			Expect(err.Error()).NotTo(ContainSubstring(mark))
		}
	})

	It("can't be copied by another user, in part or in whole", func(ctx SpecContext) {
		original := restTask(namespace, alice.name, name)
		Expect(alice.Create(ctx, original.DeepCopy())).To(Succeed())
		Expect(admin.Delete(ctx, original.DeepCopy())).To(Succeed())
		Expect(bob.Create(ctx, original.DeepCopy())).To(beRefused(http.StatusUnprocessableEntity, "spec.restRequest"))

		other := original.DeepCopy()
		other.SetName("mine")
		Expect(bob.Create(ctx, other.DeepCopy())).To(beRefused(http.StatusUnprocessableEntity, "agentruntime-compiletask-names", "spec.restRequest"))
		delete(specOf(other), "restRequest")
		Expect(bob.Create(ctx, other.DeepCopy())).To(beRefused(http.StatusUnprocessableEntity, "agentruntime-compiletask-names", "spec.sealedArgs"))
	})

	It("can be made again by its own user once it is gone, and only under its name", func(ctx SpecContext) {
		original := restTask(namespace, alice.name, name)
		Expect(alice.Create(ctx, original.DeepCopy())).To(Succeed())
		Expect(alice.Create(ctx, original.DeepCopy())).To(MatchError(apierrors.IsAlreadyExists, "exists"))
		Expect(admin.Delete(ctx, original.DeepCopy())).To(Succeed())
		renamed := original.DeepCopy()
		renamed.SetName(resttask.RandomName())
		Expect(alice.Create(ctx, renamed)).To(beRefused(http.StatusUnprocessableEntity, "spec.restRequest"))
		// It is the same task of the same user to the executor, too.
		Expect(alice.Create(ctx, original.DeepCopy())).To(Succeed())
	})

	It("is refused when its request came in long ago, or will", func(ctx SpecContext) {
		for _, received := range []time.Time{time.Now().Add(-6 * time.Minute), time.Now().Add(6 * time.Minute)} {
			task := restTaskAt(namespace, alice.name, name, received)
			Expect(alice.Create(ctx, task)).To(beRefused(http.StatusUnprocessableEntity, "spec.restRequest"))
		}
	})

	It("can't have its name generated", func(ctx SpecContext) {
		task := restTask(namespace, alice.name, name)
		task.SetName("")
		task.SetGenerateName(name[:len(name)-5])
		Expect(alice.Create(ctx, task)).To(beRefused(http.StatusUnprocessableEntity))
	})

	DescribeTable("is refused by the policy alone", func(ctx SpecContext, change func(*unstructured.Unstructured), text string) {
		task := restTask(namespace, alice.name, name)
		change(task)
		Expect(alice.Create(ctx, task)).To(beRefused(http.StatusUnprocessableEntity, "agentruntime-compiletask-names", text))
	},
		Entry("with another name", func(t *unstructured.Unstructured) { t.SetName("mine") }, "spec.restRequest"),
		Entry("without its request", func(t *unstructured.Unstructured) { delete(specOf(t), "restRequest") }, "metadata.name"),
		Entry("as sealed args alone", func(t *unstructured.Unstructured) {
			t.SetName("mine")
			delete(specOf(t), "restRequest")
			delete(specOf(t), "sealedCredentials")
		}, "spec.sealedArgs"),
		Entry("as sealed credentials alone", func(t *unstructured.Unstructured) {
			t.SetName("mine")
			delete(specOf(t), "restRequest")
			delete(specOf(t), "sealedArgs")
		}, "spec.sealedCredentials"),
	)

	Context("that exists", func() {
		var task *unstructured.Unstructured
		BeforeEach(func(ctx SpecContext) {
			task = restTask(namespace, alice.name, name)
			Expect(alice.Create(ctx, task)).To(Succeed())
		})
		remove := map[string]any{"sealedCredentials": nil}

		DescribeTable("can't be changed in what the REST API wrote", func(ctx SpecContext, fields map[string]any, text string) {
			for _, as := range []client.Client{alice, admin} {
				Expect(patchOf(ctx, as, task, specPatch(fields))).To(beRefused(http.StatusUnprocessableEntity, text))
			}
		},
			Entry("the mark", map[string]any{"restRequest": map[string]any{"mark": "x"}}, "restRequest is immutable"),
			Entry("a trace", map[string]any{"restRequest": map[string]any{"traceParent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}, "restRequest is immutable"),
			Entry("the request, taken away", map[string]any{"restRequest": nil}, "restRequest is immutable"),
			Entry("the args", map[string]any{"sealedArgs": map[string]any{"data": "eA=="}}, "sealedArgs is immutable"),
			Entry("the args, taken away", map[string]any{"sealedArgs": nil}, "sealedArgs is immutable"),
			Entry("the credentials", map[string]any{"sealedCredentials": map[string]any{"data": "eA=="}}, "sealedCredentials can only be removed"),
			Entry("plain args beside sealed ones", map[string]any{"args": map[string]any{"a": 1}}, "args is immutable"),
		)

		It("keeps its credentials from its requester, an admin, and anybody else", func(ctx SpecContext) {
			bind(ctx, namespace, carol.name, "agentruntime-admin")
			for _, ended := range []bool{false, true} {
				if ended {
					endTask(ctx, task)
				}
				for _, as := range []client.Client{alice, carol, admin} {
					Expect(patchOf(ctx, as, task, specPatch(remove))).To(beRefused(http.StatusForbidden, "agentruntime-compiletask-credentials", "only the operator removes this"))
				}
			}
			stored := current(ctx, task)
			stored.Spec.SealedCredentials = nil
			Expect(admin.Update(ctx, stored)).To(beRefused(http.StatusForbidden, "only the operator removes this"))
		})

		It("can still be cancelled, with the time of the call", func(ctx SpecContext) {
			Expect(patchOf(ctx, alice, task, mergePatch(map[string]any{
				"spec":     map[string]any{"cancel": true},
				"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationCancelRequestedAt: "2026-03-01T10:00:00.000001Z"}},
			}))).To(Succeed())
		})

		Context("for the manager", func() {
			It("keeps its credentials until it has ended", func(ctx SpecContext) {
				Expect(patchOf(ctx, serviceAccount(managerUser), task, specPatch(remove))).
					To(beRefused(http.StatusForbidden, "agentruntime-compiletask-credentials", "not before"))
			})

			It("loses them then, once", func(ctx SpecContext) {
				endTask(ctx, task)
				manager := serviceAccount(managerUser)
				Expect(patchOf(ctx, manager, task, specPatch(remove))).To(Succeed())
				stored := current(ctx, task)
				Expect(stored.Spec.SealedCredentials).To(BeNil())
				Expect(stored.Spec.SealedArgs).NotTo(BeNil())
				Expect(patchOf(ctx, manager, task, specPatch(remove))).To(Succeed())
				Expect(patchOf(ctx, alice, task, specPatch(map[string]any{"sealedCredentials": specOf(task)["sealedCredentials"]}))).
					To(beRefused(http.StatusUnprocessableEntity, "sealedCredentials can only be removed"))
			})

			DescribeTable("loses nothing else along with them", func(ctx SpecContext, spec, labels map[string]any) {
				endTask(ctx, task)
				removal := map[string]any{"sealedCredentials": nil}
				maps.Copy(removal, spec)
				patch := map[string]any{"spec": removal, "metadata": map[string]any{"labels": labels}}
				Expect(patchOf(ctx, serviceAccount(managerUser), task, mergePatch(patch))).To(beRefused(http.StatusForbidden, "agentruntime-compiletask-updates"))
				Expect(current(ctx, task).Spec.SealedCredentials).NotTo(BeNil())
			},
				Entry("suspend", map[string]any{"suspend": true}, nil),
				Entry("cancel", map[string]any{"cancel": true}, nil),
				Entry("a TTL", map[string]any{"ttlSecondsAfterFinished": 1}, nil),
				Entry("a TTL for failed ones", map[string]any{"ttlSecondsAfterFailed": 1}, nil),
				Entry("labels", nil, map[string]any{"a": "b"}),
			)
		})
	})

	It("with plain args loses its credentials too", func(ctx SpecContext) {
		task := restTask(namespace, alice.name, name)
		delete(specOf(task), "sealedArgs")
		specOf(task)["args"] = map[string]any{"model_name": "m"}
		Expect(alice.Create(ctx, task)).To(Succeed())
		endTask(ctx, task)
		Expect(patchOf(ctx, serviceAccount(managerUser), task, specPatch(map[string]any{"sealedCredentials": nil}))).To(Succeed())
		Expect(current(ctx, task).Spec.Args).NotTo(BeNil())
	})
})
