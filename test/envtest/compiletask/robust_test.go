package compiletask_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// What must not keep a task from its end, and what must not keep the operator busy.
var _ = Describe("A CompileTask, whatever happens around it,", func() {
	completes := func(result string) fakeruntime.Options {
		return fakeruntime.Options{Durable: true, Default: fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Completed(result))}}
	}

	It("ends with a note when its result is nothing the API server would store", func() {
		fake := startFake(completes(`{"created":["viking://resources/w/a.md"],"x":1e999}`))
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		startManager()
		task := end(create(newTask(namespace, runtime.Name)))
		Expect(task.Status.Phase).To(Equal(v1alpha1.CompileTaskCompleted))
		Expect(task.Status.ResultSummary.Warnings).To(ConsistOf(ContainSubstring("can't be kept")))
	})

	It("ends with a note when its Payload is refused", func() {
		fake := startFake(completes(`{"text":"` + strings.Repeat("x y z ", 4096) + `"}`))
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		refusePayloads(namespace)
		startManager()
		task := end(create(newTask(namespace, runtime.Name)))
		Expect(task.Status.Phase).To(Equal(v1alpha1.CompileTaskCompleted))
		Expect(task.Status.ResultPayloadName).To(BeEmpty())
		Expect(task.Status.ResultSummary.Warnings).To(ConsistOf(ContainSubstring("refuses its Payload")))
	})

	It("says nothing of what is to come once it has ended", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		startManager()
		first := create(newTask(namespace, runtime.Name))
		second := create(newTask(namespace, runtime.Name, to(first.Spec.To)))
		Eventually(reasonOf(second, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonTargetBusy))
		cancel(second)
		condition := meta.FindStatusCondition(end(second).Status.Conditions, v1alpha1.ConditionSubmitted)
		Expect(condition.Reason).To(Equal(v1alpha1.ReasonNeverSubmitted))
		Expect(condition.Message).NotTo(ContainSubstring("its turn"))
		Expect(condition.ObservedGeneration).To(Equal(current(second)().Generation))
	})

	It("waits for the runtime, and says so, when the one it waits for a slot of is deleted", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, runtime := newNamespace(), newRuntime(fake.URL, oneAtATime)
		startManager()
		running(create(newTask(namespace, runtime.Name)))
		task := create(newTask(namespace, runtime.Name))
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeBusy))
		Expect(k8s.Delete(context.Background(), runtime)).To(Succeed())
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeNotFound))
	})

	It("is stopped at once on request though its executor asked to be left alone", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady(
			fakeruntime.Fault{Op: fakeruntime.OpStatus, Skip: 1, Respond: fakeruntime.Refuse(429, "RESOURCE_EXHAUSTED", "busy").RetryLater("3600")},
		)})
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		startManager()
		task := running(create(newTask(namespace, runtime.Name)))
		Eventually(reasonOf(task, v1alpha1.ConditionExecutorReachable)).Should(Equal(v1alpha1.ReasonCallFailed))
		cancel(task)
		Expect(endReason(end(task))).To(ContainSubstring(v1alpha1.ReasonCancelledByUser))
	})

	It("costs its executor few calls when there are more tasks than polls can be held", func() {
		const tasks, heldPolls = 320, 256
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace := newNamespace()
		runtime := newRuntime(fake.URL, func(spec *v1alpha1.AgentRuntimeSpec) {
			spec.MaxConcurrentTasks, spec.PollIntervalSeconds = tasks, 60
		})
		startManager()
		for range tasks {
			create(newTask(namespace, runtime.Name))
		}
		var list v1alpha1.CompileTaskList
		Eventually(func() int {
			Expect(k8s.List(context.Background(), &list, client.InNamespace(namespace))).To(Succeed())
			recorded := 0
			for i := range list.Items {
				if list.Items[i].Status.SessionID != "" {
					recorded++
				}
			}
			return recorded
		}, time.Minute, 200*time.Millisecond).Should(Equal(tasks))
		Eventually(fake.Report().Status, 10*time.Second).Should(BeNumerically(">=", heldPolls))
		before := fake.Report().Status
		Consistently(func() int { return fake.Report().Status - before }, 2*time.Second, 100*time.Millisecond).
			Should(BeNumerically("<=", tasks), "each task may be in the middle of its first polls, and none may poll without rest")
	})
})

// refusePayloads makes an admission policy that refuses Payloads in a namespace.
func refusePayloads(namespace string) {
	GinkgoHelper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-payloads-" + namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"payloads"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no Payloads here"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
			}},
		},
	}
	Expect(k8s.Create(context.Background(), policy)).To(Succeed())
	Expect(k8s.Create(context.Background(), binding)).To(Succeed())
	DeferCleanup(func() {
		Expect(k8s.Delete(context.Background(), binding)).To(Succeed())
		Expect(k8s.Delete(context.Background(), policy)).To(Succeed())
	})
	// A policy takes a moment to be in force.
	Eventually(func() error {
		return k8s.Create(context.Background(), &v1alpha1.Payload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-"}})
	}).Should(MatchError(ContainSubstring("no Payloads here")))
}
