package agentruntime_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

func startFake(options fakeruntime.Options) *fakeruntime.Server {
	fake := fakeruntime.Start(options)
	DeferCleanup(fake.Close)
	return fake
}

func secret(secretType, token string) *corev1.Secret {
	GinkgoHelper()
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "gateway-"},
		Type:       corev1.SecretType(secretType), Data: map[string][]byte{"token": []byte(token)},
	}
	Expect(k8s.Create(context.Background(), made)).To(Succeed())
	return made
}

func guarded(name string) func(*v1alpha1.AgentRuntime) {
	return func(r *v1alpha1.AgentRuntime) {
		r.Spec.GatewayTokenSecretRef = &v1alpha1.SecretKeyReference{Name: name}
	}
}

var _ = Describe("Ready", func() {
	const token = "gateway-token-value"

	It("is true when the executor answers, and says whether it holds polls", func() {
		fake := startFake(fakeruntime.Options{RequireAPIKey: true})
		runtime := given(fake.URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		now := current(runtime)
		Expect(now.Status.HeldPolls).To(Equal(v1alpha1.HeldPollsSupported))
		Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		Expect(now.Status.RunningTasks).To(HaveValue(BeZero()))
		Expect(fake.Report().Executions).To(BeZero(), "a probe runs nothing")

		plain := given(startFake(fakeruntime.Options{NoHeldPolls: true}).URL)
		Eventually(condition(plain, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		Expect(current(plain).Status.HeldPolls).To(Equal(v1alpha1.HeldPollsUnsupported))
	})

	It("follows an executor that learns and forgets to hold polls", func() {
		fake := startFake(fakeruntime.Options{})
		runtime := given(fake.URL)
		held := func() v1alpha1.HeldPollSupport { return current(runtime).Status.HeldPolls }
		Eventually(held).Should(Equal(v1alpha1.HeldPollsSupported))
		fake.SetHeldPolls(false)
		probe(runtime)
		Eventually(held).Should(Equal(v1alpha1.HeldPollsUnsupported))
		fake.SetHeldPolls(true)
		probe(runtime)
		Eventually(held).Should(Equal(v1alpha1.HeldPollsSupported))
	})

	It("is false while nobody answers, and true again after", func() {
		fake := startFake(fakeruntime.Options{})
		fake.AddFault(fakeruntime.Fault{Op: fakeruntime.OpStatus, Drop: true})
		runtime := given(fake.URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("False/ProbeFailed"))
		Expect(current(runtime).Status.HeldPolls).To(BeEmpty(), "nothing is known of it")
		fake.ClearFaults()
		probe(runtime)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
	})

	DescribeTable("is false", func(fault fakeruntime.Fault) {
		fake := startFake(fakeruntime.Options{})
		fault.Op = fakeruntime.OpStatus
		fake.AddFault(fault)
		runtime := given(fake.URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("False/ProbeFailed"))
	},
		Entry("for a server error", fakeruntime.Fault{Respond: fakeruntime.Refuse(http.StatusInternalServerError, "INTERNAL", "ouch")}),
		Entry("for a redirect", fakeruntime.Fault{Respond: &fakeruntime.Response{Status: http.StatusFound, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}}),
		Entry("for silence", fakeruntime.Fault{Hold: make(chan struct{})}),
	)

	It("is false for a port nobody listens on", func() {
		fake := fakeruntime.Start(fakeruntime.Options{})
		fake.Close()
		runtime := given(fake.URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("False/ProbeFailed"))
		Expect(messageOf(runtime, v1alpha1.ConditionReady)).To(ContainSubstring("tasks wait and retry"))
	})

	It("is false for a spec that can't be used, and probes once it can", func() {
		fake := startFake(fakeruntime.Options{})
		runtime := given(fake.URL, func(r *v1alpha1.AgentRuntime) {
			r.Spec.URL = "https://127.0.0.1:1"
			r.Spec.CABundle = []byte("no certificate")
		})
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("False/InvalidConfiguration"))
		patch(runtime, `{"spec":{"url":"`+fake.URL+`","caBundle":null}}`)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		Expect(current(runtime).Status.ObservedGeneration).To(BeEquivalentTo(2))
	})

	It("is false without the gateway token, and says what is missing", func() {
		fake := startFake(fakeruntime.Options{GatewayToken: token})
		unset := given(fake.URL)
		Eventually(condition(unset, v1alpha1.ConditionReady)).Should(Equal("False/GatewayTokenRejected"))
		missing := given(fake.URL, guarded("no-such-secret"))
		Eventually(condition(missing, v1alpha1.ConditionReady)).Should(Equal("False/GatewayTokenUnavailable"))
		Expect(messageOf(missing, v1alpha1.ConditionReady)).To(ContainSubstring("no-such-secret"))
		opaque := given(fake.URL, guarded(secret("Opaque", token).Name))
		Eventually(condition(opaque, v1alpha1.ConditionReady)).Should(Equal("False/GatewayTokenUnavailable"))
		Expect(messageOf(opaque, v1alpha1.ConditionReady)).To(ContainSubstring(v1alpha1.SecretTypeGatewayToken))
		wrong := given(fake.URL, guarded(secret(v1alpha1.SecretTypeGatewayToken, "not-"+token).Name))
		Eventually(condition(wrong, v1alpha1.ConditionReady)).Should(Equal("False/GatewayTokenRejected"))
		right := given(fake.URL, guarded(secret(v1alpha1.SecretTypeGatewayToken, token).Name))
		Eventually(condition(right, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		for _, runtime := range []*v1alpha1.AgentRuntime{unset, missing, opaque, wrong, right} {
			Expect(messageOf(runtime, v1alpha1.ConditionReady)).NotTo(ContainSubstring(token))
		}
	})

	It("shows how many tasks run and wait", func() {
		runtime := given(startFake(fakeruntime.Options{}).URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		counter.set(3, 4)
		DeferCleanup(counter.set, 0, 0)
		probe(runtime)
		Eventually(func() *int32 { return current(runtime).Status.WaitingTasks }).Should(Equal(ptr.To[int32](4)))
		Expect(current(runtime).Status.RunningTasks).To(Equal(ptr.To[int32](3)))
	})

	It("is not written again when nothing changed", func() {
		fake := startFake(fakeruntime.Options{})
		runtime := given(fake.URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		probe(runtime)
		before := current(runtime).ResourceVersion
		ctx := context.Background()
		Expect(fake.WaitCalls(ctx, fakeruntime.OpStatus, 2)).To(Succeed())
		Consistently(func() string { return current(runtime).ResourceVersion }).Should(Equal(before))
	})

	It("drops the client of a runtime that is gone", func() {
		runtime := given(startFake(fakeruntime.Options{}).URL)
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		Expect(clients.forgot(runtime.Name)).To(BeFalse())
		Expect(k8s.Delete(context.Background(), runtime)).To(Succeed())
		Eventually(clients.forgot).WithArguments(runtime.Name).Should(BeTrue())
	})
})
