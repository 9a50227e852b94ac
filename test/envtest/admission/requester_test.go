package admission_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// dave is a user as a front proxy or an OIDC provider would describe them.
var dave = rest.ImpersonationConfig{
	UserName: "dave@example.com", UID: "7", Groups: []string{"docs", "system:authenticated"},
	Extra: map[string][]string{"example.com/scopes": {"read", "write"}},
}

func forged(username string) map[string]any {
	return map[string]any{"username": username, "uid": "0", "groups": []any{"system:masters"}, "extra": map[string]any{"x": []any{"y"}}}
}

// requesterFields is dave as a task records them.
func requesterFields() map[string]any {
	return map[string]any{
		"username": dave.UserName, "uid": dave.UID, "groups": []any{"docs", "system:authenticated"},
		"extra": map[string]any{"example.com/scopes": []any{"read", "write"}},
	}
}

// deleteWebhooks takes both webhook configurations away, as a broken install
// would, until the specs of the container are over.
func deleteWebhooks(ctx context.Context) {
	GinkgoHelper()
	mutating, validating := webhookConfigurations()
	Expect(admin.Delete(ctx, mutating)).To(Succeed())
	Expect(admin.Delete(ctx, validating)).To(Succeed())
	task := taskOf("default", minimalSpec())
	Eventually(func() error { return admin.Create(ctx, task.DeepCopy(), client.DryRunAll) }).
		Should(beRefused(http.StatusUnprocessableEntity, "spec.requester: Required"))
	invalid := taskOf("default", with(with(minimalSpec(), "requester", map[string]any{"username": "x"}), "to", "no URI"))
	Eventually(func() error { return admin.Create(ctx, invalid.DeepCopy(), client.DryRunAll) }).
		Should(beRefused(http.StatusForbidden, "agentruntime-compiletask-requester"))
}

func restoreWebhooks(ctx context.Context) {
	GinkgoHelper()
	mutating, validating := webhookConfigurations()
	Expect(admin.Create(ctx, mutating)).To(Succeed())
	Expect(admin.Create(ctx, validating)).To(Succeed())
	waitForAdmission(ctx)
	invalid := taskOf("default", with(minimalSpec(), "to", "no URI"))
	Eventually(func() error { return admin.Create(ctx, invalid.DeepCopy(), client.DryRunAll) }).
		Should(beRefused(http.StatusUnprocessableEntity, "spec.to"))
}

// webhookConfigurations are what was installed, fit to be created again.
func webhookConfigurations() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	mutating := env.WebhookInstallOptions.MutatingWebhooks[0].DeepCopy()
	validating := env.WebhookInstallOptions.ValidatingWebhooks[0].DeepCopy()
	for _, meta := range []*metav1.ObjectMeta{&mutating.ObjectMeta, &validating.ObjectMeta} {
		*meta = metav1.ObjectMeta{Name: meta.Name}
	}
	return mutating, validating
}

