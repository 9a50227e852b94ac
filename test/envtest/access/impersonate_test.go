package access_test

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/impersonate"
	testenv "github.com/agentruntime/operator/test/envtest"
)

const credentialID = "authentication.kubernetes.io/credential-id"

var (
	// impersonatorRules let the facade act as anybody, for nothing but creating and
	// patching CompileTasks.
	impersonatorRules = []rbacv1.PolicyRule{
		{
			APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users", "groups", "uids", "userextras/" + credentialID},
			Verbs: []string{"impersonate:user-info"},
		},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate:serviceaccount"}},
		{
			APIGroups: []string{"agentruntime.dev"}, Resources: []string{"compiletasks"},
			Verbs: []string{
				"impersonate-on:user-info:create", "impersonate-on:user-info:patch",
				"impersonate-on:serviceaccount:create", "impersonate-on:serviceaccount:patch",
			},
		},
	}
	everything = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
)

// grant binds a new ClusterRole with the rules to the subject, everywhere.
func grant(name string, rules []rbacv1.PolicyRule, subject rbacv1.Subject) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	})).To(Succeed())
}

func serviceAccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

// facadeClient is the client of a ServiceAccount that may impersonate and no more.
func facadeClient(namespace string) client.Client {
	GinkgoHelper()
	newServiceAccount(namespace, "impersonator")
	grant("impersonator-"+namespace, impersonatorRules, serviceAccountSubject(namespace, "impersonator"))
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = tokenOf(namespace, "impersonator")
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return impersonate.New(base, impersonate.Options{OperatorNamespace: namespace})
	})
	acting, err := client.New(config, client.Options{Scheme: testenv.NewScheme(), Mapper: k8s.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	return acting
}

func newTask(namespace string, who v1alpha1.Requester) *v1alpha1.CompileTask {
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "task-"},
		Spec: v1alpha1.CompileTaskSpec{
			From: []string{"viking://resources/a"}, To: "viking://resources/b", Skill: "viking://agent/skills/s",
			Requester: who, RuntimeName: "builtin",
		},
	}
}

var _ = Describe("Constrained impersonation", Ordered, func() {
	var (
		namespace string
		acting    client.Client
		alice     v1alpha1.Requester
		robot     v1alpha1.Requester
	)

	BeforeAll(func() {
		namespace = newNamespace()
		acting = facadeClient(namespace)
		alice = v1alpha1.Requester{
			Username: "alice@example.com", UID: "u-1", Groups: []string{"docs", "a", "b", "c", "system:authenticated"},
			Extra: map[string]v1alpha1.ExtraValue{credentialID: {"X509SHA256=1"}},
		}
		grant("alice-"+namespace, everything, rbacv1.Subject{Kind: "User", Name: alice.Username})
		newServiceAccount(namespace, "robot")
		robot = v1alpha1.Requester{
			Username: "system:serviceaccount:" + namespace + ":robot", UID: "u-2",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			Extra:  map[string]v1alpha1.ExtraValue{credentialID: {"JTI=1"}, "authentication.kubernetes.io/pod-name": {"p"}},
		}
		grant("robot-"+namespace, everything, serviceAccountSubject(namespace, "robot"))
	})

	for name, who := range map[string]func() v1alpha1.Requester{
		"a user":           func() v1alpha1.Requester { return alice },
		"a ServiceAccount": func() v1alpha1.Requester { return robot },
	} {
		It("creates and patches a CompileTask as "+name+", and does nothing else", func() {
			as := impersonate.WithUser(ctx, who())
			task := newTask(namespace, who())
			Eventually(func() error { return acting.Create(as, task) }).Should(Succeed())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))
			Expect(acting.Patch(as, task.DeepCopy(), patch)).To(Succeed())

			By("being forbidden all that the user may do beside")
			Expect(acting.Get(as, client.ObjectKeyFromObject(task), task.DeepCopy())).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(acting.List(as, &v1alpha1.CompileTaskList{}, client.InNamespace(namespace))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(acting.Update(as, task.DeepCopy())).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(acting.Status().Patch(as, task.DeepCopy(), patch)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(acting.Delete(as, task.DeepCopy())).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "s-"}}
			Expect(acting.Create(as, secret)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		})
	}

	It("gives a user no right that they don't have", func() {
		mallory := v1alpha1.Requester{Username: "mallory", Groups: []string{"system:authenticated"}}
		err := acting.Create(impersonate.WithUser(ctx, mallory), newTask(namespace, mallory))
		Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(err).To(MatchError(ContainSubstring(`User "mallory" cannot create`)))
	})

	It("sends nothing as nobody, as an admin or with extras that would be lost", func() {
		Expect(acting.Create(ctx, newTask(namespace, alice))).To(MatchError(impersonate.ErrNoUser))
		for _, who := range []v1alpha1.Requester{
			{Username: "root", Groups: []string{"system:masters"}},
			{Username: "system:node:n1"},
			{Username: "alice", Extra: map[string]v1alpha1.ExtraValue{"scopes": {"docs"}}},
		} {
			err := acting.Create(impersonate.WithUser(ctx, who), newTask(namespace, alice))
			Expect(err).To(MatchError(access.ErrForbidden))
			Expect(apierrors.IsForbidden(err)).To(BeFalse(), "the API server was asked")
		}
	})

	It("is not granted without the rules for what it is on", func() {
		newServiceAccount(namespace, "bare")
		grant("bare-"+namespace, impersonatorRules[:2], serviceAccountSubject(namespace, "bare"))
		config := rest.AnonymousClientConfig(env.Config)
		config.BearerToken = tokenOf(namespace, "bare")
		config.Impersonate = rest.ImpersonationConfig{UserName: "alice@example.com"}
		as, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		_, err = as.CoreV1().Secrets(namespace).List(context.Background(), metav1.ListOptions{})
		Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(strings.ToLower(err.Error())).To(ContainSubstring("impersonate"))
	})
})
