package facade_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// The built-in executor is the default runtime while these run, with its own files
// as the content store (compile-api.md, B.3, steps 9 to 12).
var _ = Describe("What is looked at before a task is created", Ordered, func() {
	var author *person

	BeforeAll(func(ctx SpecContext) {
		author = newPerson(ctx, "author", "agentruntime-user", "agentruntime-runtime-user")
		Expect(plane.Sample(team)).To(Succeed())
		skills := filepath.Join(plane.Content, team, "agent", "skills", "hollow")
		Expect(os.MkdirAll(skills, 0o750)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(skills, "notes.md"), []byte("# Notes\n"), 0o600)).To(Succeed())
		swapDefault(ctx, "quick", "builtin")
		DeferCleanup(func(ctx SpecContext) {
			swapDefault(ctx, "builtin", "quick")
			Eventually(func(g Gomega) {
				got := direct.as(ctx, author, "POST", "/api/v1/compile", compileOf("viking://resources/absent", "viking://resources/out", "viking://agent/skills/llm-wiki"))
				g.Expect(got.status).To(Equal(http.StatusAccepted), got.text())
			}).Should(Succeed())
		})
		Eventually(func(g Gomega) {
			got := direct.as(ctx, author, "POST", "/api/v1/compile", compileOf("viking://resources/absent", "viking://resources/out", "viking://agent/skills/llm-wiki"))
			g.Expect(got.status).To(Equal(http.StatusNotFound), got.text())
		}).Should(Succeed())
	})

	DescribeTable("refuses", func(ctx SpecContext, from, to, skill string, status int, code, message string) {
		before := count(ctx)
		for _, door := range doors {
			got := door.as(ctx, author, "POST", "/api/v1/compile", compileOf(from, to, skill))
			Expect(got.status).To(Equal(status), door.name+": "+got.text())
			Expect(got.failure().Code).To(Equal(code))
			Expect(got.failure().Message).To(ContainSubstring(message))
		}
		Expect(count(ctx)).To(Equal(before), "a refused request creates no task")
	},
		Entry("a source that is not there", "viking://resources/absent", "viking://resources/out", "viking://agent/skills/llm-wiki",
			404, "NOT_FOUND", ""),
		Entry("a source that is a file", "viking://resources/docs/conditions.md", "viking://resources/out", "viking://agent/skills/llm-wiki",
			400, "INVALID_ARGUMENT", "Compile source must be a directory: viking://resources/docs/conditions.md"),
		Entry("a Skill that is not there", "viking://resources/docs", "viking://resources/out", "viking://agent/skills/absent",
			404, "NOT_FOUND", ""),
		Entry("a Skill without its file", "viking://resources/docs", "viking://resources/out", "viking://agent/skills/hollow",
			404, "NOT_FOUND", ""),
		Entry("a target that is a file", "viking://resources/docs", "viking://resources/docs/conditions.md", "viking://agent/skills/llm-wiki",
			400, "INVALID_ARGUMENT", "Compile target must be a directory"),
		Entry("another user's tree", "viking://user/somebody/resources/docs", "viking://resources/out", "viking://agent/skills/llm-wiki",
			403, "PERMISSION_DENIED", ""),
	)

	It("lets through what is there, to its end", func(ctx SpecContext) {
		created := direct.as(ctx, author, "POST", "/api/v1/compile", compileOf("viking://resources/docs", "viking://resources/out", "viking://agent/skills/llm-wiki/SKILL.md"))
		Expect(created.status).To(Equal(http.StatusAccepted), created.text())
		id, _ := created.record()["task_id"].(string)
		Eventually(func() any {
			return direct.as(ctx, author, "GET", "/api/v1/tasks/"+id+"?wait=10s", "").record()["status"]
		}).WithTimeout(60 * 1e9).Should(Equal("completed"))
		Expect(filepath.Join(plane.Content, team, "resources", "out", "index.md")).To(BeAnExistingFile())
	})
})

func compileOf(from, to, skill string) string {
	return `{"from":["` + from + `"],"to":"` + to + `","skill":"` + skill + `"}`
}

// markDefault puts the default mark on an AgentRuntime, or takes it off.
func markDefault(ctx context.Context, name string, marked bool) {
	GinkgoHelper()
	runtime := &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: name}}
	value := `"true"`
	if !marked {
		value = "null"
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationDefaultRuntime+`":`+value+`}}}`))
	Expect(plane.Client.Patch(ctx, runtime, patch)).To(Succeed())
}

func swapDefault(ctx context.Context, from, to string) {
	GinkgoHelper()
	markDefault(ctx, from, false)
	markDefault(ctx, to, true)
}

// count is how many tasks the team has.
func count(ctx context.Context) int {
	GinkgoHelper()
	var all v1alpha1.CompileTaskList
	Expect(plane.Client.List(ctx, &all, client.InNamespace(team))).To(Succeed())
	return len(all.Items)
}