var _ = Describe("The requester of a CompileTask", func() {
	var (
		namespace string
		asDave    client.Client
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		asDave = impersonate(dave)
		bind(ctx, namespace, dave.UserName, "agentruntime-user")
	})
	wantDave := v1alpha1.Requester{
		Username: dave.UserName, UID: dave.UID, Groups: dave.Groups,
		Extra: map[string]v1alpha1.ExtraValue{"example.com/scopes": {"read", "write"}},
	}

	It("is stamped with name, uid, groups and extra", func(ctx SpecContext) {
		task := createTask(ctx, asDave, namespace, minimalSpec())
		Expect(current(ctx, task).Spec.Requester).To(Equal(wantDave))
	})

	It("is stamped with what a certificate says", func(ctx SpecContext) {
		bind(ctx, namespace, alice.name, "agentruntime-user")
		task := createTask(ctx, alice, namespace, minimalSpec())
		requester := current(ctx, task).Spec.Requester
		Expect(requester.Username).To(Equal("alice"))
		Expect(requester.Groups).To(ContainElement("system:authenticated"))
	})

	It("replaces what the client sent, whole", func(ctx SpecContext) {
		task := createTask(ctx, asDave, namespace, with(minimalSpec(), "requester", forged("admin")))
		Expect(current(ctx, task).Spec.Requester).To(Equal(wantDave))
	})

	It("leaves no field of a forged one to a user without uid and extra", func(ctx SpecContext) {
		plain := impersonate(rest.ImpersonationConfig{UserName: dave.UserName})
		task := createTask(ctx, plain, namespace, with(minimalSpec(), "requester", forged("admin")))
		requester := current(ctx, task).Spec.Requester
		Expect(requester).To(Equal(v1alpha1.Requester{Username: dave.UserName, Groups: []string{"system:authenticated"}}))
	})

	It("is refused, not cut, when the user is in too many groups", func(ctx SpecContext) {
		many := dave
		many.Groups = nil
		for range 300 {
			many.Groups = append(many.Groups, unique("group"))
		}
		err := impersonate(many).Create(ctx, taskOf(namespace, minimalSpec()))
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, "spec.requester.groups", "at most 256"))
	})

	It("can't be changed by its own user, nor by an admin", func(ctx SpecContext) {
		task := createTask(ctx, asDave, namespace, minimalSpec())
		for _, as := range []client.Client{asDave, admin} {
			err := patchOf(ctx, as, task, specPatch(map[string]any{"requester": map[string]any{"username": "admin"}}))
			Expect(err).To(HaveOccurred())
		}
		Expect(current(ctx, task).Spec.Requester).To(Equal(wantDave))
	})

	It("is stamped on what server-side apply creates", func(ctx SpecContext) {
		grant(ctx, namespace, dave.UserName, rule("compiletasks", "get"))
		task := taskOf(namespace, minimalSpec())
		for range 2 {
			Expect(asDave.Apply(ctx, client.ApplyConfigurationFromUnstructured(task.DeepCopy()), client.FieldOwner("kubectl"))).To(Succeed())
		}
		Expect(current(ctx, task).Spec.Requester).To(Equal(wantDave))
	})
})

var _ = Describe("With the webhook configurations missing", Ordered, func() {
	BeforeAll(func(ctx SpecContext) { deleteWebhooks(ctx) })
	AfterAll(func(ctx SpecContext) { restoreWebhooks(ctx) })

	var (
		namespace string
		asDave    client.Client
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		asDave = impersonate(dave)
		bind(ctx, namespace, dave.UserName, "agentruntime-user")
	})

	create := func(ctx context.Context, field string, value any) error {
		requester := with(requesterFields(), field, value)
		return asDave.Create(ctx, taskOf(namespace, with(minimalSpec(), "requester", requester)))
	}

	It("a task without a requester can't be created", func(ctx SpecContext) {
		Expect(asDave.Create(ctx, taskOf(namespace, minimalSpec()))).
			To(beRefused(http.StatusUnprocessableEntity, "spec.requester: Required"))
	})

	DescribeTable("a requester can't be forged", func(ctx SpecContext, field string, value any) {
		Expect(create(ctx, field, value)).To(beRefused(http.StatusForbidden, "agentruntime-compiletask-requester", "must be the user who creates the task"))
	},
		Entry("another name", "username", "admin"),
		Entry("another uid", "uid", "8"),
		Entry("no uid", "uid", nil),
		Entry("one more group", "groups", []any{"docs", "system:authenticated", "system:masters"}),
		Entry("one group less", "groups", []any{"docs"}),
		Entry("no groups", "groups", nil),
		Entry("another extra", "extra", map[string]any{"example.com/scopes": []any{"admin"}}),
		Entry("one more extra", "extra", map[string]any{"example.com/scopes": []any{"read", "write"}, "x": []any{"y"}}),
		Entry("no extra", "extra", nil),
	)

	It("a user may still tell the truth about themselves", func(ctx SpecContext) {
		Expect(create(ctx, "uid", dave.UID)).To(Succeed())
	})

	It("a name that would be the task's id is refused by the policy", func(ctx SpecContext) {
		task := taskOf(namespace, with(minimalSpec(), "requester", requesterFields()))
		task.SetName(restName)
		Expect(asDave.Create(ctx, task)).
			To(beRefused(http.StatusUnprocessableEntity, "agentruntime-compiletask-names", "metadata.name", "choose another"))
	})

	It("a requester can't be changed by an update", func(ctx SpecContext) {
		task := taskOf(namespace, with(minimalSpec(), "requester", requesterFields()))
		Expect(asDave.Create(ctx, task)).To(Succeed())
		err := patchOf(ctx, asDave, task, specPatch(map[string]any{"requester": map[string]any{"username": "admin"}}))
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, "requester is set at creation"))
	})
})
