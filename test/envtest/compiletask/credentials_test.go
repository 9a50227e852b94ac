package compiletask_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// oneUser takes all callers for one, so that a changed key stays the same user's.
func oneUser(http.Header) string { return "user" }

var _ = Describe("Credentials", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		clock     *shiftedClock
	)
	BeforeAll(func() {
		clock = &shiftedClock{}
		startManager(withClock(clock))
	})
	BeforeEach(func() {
		namespace = newNamespace()
		fake = startFake(fakeruntime.Options{Durable: true, UserOf: oneUser, RequireAPIKey: true})
	})
	waits := func(task *v1alpha1.CompileTask, reason, message string) {
		GinkgoHelper()
		Eventually(messageOf(task, v1alpha1.ConditionSubmitted)).Should(ContainSubstring(message))
		Expect(reasonOf(task, v1alpha1.ConditionSubmitted)()).To(Equal(reason))
		Expect(fake.Report().Creates).To(BeZero())
	}
	keysSent := func(ops ...fakeruntime.Op) []string {
		var keys []string
		for _, call := range fake.Calls(ops...) {
			keys = append(keys, call.Header.Get(runtimeapi.HeaderAPIKey))
		}
		return keys
	}

	Context("from a Secret", func() {
		It("is waited for, with what is missing", func() {
			art := newRuntime(fake.URL, bySecret)
			task := create(newTask(namespace, art.Name, withSecret("key")))
			waits(task, v1alpha1.ReasonNotPermitted, `user "alice" may not use Secret "key"`)
			grant(namespace, mayGetSecrets)
			poke(task)
			waits(task, v1alpha1.ReasonCredentialsUnavailable, `Secret "key" does not exist`)
			wrong := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Data: map[string][]byte{"api-key": []byte(secretValue())}}
			Expect(k8s.Create(context.Background(), wrong)).To(Succeed())
			poke(task)
			waits(task, v1alpha1.ReasonCredentialsUnavailable, `Secret "key" has type "Opaque"; it must have type agentruntime.dev/credentials`)
			Expect(k8s.Delete(context.Background(), wrong)).To(Succeed())
			empty := keySecret(namespace, "")
			poke(task)
			waits(task, v1alpha1.ReasonCredentialsUnavailable, `Secret "key" has nothing under the key "api-key"`)
			value := secretValue()
			rotate(empty, value)
			poke(task)
			Expect(endReason(end(task))).To(Equal("Complete/Completed"))
			Expect(keysSent()).To(HaveEach(value))
			requireOneExecution(fake, task)
		})

		It("does not hold up other tasks of the target or the runtime", func() {
			grant(namespace, mayGetSecrets)
			keySecret(namespace, secretValue())
			art := newRuntime(fake.URL, bySecret, oneAtATime)
			stuck := create(newTask(namespace, art.Name, withSecret("none")))
			waits(stuck, v1alpha1.ReasonCredentialsUnavailable, "does not exist")
			Expect(endReason(end(create(newTask(namespace, art.Name, withSecret("key"), to(stuck.Spec.To)))))).To(Equal("Complete/Completed"))
		})

		It("is asked for where a task names none", func() {
			art := newRuntime(fake.URL, bySecret)
			waits(create(newTask(namespace, art.Name)), v1alpha1.ReasonCredentialsUnavailable, "create the task with credentialsSecretName")
		})

		It("is read again once when the executor refuses it", func() {
			grant(namespace, mayGetSecrets)
			before, after := secretValue(), secretValue()
			secret := keySecret(namespace, before)
			task := newTask(namespace, newRuntime(fake.URL, bySecret).Name, withSecret("key"))
			fake.On(fakeruntime.To(task.Spec.To), steady())
			task = running(create(task))
			rotate(secret, after)
			clock.shift(time.Minute)
			Expect(fake.Fail(task.TaskID(), fakeruntime.Fault{Op: fakeruntime.OpStatus, Count: 1, Respond: fakeruntime.Refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "old key")})).To(Succeed())
			Expect(fake.Set(task.TaskID(), fakeruntime.Running("compile: writing"))).To(Succeed())
			Eventually(func() []string { return keysSent() }).Should(ContainElement(after))
			Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
			Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		})

		It("fails the task when the executor refuses it twice", func() {
			grant(namespace, mayGetSecrets)
			keySecret(namespace, secretValue())
			task := newTask(namespace, newRuntime(fake.URL, bySecret).Name, withSecret("key"))
			fake.On(fakeruntime.To(task.Spec.To), steady())
			task = running(create(task))
			clock.shift(time.Minute)
			Expect(fake.Fail(task.TaskID(), fakeruntime.Fault{Op: fakeruntime.OpStatus, Respond: fakeruntime.Refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "revoked")})).To(Succeed())
			Expect(fake.Set(task.TaskID(), fakeruntime.Running("compile: writing"))).To(Succeed())
			now := end(task)
			Expect(endReason(now)).To(Equal("Failed/Rejected"))
			Expect(errorOf(now)).To(Equal("UNAUTHENTICATED: revoked"))
		})
	})

	Context("from a ServiceAccount", func() {
		const audience = "executor.example"
		byToken := func(audience string) func(*v1alpha1.AgentRuntimeSpec) {
			return func(s *v1alpha1.AgentRuntimeSpec) {
				s.Credentials = &v1alpha1.RuntimeCredentials{Mode: v1alpha1.CredentialsServiceAccountToken, Audience: audience}
			}
		}
		as := func(account string) func(*v1alpha1.CompileTask) {
			return func(t *v1alpha1.CompileTask) { t.Spec.ServiceAccountName = account }
		}
		account := func() *corev1.ServiceAccount {
			GinkgoHelper()
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
			Expect(k8s.Create(context.Background(), sa)).To(Succeed())
			return sa
		}

		It("is waited for, and is a token for the executor alone", func() {
			task := create(newTask(namespace, newRuntime(fake.URL, byToken(audience)).Name, as("robot")))
			waits(task, v1alpha1.ReasonNotPermitted, `user "alice" may not use ServiceAccount "robot"`)
			grant(namespace, mayCreateTokens)
			poke(task)
			waits(task, v1alpha1.ReasonCredentialsUnavailable, `ServiceAccount "robot" does not exist`)
			account()
			poke(task)
			Expect(endReason(end(task))).To(Equal("Complete/Completed"))
			for _, token := range keysSent() {
				secrets = append(secrets, token)
				claims := claimsOf(token)
				Expect(claims.Audience).To(ConsistOf(audience))
				Expect(claims.Subject).To(Equal(fmt.Sprintf("system:serviceaccount:%s:robot", namespace)))
				Expect(claims.Expires - claims.Issued).To(BeNumerically("<=", 3700))
			}
		})

		It("is renewed while the task runs", func() {
			grant(namespace, mayCreateTokens)
			account()
			task := newTask(namespace, newRuntime(fake.URL, byToken(audience)).Name, as("robot"))
			fake.On(fakeruntime.To(task.Spec.To), steady())
			task = running(create(task))
			old := keysSent()[0]
			clock.shift(50 * time.Minute)
			Expect(fake.Set(task.TaskID(), fakeruntime.Running("compile: writing"))).To(Succeed())
			Eventually(stageOf(task)).Should(Equal("compile: writing"))
			Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
			Expect(endReason(end(task))).To(Equal("Complete/Completed"))
			all := keysSent(fakeruntime.OpStatus)
			Expect(all[len(all)-1]).NotTo(Equal(old))
			secrets = append(secrets, all...)
		})

		It("is never one for the API server", func() {
			grant(namespace, mayCreateTokens)
			request := &authenticationv1.TokenRequest{}
			Expect(k8s.SubResource("token").Create(context.Background(), account(), request)).To(Succeed())
			own := claimsOf(request.Status.Token).Audience
			Expect(own).NotTo(BeEmpty())
			task := create(newTask(namespace, newRuntime(fake.URL, byToken(own[0])).Name, as("robot")))
			waits(task, v1alpha1.ReasonRuntimeInvalid, "asks for tokens of the API server's own audience")
			Consistently(func() int { return len(fake.Calls()) }).Should(BeZero())
		})
	})
})

