package facade_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// taskOf reads the object behind an answer with a record.
func taskOf(ctx context.Context, a *answer) *v1alpha1.CompileTask {
	GinkgoHelper()
	id, ok := a.record()["task_id"].(string)
	Expect(ok).To(BeTrue(), a.text())
	task := &v1alpha1.CompileTask{}
	key := client.ObjectKey{Namespace: team, Name: strings.Replace(id, "_", "-", 1)}
	Expect(plane.Client.Get(ctx, key, task)).To(Succeed())
	return task
}

// kubectl runs the real kubectl with a person's token.
func kubectl(ctx context.Context, p *person, arguments ...string) (string, error) {
	GinkgoHelper()
	kubeconfig, err := plane.TokenKubeconfig("kubectl-"+p.name, p.token)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, plane.Kubectl(), append([]string{"--kubeconfig", kubeconfig}, arguments...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

var _ = Describe("The aggregated API", func() {
	It("is found by kubectl api-resources, with verbs that nothing lists or deletes by", func(ctx SpecContext) {
		discovered, err := discovery.NewDiscoveryClientForConfig(plane.Config)
		Expect(err).NotTo(HaveOccurred())
		resources, err := discovered.ServerResourcesForGroupVersion("compile.agentruntime.dev/v1")
		Expect(err).NotTo(HaveOccurred())
		Expect(resources.APIResources).NotTo(BeEmpty())
		for _, resource := range resources.APIResources {
			Expect(resource.Verbs).To(HaveEach(BeElementOf("get", "create")), resource.Name)
			Expect(resource.Namespaced).To(BeTrue(), resource.Name)
		}
		command := exec.CommandContext(ctx, plane.Kubectl(), "--kubeconfig", plane.Admin, "api-resources", "--api-group", "compile.agentruntime.dev")
		out, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(ContainSubstring("compile.agentruntime.dev/v1"))
		Expect(string(out)).To(ContainSubstring("tasks"))
		_, _, err = discovered.ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred(), "the discovery of everything, which namespace deletion and garbage collection need")
	})

	It("works through kubectl create --raw and get --raw", func(ctx SpecContext) {
		p := newPerson(ctx, "raw", "agentruntime-user", "agentruntime-runtime-user")
		file := filepath.Join(GinkgoT().TempDir(), "request.json")
		Expect(os.WriteFile(file, []byte(request("viking://resources/raw")), 0o600)).To(Succeed())
		base := "/apis/compile.agentruntime.dev/v1/namespaces/" + team
		out, err := kubectl(ctx, p, "create", "--raw", base+"/compile", "-f", file)
		Expect(err).NotTo(HaveOccurred(), out)
		var created struct {
			Result struct {
				TaskID string `json:"task_id"`
			} `json:"result"`
		}
		Expect(json.Unmarshal([]byte(out), &created)).To(Succeed(), out)
		Expect(created.Result.TaskID).To(HavePrefix("cmp_"))
		Eventually(func(g Gomega) {
			out, err := kubectl(ctx, p, "get", "--raw", base+"/tasks/"+created.Result.TaskID)
			g.Expect(err).NotTo(HaveOccurred(), out)
			g.Expect(out).To(ContainSubstring(`"status":"completed"`))
		}).Should(Succeed())
	})

	It("leaves namespaces deletable", func() {
		// The namespace controller is not part of this control plane; what it asks is
		// the discovery of everything that can be listed and deleted.
		discovered, err := discovery.NewDiscoveryClientForConfig(plane.Config)
		Expect(err).NotTo(HaveOccurred())
		all, err := discovered.ServerPreferredNamespacedResources()
		Expect(err).NotTo(HaveOccurred())
		deletable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, all)
		for _, list := range deletable {
			Expect(list.GroupVersion).NotTo(HavePrefix("compile.agentruntime.dev"))
		}
	})

	It("takes the namespace from the path, and lets RBAC of the API server come first", func(ctx SpecContext) {
		p := newPerson(ctx, "elsewhere", "agentruntime-user", "agentruntime-runtime-user")
		got, err := kubectl(ctx, p, "get", "--raw", "/apis/compile.agentruntime.dev/v1/namespaces/default/tasks")
		Expect(err).To(HaveOccurred())
		Expect(got).To(ContainSubstring("Forbidden"))
	})

	It("cuts waits at 5 s", func(ctx SpecContext) {
		p := newPerson(ctx, "waiter", "agentruntime-user", "agentruntime-runtime-user")
		id := createSlow(ctx, aggregated, p)
		// Let it reach its stage first, so that nothing more changes.
		Eventually(func() any { return aggregated.as(ctx, p, "GET", "/api/v1/tasks/"+id, "").record()["stage"] }).Should(Equal("compile: agent"))
		got := aggregated.as(ctx, p, "GET", "/api/v1/tasks/"+id+"?wait=50s", "")
		Expect(got.status).To(Equal(http.StatusOK), got.text())
		Expect(got.record()["status"]).To(Equal("running"))
	})
})
