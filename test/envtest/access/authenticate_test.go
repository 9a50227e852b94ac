package access_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/access/apikey"
)

// newAuthenticator returns the facade's authenticator for an operator in the
// namespace.
func newAuthenticator(operatorNamespace string) *access.Authenticator {
	GinkgoHelper()
	authenticator, err := access.NewAuthenticator(access.Options{
		Reviews:           clients.AuthenticationV1(),
		Keys:              apikey.NewLookup(clients.CoreV1().Secrets(operatorNamespace), 0, nil),
		OperatorNamespace: operatorNamespace,
	})
	Expect(err).NotTo(HaveOccurred())
	return authenticator
}

// request makes one with a credential, as SDKs send it.
func request(credential string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/tasks", http.NoBody)
	r.Header.Set("X-API-Key", credential)
	return r
}

// reasonOf returns why a request has no caller.
func reasonOf(err error) access.Reason {
	GinkgoHelper()
	var unauthenticated *access.UnauthenticatedError
	Expect(errors.As(err, &unauthenticated)).To(BeTrue(), "%v is no UnauthenticatedError", err)
	Expect(err).To(MatchError(access.ErrUnauthenticated))
	return unauthenticated.Reason
}

var _ = Describe("A token of Kubernetes", func() {
	var (
		namespace     string
		authenticator *access.Authenticator
	)

	BeforeEach(func() {
		namespace = newNamespace()
		authenticator = newAuthenticator(newNamespace())
		newServiceAccount(namespace, "robot")
	})

	DescribeTable("is taken by its audience", func(taken bool, audiences ...string) {
		caller, err := authenticator.Authenticate(request(tokenOf(namespace, "robot", audiences...)))
		if !taken {
			Expect(reasonOf(err)).To(Equal(access.ReasonInvalid))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(caller.Method).To(Equal(access.MethodToken))
		Expect(caller.User.Username).To(Equal("system:serviceaccount:" + namespace + ":robot"))
		Expect(caller.User.UID).NotTo(BeEmpty())
		Expect(caller.User.Groups).To(ConsistOf("system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated"))
		Expect(caller.User.Extra).To(HaveKey(credentialID))
	},
		Entry("the API server's", true),
		Entry("the facade's", true, access.DefaultAudience),
		Entry("the facade's among others", true, "vault", access.DefaultAudience),
		Entry("another one's", false, "vault"),
	)

	It("is refused when it is garbage", func() {
		for _, garbage := range []string{"garbage", "a.b.c", tokenOf(namespace, "robot") + "x"} {
			_, err := authenticator.Authenticate(request(garbage))
			Expect(reasonOf(err)).To(Equal(access.ReasonInvalid))
			Expect(err.Error()).NotTo(ContainSubstring(garbage))
		}
	})

	It("is refused soon after its ServiceAccount is deleted", func() {
		token := tokenOf(namespace, "robot")
		_, err := authenticator.Authenticate(request(token))
		Expect(err).NotTo(HaveOccurred())
		Expect(k8s.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}})).To(Succeed())
		Eventually(func() error {
			_, err := authenticator.Authenticate(request(token))
			return err
		}).Should(MatchError(access.ErrUnauthenticated))
	})

	It("is refused soon after the object it is bound to is deleted", func() {
		bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bound"}}
		Expect(k8s.Create(ctx, bound)).To(Succeed())
		answer, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Secret", APIVersion: "v1", Name: bound.Name, UID: bound.UID,
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = authenticator.Authenticate(request(answer.Status.Token))
		Expect(err).NotTo(HaveOccurred())
		Expect(k8s.Delete(ctx, bound)).To(Succeed())
		Eventually(func() error {
			_, err := authenticator.Authenticate(request(answer.Status.Token))
			return err
		}).Should(MatchError(access.ErrUnauthenticated))
	})

	It("of kube-system or of the operator itself is never served", func() {
		operator := newNamespace()
		authenticator := newAuthenticator(operator)
		newServiceAccount(operator, access.ServiceAccountManager)
		newServiceAccount("kube-system", "spec-robot")
		for _, token := range []string{tokenOf(operator, access.ServiceAccountManager), tokenOf("kube-system", "spec-robot")} {
			_, err := authenticator.Authenticate(request(token))
			Expect(err).To(MatchError(access.ErrForbidden))
		}
	})

	It("alone counts: X-Remote headers are not looked at", func() {
		r := request(tokenOf(namespace, "robot"))
		r.Header.Set("X-Remote-User", "root")
		r.Header.Set("X-Remote-Group", "system:masters")
		caller, err := authenticator.Authenticate(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(caller.User.Username).To(Equal("system:serviceaccount:" + namespace + ":robot"))
		Expect(caller.User.Groups).NotTo(ContainElement("system:masters"))
	})
})

var _ = Describe("An API key", func() {
	var (
		operator      string
		authenticator *access.Authenticator
		grant         apikey.Grant
	)

	BeforeEach(func() {
		operator = newNamespace()
		authenticator = newAuthenticator(operator)
		grant = apikey.Grant{Username: "alice@example.com", Groups: []string{"docs"}, Namespace: "team-a", ForwardKey: "ov-1"}
	})

	create := func(key access.Secret) *corev1.Secret {
		GinkgoHelper()
		secret, err := apikey.Encode(operator, key, grant, time.Now())
		Expect(err).NotTo(HaveOccurred())
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		return secret
	}

	It("stands for its user, until it is revoked", func() {
		key := apikey.Mint()
		secret := create(key)
		caller, err := authenticator.Authenticate(request(string(key)))
		Expect(err).NotTo(HaveOccurred())
		Expect(caller.User.Username).To(Equal("alice@example.com"))
		Expect(caller.User.Groups).To(Equal([]string{"docs", "system:authenticated"}))
		Expect(caller.Namespace).To(Equal("team-a"))
		Expect(string(caller.Forward)).To(Equal("ov-1"))

		Expect(k8s.Delete(ctx, secret)).To(Succeed())
		Eventually(func() error {
			_, err := authenticator.Authenticate(request(string(key)))
			return err
		}).Should(MatchError(access.ErrUnauthenticated))
	})

	It("ends at its expiry, whatever is remembered", func() {
		grant.Expires = time.Now().Add(2 * time.Second)
		key := apikey.Mint()
		create(key)
		_, err := authenticator.Authenticate(request(string(key)))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() access.Reason {
			_, err := authenticator.Authenticate(request(string(key)))
			if err == nil {
				return ""
			}
			return reasonOf(err)
		}).WithTimeout(4 * time.Second).Should(Equal(access.ReasonExpired))
	})

	It("can't be made another user's", func() {
		secret := create(apikey.Mint())
		secret.Data["username"] = []byte("bob")
		Expect(k8s.Update(ctx, secret)).To(MatchError(ContainSubstring("immutable")))
	})

	It("that nobody was given is refused", func() {
		_, err := authenticator.Authenticate(request(string(apikey.Mint())))
		Expect(reasonOf(err)).To(Equal(access.ReasonInvalid))
	})

	It("of a Secret that makes it an admin's is refused", func() {
		key := apikey.Mint()
		secret, err := apikey.Encode(operator, key, grant, time.Now())
		Expect(err).NotTo(HaveOccurred())
		secret.Data["groups"] = []byte(`["system:masters"]`)
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		_, err = authenticator.Authenticate(request(string(key)))
		Expect(err).To(MatchError(access.ErrForbidden))
	})
})
