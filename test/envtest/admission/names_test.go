package admission_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restName is a name that makes a task's id, which only the REST API may give.
const restName = "cmp-0123456789abcdef0123456789abcdef"

// restNamed is a task of such a name with one more fault.
func restNamed(namespace string) *unstructured.Unstructured {
	task := taskOf(namespace, with(minimalSpec(), "to", "no URI"))
	task.SetName(restName)
	return task
}

var _ = Describe("The name of a CompileTask", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		bind(ctx, namespace, alice.name, "agentruntime-user")
	})

	It("may not be the task's id, for a user, an admin, or the operator", func(ctx SpecContext) {
		grant(ctx, namespace, facadeUser, rule("compiletasks", "create"))
		for _, as := range []client.Client{alice, admin, serviceAccount(facadeUser)} {
			task := taskOf(namespace, minimalSpec())
			task.SetName(restName)
			Expect(as.Create(ctx, task)).To(beRefused(http.StatusUnprocessableEntity, "metadata.name", "REST API", "choose another"))
		}
	})

	DescribeTable("may be anything else", func(ctx SpecContext, name string) {
		task := taskOf(namespace, minimalSpec())
		task.SetName(name)
		Expect(alice.Create(ctx, task)).To(Succeed())
	},
		Entry("of almost that form", restName[:len(restName)-1]),
		Entry("of that form with more behind", restName+".0"),
		Entry("with no hex digits", "cmp-weekly"),
	)

	It("may be generated", func(ctx SpecContext) {
		task := taskOf(namespace, minimalSpec())
		task.SetName("")
		task.SetGenerateName("cmp-")
		Expect(alice.Create(ctx, task)).To(Succeed())
	})
})

var _ = Describe("With the policy on names missing", Ordered, func() {
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	BeforeAll(func(ctx SpecContext) {
		Expect(admin.Get(ctx, client.ObjectKey{Name: "agentruntime-compiletask-names"}, binding)).To(Succeed())
		Expect(admin.Delete(ctx, binding.DeepCopy())).To(Succeed())
	})
	AfterAll(func(ctx SpecContext) {
		binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name}
		Expect(admin.Create(ctx, binding)).To(Succeed())
		Eventually(func() error { return admin.Create(ctx, restNamed("default"), client.DryRunAll) }).
			Should(beRefused(http.StatusUnprocessableEntity, "agentruntime-compiletask-names"))
	})

	It("the webhook refuses the name, along with every other fault", func(ctx SpecContext) {
		var err error
		Eventually(func() error { err = admin.Create(ctx, restNamed("default"), client.DryRunAll); return err }).
			Should(beRefused(http.StatusUnprocessableEntity, "validate-compiletask.agentruntime.dev"))
		Expect(causeFields(err)).To(ConsistOf("metadata.name", "spec.to"))
	})

	It("the webhook refuses what else is the REST API's own", func(ctx SpecContext) {
		task := restTask("default", "kubernetes-admin", restName)
		task.SetName("mine")
		Expect(admin.Create(ctx, task.DeepCopy(), client.DryRunAll)).To(beRefused(http.StatusUnprocessableEntity, "validate-compiletask", "spec.restRequest"))
		delete(specOf(task), "restRequest")
		Expect(causeFields(admin.Create(ctx, task, client.DryRunAll))).To(ConsistOf("spec.sealedArgs", "spec.sealedCredentials"))
	})
})
