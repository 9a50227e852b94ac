// Package admission_test holds the suites of everything that stands between a
// user and a stored object: schemas, CEL rules, webhooks, policies and the roles
// shipped for people, each as it ships, against a real API server.
package admission_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/envtest"
	admissionv1alpha1 "github.com/agentruntime/operator/webhook/v1alpha1"
)

const (
	managerUser   = "system:serviceaccount:agentruntime-system:agentruntime-manager"
	facadeUser    = "system:serviceaccount:agentruntime-system:agentruntime-facade"
	collectorUser = "system:serviceaccount:kube-system:generic-garbage-collector"
	namespaceUser = "system:serviceaccount:kube-system:namespace-controller"
)

var (
	env   *envtest.Environment
	admin client.Client
	// keyRing makes the marks of the REST API, and checks them.
	keyRing *sealed.KeyRing
	// alice and bob are people in no group but their own; carol is one more, for
	// rights that nobody else should get.
	alice, bob, carol person

	stopWebhook func()
)

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Admission")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(zap.New(zap.WriteTo(GinkgoWriter)))
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)

	var err error
	env, err = envtest.Start(envtest.Options{Manifests: []string{
		"config/webhook", "config/policies", "config/rbac/user_roles.yaml", "config/rbac/view_role.yaml",
	}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(env.Stop()).To(Succeed()) })
	admin, err = client.New(env.Config, client.Options{Scheme: env.Scheme})
	Expect(err).NotTo(HaveOccurred())

	keyRing, err = sealed.ParseKeyRing(sealed.GenerateKeyRingData())
	Expect(err).NotTo(HaveOccurred())
	alice, bob, carol = addPerson("alice"), addPerson("bob"), addPerson("carol")
	grantManager(ctx)
	startWebhook()
	DeferCleanup(func() { stopWebhook() })
	waitForAdmission(ctx)
})

// startWebhook runs a manager that serves admission, as cmd/manager does.
func startWebhook() {
	GinkgoHelper()
	install := env.WebhookInstallOptions
	server := webhook.NewServer(webhook.Options{
		Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
	})
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(admissionv1alpha1.SetupWithManager(mgr, admissionv1alpha1.Options{KeyRing: keyRing})).To(Succeed())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopWebhook = func() {
		cancel()
		Expect(<-ended).To(Succeed())
	}
	Eventually(func() error { return server.StartedChecker()(nil) }).Should(Succeed())
}

// waitForAdmission returns when webhooks and policies are in force, which takes
// the API server a moment after they are created.
func waitForAdmission(ctx context.Context) {
	GinkgoHelper()
	probe := func(kind string) *unstructured.Unstructured {
		object := newObject(kind)
		object.SetNamespace("default")
		return object
	}
	Eventually(func() error {
		payload := probe("Payload")
		payload.Object["spec"] = map[string]any{}
		return admin.Create(ctx, payload, client.DryRunAll)
	}).Should(MatchError(apierrors.IsForbidden, "the policy"))
	Eventually(func() error {
		task := probe("CompileTask")
		task.Object["spec"] = minimalSpec()
		return admin.Create(ctx, task, client.DryRunAll)
	}).Should(Succeed())
	Eventually(func() error {
		task := probe("CompileTask")
		task.Object["spec"] = minimalSpec()
		task.SetFinalizers([]string{v1alpha1.FinalizerCancelOnDelete})
		return admin.Create(ctx, task, client.DryRunAll)
	}).Should(MatchError(apierrors.IsForbidden, "the policy"))
}

func clientFor(config *rest.Config) client.Client {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// person is a user with a certificate of the API server's CA.
type person struct {
	client.Client
	name string
}

func addPerson(name string, groups ...string) person {
	GinkgoHelper()
	user, err := env.AddUser(crenvtest.User{Name: name, Groups: groups}, nil)
	Expect(err).NotTo(HaveOccurred())
	return person{Client: clientFor(user.Config()), name: name}
}

// impersonate acts as a user that has no certificate, such as a ServiceAccount.
func impersonate(user rest.ImpersonationConfig) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = user
	return clientFor(config)
}

func serviceAccount(user string) client.Client {
	GinkgoHelper()
	return impersonate(rest.ImpersonationConfig{UserName: user})
}

var counter int

func unique(prefix string) string {
	counter++
	return fmt.Sprintf("%s-%d", prefix, counter)
}
