package compiletask_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("Cancelling and deleting", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		art       *v1alpha1.AgentRuntime
		seen      *writes
	)
	BeforeAll(func() {
		namespace = newNamespace()
		seen = watchWrites(namespace)
		startManager()
	})
	BeforeEach(func() {
		fake = startFake(fakeruntime.Options{Durable: true, Default: steady()})
		art = newRuntime(fake.URL)
	})
	requireCancelled := func(task *v1alpha1.CompileTask) {
		GinkgoHelper()
		now := end(task)
		Expect(endReason(now)).To(Equal("Cancelled/" + v1alpha1.ReasonCancelledByUser))
		Expect(now.Status.Stage).To(Equal("cancelled"))
		Expect(now.Status.Error).To(BeNil())
	}

	It("never calls the executor for a suspended task", func() {
		task := create(newTask(namespace, art.Name, suspended))
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonSuspended))
		cancel(task)
		requireCancelled(task)
		Expect(fake.Calls()).To(BeEmpty())
	})

	It("never calls the executor for one that is created cancelled", func() {
		task := create(newTask(namespace, art.Name, func(t *v1alpha1.CompileTask) { t.Spec.Cancel = true }))
		requireCancelled(task)
		Expect(fake.Calls()).To(BeEmpty())
	})

	It("never calls the executor for one that waits for its target or its runtime", func() {
		first := running(create(newTask(namespace, art.Name)))
		second := create(newTask(namespace, art.Name, to(first.Spec.To)))
		Eventually(reasonOf(second, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonTargetBusy))
		lost := create(newTask(namespace, "no-such-runtime"))
		Eventually(reasonOf(lost, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeNotFound))
		cancel(second)
		cancel(lost)
		requireCancelled(second)
		requireCancelled(lost)
		requireOneExecution(fake, first)
		Expect(phaseOf(first)()).To(Equal(v1alpha1.CompileTaskRunning))
	})

	It("learns the session of a submit whose answer was lost, and cancels it", func() {
		task := newTask(namespace, art.Name)
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Commit: true, Hold: held, Drop: true}))
		create(task)
		called(fake, fakeruntime.OpCreate, 1)
		cancel(task)
		close(held)
		requireCancelled(task)
		requireOneExecution(fake, task)
		Expect(fake.Report().Creates).To(Equal(2))
		Expect(fake.Status(task.Spec.To)).To(HaveField("Status", runtimeapi.StatusCancelled))
	})

	It("ends a task whose submit is refused while it is cancelled", func() {
		task := newTask(namespace, art.Name)
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{
			Op: fakeruntime.OpCreate, Hold: held, Respond: fakeruntime.Refuse(http.StatusBadRequest, "INVALID_ARGUMENT", "no"),
		}))
		create(task)
		called(fake, fakeruntime.OpCreate, 1)
		cancel(task)
		close(held)
		requireCancelled(task)
		Expect(fake.Report().Executions).To(BeZero())
	})

	It("interrupts a held poll", func() {
		task := running(create(newTask(namespace, art.Name)))
		called(fake, fakeruntime.OpStatus, 2)
		cancel(task)
		requireCancelled(task)
		Expect(fake.Report().Cancels).To(Equal(1))
	})

	It("cancels the work of a task that is deleted, and lets it go", func() {
		task := running(create(newTask(namespace, art.Name)))
		Expect(task.Finalizers).To(ConsistOf(v1alpha1.FinalizerCancelOnDelete))
		remove(task)
		Eventually(exists(task)).Should(BeFalse())
		Expect(fake.Status(task.TaskID())).To(HaveField("Status", runtimeapi.StatusCancelled))
		Expect(fake.Report().Cancels).To(Equal(1))
	})

	It("cancels the work of a task that is deleted while it is submitted", func() {
		task := newTask(namespace, art.Name)
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Commit: true, Hold: held}))
		create(task)
		called(fake, fakeruntime.OpCreate, 1)
		remove(task)
		Eventually(exists(task)).Should(BeFalse())
		close(held)
		called(fake, fakeruntime.OpCancel, 1)
		Eventually(func() runtimeapi.Status { s, _ := fake.Status(task.Spec.To); return s.Status }).Should(Equal(runtimeapi.StatusCancelled))
		Expect(fake.Report().Creates).To(Equal(1))
	})

	It("cancels the work of a task that is deleted in its first poll", func() {
		task := create(newTask(namespace, art.Name))
		called(fake, fakeruntime.OpStatus, 1)
		remove(task)
		Eventually(exists(task)).Should(BeFalse())
		called(fake, fakeruntime.OpCancel, 1)
		Eventually(func() runtimeapi.Status { s, _ := fake.Status(task.Spec.To); return s.Status }).Should(Equal(runtimeapi.StatusCancelled))
	})

	It("lets a deleted task go when the executor stays away, with an event", func() {
		art = newRuntime(fake.URL, impatient)
		task := running(create(newTask(namespace, art.Name)))
		fake.AddFault(fakeruntime.Fault{Op: fakeruntime.OpCancel, Drop: true})
		fake.AddFault(fakeruntime.Fault{Op: fakeruntime.OpStatus, Drop: true})
		remove(task)
		called(fake, fakeruntime.OpCancel, 1)
		Eventually(exists(task)).Should(BeFalse())
		Eventually(seen.reasons(task)).Should(ContainElement(v1alpha1.ReasonCancelUnconfirmed))
	})

	It("lets a deleted task go whose runtime went and came back", func() {
		task := running(create(newTask(namespace, art.Name)))
		Expect(k8s.Delete(context.Background(), art)).To(Succeed())
		remove(task)
		// Without a runtime the default bound counts, which is long; it comes back.
		late := art.DeepCopy()
		late.ResourceVersion, late.UID = "", ""
		Expect(k8s.Create(context.Background(), late)).To(Succeed())
		DeferCleanup(func() { Expect(k8s.Delete(context.Background(), late)).To(Succeed()) })
		Eventually(exists(task)).Should(BeFalse())
	})
})

var _ = Describe("Deleting with no manager", func() {
	It("works for tasks that wait and for finished ones", func() {
		fake := startFake(fakeruntime.Options{Durable: true})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		finished := create(newTask(namespace, art.Name))
		waiting := create(newTask(namespace, "no-such-runtime"))
		Eventually(reasonOf(waiting, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeNotFound))
		end(finished)
		stop()
		unseen := create(newTask(namespace, art.Name))
		for _, task := range []*v1alpha1.CompileTask{finished, waiting, unseen} {
			remove(task)
			Expect(exists(task)()).To(BeFalse())
		}
	})
})
