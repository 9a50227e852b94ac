package admission_test

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var _ = Describe("A user who creates a CompileTask", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		bind(ctx, namespace, alice.name, "agentruntime-user")
	})
	create := func(ctx context.Context, spec map[string]any) error {
		return alice.Create(ctx, taskOf(namespace, spec), client.DryRunAll)
	}

	Context("naming an AgentRuntime", func() {
		spec := with(minimalSpec(), "runtimeName", "fast")
		It("needs use on it, and hears so", func(ctx SpecContext) {
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "spec.runtimeName", `"alice"`, `grant the verb "use" on agentruntimes.agentruntime.dev/fast`, namespace))
		})
		It("may have it by a RoleBinding of the shipped role", func(ctx SpecContext) {
			bind(ctx, namespace, alice.name, "agentruntime-runtime-user")
			Expect(create(ctx, spec)).To(Succeed())
		})
		It("may have it by name", func(ctx SpecContext) {
			named := rule("agentruntimes", "use")
			named.ResourceNames = []string{"fast"}
			grant(ctx, namespace, alice.name, named)
			Expect(create(ctx, spec)).To(Succeed())
			Expect(create(ctx, with(spec, "runtimeName", "slow"))).To(beRefused(http.StatusForbidden, "agentruntimes.agentruntime.dev/slow"))
		})
		It("may have it by a ClusterRoleBinding", func(ctx SpecContext) {
			bind(ctx, "", alice.name, "agentruntime-runtime-user")
			Expect(create(ctx, spec)).To(Succeed())
		})
		It("gains nothing from a RoleBinding elsewhere, nor from reading runtimes", func(ctx SpecContext) {
			bind(ctx, newNamespace(ctx), alice.name, "agentruntime-runtime-user")
			grant(ctx, namespace, alice.name, rule("agentruntimes", "get"))
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "spec.runtimeName"))
		})
	})

	Context("naming nothing, with a default AgentRuntime", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			runtime := &v1alpha1.AgentRuntime{
				ObjectMeta: metav1.ObjectMeta{Name: "default-one", Annotations: map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}},
				Spec:       v1alpha1.AgentRuntimeSpec{URL: "http://example.com"},
			}
			Expect(admin.Create(ctx, runtime)).To(Succeed())
			Eventually(func(g Gomega) {
				task := taskOf("default", minimalSpec())
				g.Expect(admin.Create(ctx, task, client.DryRunAll)).To(Succeed())
				g.Expect(task.Object["spec"]).To(HaveKeyWithValue("runtimeName", "default-one"))
			}).Should(Succeed())
		})
		AfterAll(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: "default-one"}})).To(Succeed())
			Eventually(func(g Gomega) {
				task := taskOf("default", minimalSpec())
				g.Expect(admin.Create(ctx, task, client.DryRunAll)).To(Succeed())
				g.Expect(task.Object["spec"]).NotTo(HaveKey("runtimeName"))
			}).Should(Succeed())
		})
		It("needs use on the default one", func(ctx SpecContext) {
			Expect(create(ctx, minimalSpec())).To(beRefused(http.StatusForbidden, "agentruntimes.agentruntime.dev/default-one"))
			bind(ctx, namespace, alice.name, "agentruntime-runtime-user")
			Expect(create(ctx, minimalSpec())).To(Succeed())
		})
	})

	Context("naming a Secret", func() {
		spec := with(minimalSpec(), "credentialsSecretName", "key")
		It("needs get on it, and hears so", func(ctx SpecContext) {
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "spec.credentialsSecretName", `grant the verb "get" on secrets/key`))
		})
		It("may have it by name", func(ctx SpecContext) {
			grant(ctx, namespace, alice.name, coreRule("secrets", "key", "get"))
			Expect(create(ctx, spec)).To(Succeed())
			Expect(create(ctx, with(spec, "credentialsSecretName", "other"))).To(beRefused(http.StatusForbidden, "secrets/other"))
		})
		It("gains nothing from list", func(ctx SpecContext) {
			grant(ctx, namespace, alice.name, coreRule("secrets", "key", "list"))
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "secrets/key"))
		})
	})

	Context("naming a ServiceAccount", func() {
		spec := with(minimalSpec(), "serviceAccountName", "builder")
		It("needs create on its token, and hears so", func(ctx SpecContext) {
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "spec.serviceAccountName", `grant the verb "create" on serviceaccounts/token for builder`))
		})
		It("may have it by name", func(ctx SpecContext) {
			grant(ctx, namespace, alice.name, coreRule("serviceaccounts/token", "builder", "create"))
			Expect(create(ctx, spec)).To(Succeed())
		})
		It("gains nothing from get on the ServiceAccount", func(ctx SpecContext) {
			grant(ctx, namespace, alice.name, coreRule("serviceaccounts", "builder", "get"))
			Expect(create(ctx, spec)).To(beRefused(http.StatusForbidden, "spec.serviceAccountName"))
		})
	})

	It("hears of everything that is missing at once", func(ctx SpecContext) {
		spec := with(with(minimalSpec(), "runtimeName", "fast"), "credentialsSecretName", "key")
		spec = with(spec, "from", []any{"viking://resources/a", "viking://user/bob/resources/b"})
		err := create(ctx, spec)
		Expect(err).To(beRefused(http.StatusForbidden, "spec.from[1]", "spec.runtimeName", "spec.credentialsSecretName"))
		Expect(causeFields(err)).To(ConsistOf("spec.from[1]", "spec.runtimeName", "spec.credentialsSecretName"))
	})

	It("hears of every fault at once, with missing rights among them", func(ctx SpecContext) {
		spec := with(with(fullSpec(), "to", "viking://resources"), "skill", "viking://resources/none")
		spec = with(spec, "from", []any{"viking://temp/x", "viking://resources/ok", "viking://resources/../x"})
		spec = with(spec, "args", map[string]any{"api_key": "hidden-value", "a": []any{map[string]any{"user_key": "hidden-value"}}})
		err := create(ctx, spec)
		Expect(err).To(beRefused(http.StatusUnprocessableEntity,
			"spec.from[0]", "spec.from[2]", "spec.to", "spec.skill", "spec.args[api_key]", "spec.args[a][0][user_key]",
			"credentialsSecretName", "spec.runtimeName", "spec.credentialsSecretName"))
		Expect(causeFields(err)).To(ConsistOf("spec.from[0]", "spec.from[2]", "spec.to", "spec.skill",
			"spec.args[a][0][user_key]", "spec.args[api_key]", "spec.runtimeName", "spec.credentialsSecretName"))
		Expect(err.Error()).NotTo(ContainSubstring("hidden-value"))
	})

	DescribeTable("can't reach into another user's tree", func(ctx SpecContext, field string, value any, path string) {
		Expect(create(ctx, with(minimalSpec(), field, value))).To(beRefused(http.StatusForbidden, path, "Access denied"))
	},
		Entry("as a source", "from", []any{"viking://user/bob/memories"}, "spec.from[0]"),
		Entry("as a target", "to", "viking://user/bob/resources/wiki", "spec.to"),
		Entry("as a Skill", "skill", "viking://user/bob/skills/wiki", "spec.skill"),
	)

	DescribeTable("may use their own tree", func(ctx SpecContext, field string, value any) {
		Expect(create(ctx, with(minimalSpec(), field, value))).To(Succeed())
	},
		Entry("as a source", "from", []any{"viking://user/alice/memories"}),
		Entry("as a target", "to", "viking://user/alice/resources/wiki"),
		Entry("by its alias", "to", "viking://~/resources/wiki"),
		Entry("as a Skill", "skill", "viking://user/alice/skills/wiki/SKILL.md"),
		Entry("with path variables", "to", "viking://resources/daily/{calendar:today}"),
	)

	DescribeTable("can't hide secrets in args, nor too much", func(ctx SpecContext, args map[string]any, path string) {
		Expect(create(ctx, with(minimalSpec(), "args", args))).To(beRefused(http.StatusUnprocessableEntity, path))
	},
		Entry("api_key", map[string]any{"api_key": "x"}, "spec.args[api_key]"),
		Entry("user_key", map[string]any{"user_key": "x"}, "spec.args[user_key]"),
		Entry("deep inside", map[string]any{"a": map[string]any{"b": map[string]any{"api_key": nil}}}, "spec.args[a][b][api_key]"),
		Entry("over 256 KiB", map[string]any{"a": string(make([]byte, v1alpha1.MaxArgsBytes))}, "spec.args"),
	)

	It("can't send an instruction that is too large for an executor, though not for the schema", func(ctx SpecContext) {
		Expect(create(ctx, with(minimalSpec(), "instruction", strings.Repeat("ü", 32768)))).To(Succeed())
		Expect(create(ctx, with(minimalSpec(), "instruction", strings.Repeat("ü", 32769)))).
			To(beRefused(http.StatusUnprocessableEntity, "spec.instruction: Too long", "65538 bytes in UTF-8", "65536"))
	})

	It("can't send parts within their bounds that are too large together", func(ctx SpecContext) {
		spec := with(minimalSpec(), "instruction", strings.Repeat("<", 65536))
		Expect(create(ctx, spec)).To(Succeed())
		spec = with(spec, "args", map[string]any{"a": strings.Repeat("x", 128<<10)})
		err := create(ctx, spec)
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, "spec: Too long", "from, to, skill, instruction and args, sealed ones too, together", "524288"))
		Expect(causeFields(err)).To(ConsistOf("spec"))
	})

	It("needs the shipped role to create anything", func(ctx SpecContext) {
		Expect(bob.Create(ctx, taskOf(namespace, minimalSpec()))).To(beRefused(http.StatusForbidden, "cannot create"))
	})
})
