// Package facade_test takes the REST API as a client sees it: over real HTTP,
// through all three doors, against the stack as it ships. Who sees and does what is
// the matrix of matrix_test.go.
package facade_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
	"github.com/agentruntime/operator/test/stack"
)

const (
	// team is the namespace that everything but a few specs happens in.
	team = "team"
	// slowTarget begins the targets of tasks that run until they are cancelled.
	slowTarget = "viking://resources/slow/"
	// revocation is how long taking a right, token or key away may take to be felt.
	revocation = 20 * time.Second
)

var (
	plane *stack.Stack
	// executor runs the tasks, as the default runtime; the built-in one has its turn
	// in content_test.go.
	executor *fakeruntime.Server
)

func TestFacade(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The REST API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	var err error
	plane, err = stack.Start(ctx, stack.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			plane.PrintLogs(GinkgoWriter)
		}
		Expect(plane.Stop()).To(Succeed())
	})
	executor, err = fakeruntime.Listen(fakeruntime.Options{Durable: true, MaxCalls: 2000})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(executor.Close)
	executor.On(func(c fakeruntime.Create) bool { return strings.HasPrefix(c.Payload.To, slowTarget) }, fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
	})
	Expect(plane.AddNamespace(ctx, team)).To(Succeed())
	addRuntime(ctx, "quick", executor.URL, nil)
	markDefault(ctx, "builtin", false)
	prepareDoors(ctx)
	first := newPerson(ctx, "first", "agentruntime-user", "agentruntime-runtime-user")
	Eventually(func(g Gomega) {
		got := direct.as(ctx, first, "POST", "/api/v1/compile", request("viking://resources/first"))
		g.Expect(got.status).To(Equal(http.StatusAccepted), "the facade has seen which runtime is the default: "+got.text())
	}).Should(Succeed())
})

// addRuntime registers the executor under a name, the first one as the default.
func addRuntime(ctx SpecContext, name, url string, change func(*v1alpha1.AgentRuntime)) {
	GinkgoHelper()
	runtime := &v1alpha1.AgentRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.AgentRuntimeSpec{URL: url, DurableKeys: true, MaxConcurrentTasks: 1000},
	}
	if name == "quick" {
		runtime.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
	}
	if change != nil {
		change(runtime)
	}
	Expect(plane.Client.Create(ctx, runtime)).To(Succeed())
}