var _ = Describe("A credential that changes before the session is known", func() {
	It("ends the task: whether it runs can't be told", func() {
		namespace := newNamespace()
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		grant(namespace, mayGetSecrets)
		secret := keySecret(namespace, secretValue())
		task := newTask(namespace, newRuntime(fake.URL, bySecret).Name, withSecret("key"))
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Commit: true, Hold: held, Drop: true}))
		stop := startManager()
		create(task)
		called(fake, fakeruntime.OpCreate, 1)
		Expect(current(task)().Status.CredentialFingerprint).NotTo(BeEmpty())
		stop()
		close(held)
		rotate(secret, secretValue())
		startManager()
		now := end(task)
		Expect(endReason(now)).To(Equal("Failed/SubmitOutcomeUnknown"))
		Expect(errorOf(now)).To(HavePrefix("SUBMIT_OUTCOME_UNKNOWN: "))
		Expect(now.Status.CredentialFingerprint).To(BeEmpty())
		Expect(fake.Report().Creates).To(Equal(1))
		Expect(fake.Report().Executions).To(Equal(1))
	})

	It("changes nothing when it is the same", func() {
		namespace := newNamespace()
		fake := startFake(fakeruntime.Options{Durable: true})
		grant(namespace, mayGetSecrets)
		keySecret(namespace, secretValue())
		task := newTask(namespace, newRuntime(fake.URL, bySecret).Name, withSecret("key"))
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), fakeruntime.Behaviour{Faults: []fakeruntime.Fault{{Op: fakeruntime.OpCreate, Count: 1, Commit: true, Hold: held, Drop: true}}})
		stop := startManager()
		create(task)
		called(fake, fakeruntime.OpCreate, 1)
		stop()
		close(held)
		startManager()
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
	})
})

type claims struct {
	Audience []string `json:"aud"`
	Subject  string   `json:"sub"`
	Issued   int64    `json:"iat"`
	Expires  int64    `json:"exp"`
}

func claimsOf(token string) claims {
	GinkgoHelper()
	parts := strings.Split(token, ".")
	Expect(parts).To(HaveLen(3))
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	Expect(err).NotTo(HaveOccurred())
	var c claims
	Expect(json.Unmarshal(body, &c)).To(Succeed())
	return c
}
