package admission_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deepArgs(list ...any) map[string]any {
	return map[string]any{"model_name": "m", "deep": map[string]any{"list": list}}
}

func withoutArgs() map[string]any { return with(fullSpec(), "args", nil) }

func withServiceAccount() map[string]any {
	return with(with(fullSpec(), "credentialsSecretName", nil), "serviceAccountName", "builder")
}

var _ = Describe("The spec of a CompileTask that exists", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	DescribeTable("can't be changed", func(ctx SpecContext, spec map[string]any, change map[string]any, texts ...string) {
		task := createTask(ctx, admin, namespace, spec)
		Expect(patchOf(ctx, admin, task, specPatch(change))).To(beRefused(http.StatusUnprocessableEntity, texts...))
		Expect(current(ctx, task).Generation).To(BeEquivalentTo(1))
	},
		Entry("from: a source added", minimalSpec(), map[string]any{"from": []any{"viking://resources/research", "viking://resources/b"}}, "from is immutable"),
		Entry("from: a source removed", with(minimalSpec(), "from", sources(2, "viking://resources/a")), map[string]any{"from": sources(1, "viking://resources/a")}, "from is immutable"),
		Entry("from: a source altered", minimalSpec(), map[string]any{"from": []any{"viking://resources/b"}}, "from is immutable"),
		Entry("from: another order", with(minimalSpec(), "from", []any{"viking://resources/a", "viking://resources/b"}), map[string]any{"from": []any{"viking://resources/b", "viking://resources/a"}}, "from is immutable"),
		Entry("from removed", minimalSpec(), map[string]any{"from": nil}, "spec.from: Required"),
		Entry("to altered", minimalSpec(), map[string]any{"to": "viking://resources/b"}, "to is immutable"),
		Entry("to removed", minimalSpec(), map[string]any{"to": nil}, "spec.to: Required"),
		Entry("skill altered", minimalSpec(), map[string]any{"skill": "viking://agent/skills/b"}, "skill is immutable"),
		Entry("skill removed", minimalSpec(), map[string]any{"skill": nil}, "spec.skill: Required"),
		Entry("instruction added", minimalSpec(), map[string]any{"instruction": "x"}, "instruction is immutable"),
		Entry("instruction altered", fullSpec(), map[string]any{"instruction": "x"}, "instruction is immutable"),
		Entry("instruction removed", fullSpec(), map[string]any{"instruction": nil}, "instruction is immutable"),
		Entry("args added", minimalSpec(), map[string]any{"args": map[string]any{"a": 1}}, "args is immutable"),
		Entry("empty args added", minimalSpec(), map[string]any{"args": map[string]any{}}, "args is immutable"),
		Entry("args removed", fullSpec(), map[string]any{"args": nil}, "args is immutable"),
		Entry("args: a key added", fullSpec(), map[string]any{"args": map[string]any{"b": 1}}, "spec.args", "args is immutable"),
		Entry("args: a key removed", fullSpec(), map[string]any{"args": map[string]any{"model_name": nil}}, "args is immutable"),
		Entry("args: a key renamed", fullSpec(), map[string]any{"args": map[string]any{"model_name": nil, "model": "m"}}, "args is immutable"),
		Entry("args: a value altered", fullSpec(), map[string]any{"args": map[string]any{"model_name": "n"}}, "args is immutable"),
		Entry("args: a key renamed deep inside", fullSpec(), map[string]any{"args": deepArgs(map[string]any{"kez": 1})}, "args is immutable"),
		Entry("args: a key added deep inside", fullSpec(), map[string]any{"args": deepArgs(map[string]any{"key": 1, "b": 1})}, "args is immutable"),
		Entry("args: a key removed deep inside", fullSpec(), map[string]any{"args": deepArgs(map[string]any{})}, "args is immutable"),
		Entry("args: a number altered deep inside", fullSpec(), map[string]any{"args": deepArgs(map[string]any{"key": 1.5})}, "args is immutable"),
		Entry("args: a large number altered by one", with(minimalSpec(), "args", map[string]any{"n": int64(9007199254740993)}), map[string]any{"args": map[string]any{"n": int64(9007199254740992)}}, "args is immutable"),
		Entry("args together with an intent", fullSpec(), map[string]any{"cancel": true, "args": map[string]any{"model_name": nil, "model": "m"}}, "args is immutable"),
		Entry("runtimeName added", minimalSpec(), map[string]any{"runtimeName": "x"}, "runtimeName is immutable"),
		Entry("runtimeName altered", fullSpec(), map[string]any{"runtimeName": "x"}, "runtimeName is immutable"),
		Entry("runtimeName removed", fullSpec(), map[string]any{"runtimeName": nil}, "runtimeName is immutable"),
		Entry("credentialsSecretName added", minimalSpec(), map[string]any{"credentialsSecretName": "x"}, "credentialsSecretName is immutable"),
		Entry("credentialsSecretName altered", fullSpec(), map[string]any{"credentialsSecretName": "x"}, "credentialsSecretName is immutable"),
		Entry("credentialsSecretName removed", fullSpec(), map[string]any{"credentialsSecretName": nil}, "credentialsSecretName is immutable"),
		Entry("serviceAccountName added", minimalSpec(), map[string]any{"serviceAccountName": "x"}, "serviceAccountName is immutable"),
		Entry("serviceAccountName altered", withServiceAccount(), map[string]any{"serviceAccountName": "x"}, "serviceAccountName is immutable"),
		Entry("serviceAccountName removed", withServiceAccount(), map[string]any{"serviceAccountName": nil}, "serviceAccountName is immutable"),
		Entry("one kind of credentials for the other", fullSpec(), map[string]any{"credentialsSecretName": nil, "serviceAccountName": "x"}, "credentialsSecretName is immutable", "serviceAccountName is immutable"),
		Entry("activeDeadlineSeconds added", minimalSpec(), map[string]any{"activeDeadlineSeconds": 1}, "activeDeadlineSeconds is immutable"),
		Entry("activeDeadlineSeconds altered", fullSpec(), map[string]any{"activeDeadlineSeconds": 61}, "activeDeadlineSeconds is immutable"),
		Entry("activeDeadlineSeconds removed", fullSpec(), map[string]any{"activeDeadlineSeconds": nil}, "activeDeadlineSeconds is immutable"),
		Entry("cancel taken back", with(minimalSpec(), "cancel", true), map[string]any{"cancel": false}, "cancel can't be taken back"),
		Entry("cancel removed", with(minimalSpec(), "cancel", true), map[string]any{"cancel": nil}, "cancel can't be taken back"),
		Entry("requester: another name", minimalSpec(), map[string]any{"requester": map[string]any{"username": "x"}}, "requester is set at creation"),
		Entry("requester: a uid added", minimalSpec(), map[string]any{"requester": map[string]any{"uid": "x"}}, "requester is set at creation"),
		Entry("requester: other groups", minimalSpec(), map[string]any{"requester": map[string]any{"groups": []any{"x"}}}, "requester is set at creation"),
		Entry("requester: groups removed", minimalSpec(), map[string]any{"requester": map[string]any{"groups": nil}}, "requester is set at creation"),
		Entry("requester: an extra added", minimalSpec(), map[string]any{"requester": map[string]any{"extra": map[string]any{"x": []any{"y"}}}}, "requester is set at creation"),
		Entry("requester removed", minimalSpec(), map[string]any{"requester": nil}, "spec.requester: Required"),
		Entry("several at once, each named", fullSpec(), map[string]any{"to": "viking://resources/b", "instruction": nil, "activeDeadlineSeconds": 1}, "to is immutable", "instruction is immutable", "activeDeadlineSeconds is immutable"),
	)

	DescribeTable("can be changed by named intents", func(ctx SpecContext, spec map[string]any, change map[string]any) {
		task := createTask(ctx, admin, namespace, spec)
		Expect(patchOf(ctx, admin, task, specPatch(change))).To(Succeed())
		Expect(current(ctx, task).Generation).To(BeEquivalentTo(2))
	},
		Entry("suspended", minimalSpec(), map[string]any{"suspend": true}),
		Entry("resumed", fullSpec(), map[string]any{"suspend": false}),
		Entry("resumed by leaving it out", fullSpec(), map[string]any{"suspend": nil}),
		Entry("cancelled", minimalSpec(), map[string]any{"cancel": true}),
		Entry("cancelled while suspended", fullSpec(), map[string]any{"cancel": true}),
		Entry("resumed after a cancel", with(fullSpec(), "cancel", true), map[string]any{"suspend": nil}),
		Entry("a TTL added", minimalSpec(), map[string]any{"ttlSecondsAfterFinished": 1}),
		Entry("a TTL altered", fullSpec(), map[string]any{"ttlSecondsAfterFinished": 0}),
		Entry("a TTL removed", fullSpec(), map[string]any{"ttlSecondsAfterFinished": nil}),
		Entry("a TTL for failed ones added", minimalSpec(), map[string]any{"ttlSecondsAfterFailed": 1}),
		Entry("a TTL for failed ones altered", fullSpec(), map[string]any{"ttlSecondsAfterFailed": 0}),
		Entry("a TTL for failed ones removed", fullSpec(), map[string]any{"ttlSecondsAfterFailed": nil}),
		Entry("all at once", withoutArgs(), map[string]any{"cancel": true, "suspend": nil, "ttlSecondsAfterFinished": 1, "ttlSecondsAfterFailed": nil}),
	)

	It("is not changed by a generation that a client makes up", func(ctx SpecContext) {
		task := createTask(ctx, admin, namespace, fullSpec())
		for _, generation := range []int{0, 1, 2, 99} {
			err := patchOf(ctx, admin, task, mergePatch(map[string]any{
				"metadata": map[string]any{"generation": generation},
				"spec":     map[string]any{"args": map[string]any{"model_name": nil, "model": "m"}},
			}))
			Expect(err).To(beRefused(http.StatusUnprocessableEntity, "args is immutable"))
		}
	})

	It("takes a number in args for the same when Kubernetes writes it the same", func(ctx SpecContext) {
		task := createTask(ctx, admin, namespace, with(minimalSpec(), "args", map[string]any{"n": int64(1)}))
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"args":{"n":1.0}}}`))
		Expect(patchOf(ctx, admin, task, patch)).To(Succeed())
		Expect(string(current(ctx, task).Spec.Args.Raw)).To(Equal(`{"n":1}`))
	})

	It("survives being applied again, by either kind of apply", func(ctx SpecContext) {
		task := taskOf(namespace, fullSpec())
		for range 2 {
			Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(task.DeepCopy()), client.FieldOwner("kubectl"), client.ForceOwnership)).To(Succeed())
		}
		stored := current(ctx, task)
		Expect(stored.Generation).To(BeEquivalentTo(1))
		Expect(stored.Spec.Requester.Username).To(Equal("admin"))
		Expect(patchOf(ctx, admin, task, specPatch(fullSpec()))).To(Succeed())
		Expect(current(ctx, task).Generation).To(BeEquivalentTo(1))
	})
})
