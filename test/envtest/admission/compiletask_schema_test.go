package admission_test

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func sources(n int, text string) []any {
	out := []any{}
	for range n {
		out = append(out, text)
	}
	return out
}

const longName = 254

var _ = Describe("The schema of a CompileTask", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	uri := func(length int) string {
		const frame = "viking://resources/"
		segments := strings.Repeat(strings.Repeat("x", 99)+"/", length/100+1)
		return strings.TrimSuffix(frame+segments[:length-len(frame)-1]+"z", "/")
	}

	DescribeTable("accepts", func(ctx SpecContext, spec map[string]any) {
		Expect(admin.Create(ctx, taskOf(namespace, spec), client.DryRunAll)).To(Succeed())
	},
		Entry("the least", minimalSpec()),
		Entry("everything", fullSpec()),
		Entry("everything with a ServiceAccount", with(with(fullSpec(), "credentialsSecretName", nil), "serviceAccountName", "builder")),
		Entry("64 sources", with(minimalSpec(), "from", sources(64, "viking://resources/a"))),
		Entry("the longest URI", with(minimalSpec(), "to", uri(2000))),
		Entry("the longest instruction", with(minimalSpec(), "instruction", strings.Repeat("x", 65536))),
		Entry("empty args", with(minimalSpec(), "args", map[string]any{})),
		Entry("args of any shape", with(minimalSpec(), "args", map[string]any{"a": []any{nil, 1.5, "x", map[string]any{"b": true}}})),
		Entry("the shortest deadline", with(minimalSpec(), "activeDeadlineSeconds", int64(1))),
		Entry("the longest deadline", with(minimalSpec(), "activeDeadlineSeconds", int64(2592000))),
		Entry("a TTL of nothing", with(minimalSpec(), "ttlSecondsAfterFinished", int64(0))),
		Entry("the longest TTL", with(minimalSpec(), "ttlSecondsAfterFailed", int64(315360000))),
		Entry("a name with dots", with(minimalSpec(), "runtimeName", "a.b-c")),
		Entry("a task cancelled from the start", with(minimalSpec(), "cancel", true)),
	)

	DescribeTable("refuses", func(ctx SpecContext, spec map[string]any, texts ...string) {
		err := admin.Create(ctx, taskOf(namespace, spec), client.DryRunAll)
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, texts...))
	},
		Entry("no source list", with(minimalSpec(), "from", nil), "spec.from: Required"),
		Entry("an empty source list", with(minimalSpec(), "from", []any{}), "spec.from"),
		Entry("65 sources", with(minimalSpec(), "from", sources(65, "viking://resources/a")), "spec.from: Too many"),
		Entry("an empty source", with(minimalSpec(), "from", []any{"viking://resources/a", ""}), "spec.from[1]"),
		Entry("a source too long", with(minimalSpec(), "from", sources(1, strings.Repeat("x", 4097))), "spec.from[0]: Too long"),
		Entry("no target", with(minimalSpec(), "to", nil), "spec.to: Required"),
		Entry("an empty target", with(minimalSpec(), "to", ""), "spec.to"),
		Entry("a target too long", with(minimalSpec(), "to", strings.Repeat("x", 4097)), "spec.to: Too long"),
		Entry("no skill", with(minimalSpec(), "skill", nil), "spec.skill: Required"),
		Entry("an empty skill", with(minimalSpec(), "skill", ""), "spec.skill"),
		Entry("a skill too long", with(minimalSpec(), "skill", strings.Repeat("x", 4097)), "spec.skill: Too long"),
		Entry("an empty instruction", with(minimalSpec(), "instruction", ""), "spec.instruction"),
		Entry("an instruction too long", with(minimalSpec(), "instruction", strings.Repeat("x", 65537)), "spec.instruction: Too long"),
		Entry("args that are a list", with(minimalSpec(), "args", []any{}), "spec.args"),
		Entry("args that are text", with(minimalSpec(), "args", "x"), "spec.args"),
		Entry("an empty runtime name", with(minimalSpec(), "runtimeName", "A"), "spec.runtimeName"),
		Entry("a runtime name too long", with(minimalSpec(), "runtimeName", strings.Repeat("a", longName)), "spec.runtimeName: Too long"),
		Entry("a Secret name with a slash", with(minimalSpec(), "credentialsSecretName", "a/b"), "spec.credentialsSecretName"),
		Entry("an empty Secret name", with(minimalSpec(), "credentialsSecretName", ""), "spec.credentialsSecretName"),
		Entry("a Secret name too long", with(minimalSpec(), "credentialsSecretName", strings.Repeat("a", longName)), "spec.credentialsSecretName: Too long"),
		Entry("a ServiceAccount name that ends with a dash", with(minimalSpec(), "serviceAccountName", "a-"), "spec.serviceAccountName"),
		Entry("an empty ServiceAccount name", with(minimalSpec(), "serviceAccountName", ""), "spec.serviceAccountName"),
		Entry("a ServiceAccount name too long", with(minimalSpec(), "serviceAccountName", strings.Repeat("a", longName)), "spec.serviceAccountName: Too long"),
		Entry("two kinds of credentials", with(with(minimalSpec(), "credentialsSecretName", "a"), "serviceAccountName", "b"), "exclude each other"),
		Entry("a deadline of nothing", with(minimalSpec(), "activeDeadlineSeconds", int64(0)), "spec.activeDeadlineSeconds"),
		Entry("a deadline too long", with(minimalSpec(), "activeDeadlineSeconds", int64(2592001)), "spec.activeDeadlineSeconds"),
		Entry("a negative TTL", with(minimalSpec(), "ttlSecondsAfterFinished", int64(-1)), "spec.ttlSecondsAfterFinished"),
		Entry("a TTL too long", with(minimalSpec(), "ttlSecondsAfterFinished", int64(315360001)), "spec.ttlSecondsAfterFinished"),
		Entry("a negative TTL for failed ones", with(minimalSpec(), "ttlSecondsAfterFailed", int64(-1)), "spec.ttlSecondsAfterFailed"),
		Entry("a TTL for failed ones too long", with(minimalSpec(), "ttlSecondsAfterFailed", int64(315360001)), "spec.ttlSecondsAfterFailed"),
	)

	DescribeTable("refuses what has the wrong type", func(ctx SpecContext, field string, value any) {
		err := admin.Create(ctx, taskOf(namespace, with(minimalSpec(), field, value)), client.DryRunAll)
		Expect(err).To(Or(beRefused(http.StatusUnprocessableEntity, field), beRefused(http.StatusBadRequest, field)))
	},
		Entry("text for a list", "from", "viking://resources/a"),
		Entry("a number for text", "to", int64(1)),
		Entry("text for a switch", "suspend", "true"),
		Entry("text for the cancel switch", "cancel", "true"),
		Entry("text for a number", "activeDeadlineSeconds", "60"),
		Entry("half a second", "ttlSecondsAfterFinished", 0.5),
	)

	It("refuses an unknown field when asked to be strict, as kubectl does", func(ctx SpecContext) {
		strict := client.WithFieldValidation(admin, "Strict")
		err := strict.Create(ctx, taskOf(namespace, with(minimalSpec(), "form", "x")), client.DryRunAll)
		Expect(err).To(beRefused(http.StatusBadRequest, `unknown field "spec.form"`))
	})

	DescribeTable("bounds what controllers write into status", func(ctx SpecContext, status map[string]any, texts ...string) {
		task := createTask(ctx, admin, namespace, minimalSpec())
		err := admin.Status().Patch(ctx, task, mergePatch(map[string]any{"status": status}))
		if len(texts) == 0 {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, texts...))
	},
		Entry("a plain status passes", map[string]any{"phase": "Running", "stage": "queued", "taskID": "cmp_1", "sessionID": "s", "meta": map[string]any{"a": 1}}),
		Entry("a phase nobody knows", map[string]any{"phase": "Done"}, "status.phase"),
		Entry("a stage too long", map[string]any{"stage": strings.Repeat("x", 257)}, "status.stage"),
		Entry("a task id too long", map[string]any{"taskID": strings.Repeat("x", 129)}, "status.taskID"),
		Entry("a session id too long", map[string]any{"sessionID": strings.Repeat("x", 513)}, "status.sessionID"),
		Entry("a negative generation", map[string]any{"observedGeneration": -1}, "status.observedGeneration"),
		Entry("an error without a message", map[string]any{"error": map[string]any{"code": "X"}}, "status.error.message: Required"),
		Entry("an error message too long", map[string]any{"error": map[string]any{"code": "X", "message": strings.Repeat("x", 1025)}}, "status.error.message"),
		Entry("a result that is no object", map[string]any{"result": "x"}, "status.result"),
		Entry("17 warnings", map[string]any{"resultSummary": map[string]any{"warnings": sources(17, "w")}}, "status.resultSummary.warnings"),
		Entry("a negative count", map[string]any{"resultSummary": map[string]any{"created": -1}}, "status.resultSummary.created"),
		Entry("a canonical request without sources", map[string]any{"canonical": map[string]any{"to": "a", "skill": "b"}}, "status.canonical.from: Required"),
	)

	It("drops a status that a user sends along, and fills in nothing else", func(ctx SpecContext) {
		task := taskOf(namespace, minimalSpec())
		task.Object["status"] = map[string]any{"phase": "Completed"}
		Expect(admin.Create(ctx, task)).To(Succeed())
		stored := current(ctx, task)
		Expect(stored.Status).To(Equal(v1alpha1.CompileTaskStatus{}))
		want := stored.DeepCopy().Spec
		Expect(want.Requester.Username).To(Equal("admin"))
		want.Requester = v1alpha1.Requester{}
		Expect(want).To(Equal(v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/research"}, To: "viking://resources/wiki", Skill: "viking://agent/skills/llm-wiki",
		}))
	})
})
