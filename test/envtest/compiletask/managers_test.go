package compiletask_test

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("Restarts and several managers", func() {
	It("continue with the session on record, and never submit again", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		task := running(create(newTask(namespace, art.Name)))
		waiting := create(newTask(namespace, art.Name, to(task.Spec.To)))
		Eventually(reasonOf(waiting, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonTargetBusy))
		stop()
		startManager()
		polls := fake.Report().Status
		called(fake, fakeruntime.OpStatus, polls+1)
		Expect(fake.Report().Keys).NotTo(HaveKey(waiting.TaskID()), "its target is still in use")
		Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		Expect(fake.Report().Keys[task.TaskID()].Creates).To(Equal(1))
		Eventually(func() map[string]fakeruntime.KeyReport { return fake.Report().Keys }).Should(HaveKey(waiting.TaskID()))
	})

	It("find a task whose submit was never recorded under its one key", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		task := create(newTask(namespace, art.Name))
		called(fake, fakeruntime.OpStatus, 1)
		stop()
		Expect(current(task)().Status.SessionID).To(BeEmpty())
		cancel(task)
		startManager()
		Expect(endReason(end(task))).To(Equal("Cancelled/" + v1alpha1.ReasonCancelledByUser))
		requireOneExecution(fake, task)
		Expect(fake.Status(task.TaskID())).To(HaveField("Status", runtimeapi.StatusCancelled), "an earlier process may have begun it")
	})

	It("go on with a cancel", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: manualCancel(nil)})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		task := running(create(newTask(namespace, art.Name)))
		cancel(task)
		called(fake, fakeruntime.OpCancel, 1)
		Eventually(phaseOf(task)).Should(Equal(v1alpha1.CompileTaskCancelling))
		stop()
		startManager()
		called(fake, fakeruntime.OpCancel, 2)
		Expect(phaseOf(task)()).To(Equal(v1alpha1.CompileTaskCancelling))
		Expect(fake.Advance(task.TaskID())).To(Succeed())
		Expect(endReason(end(task))).To(Equal("Cancelled/" + v1alpha1.ReasonCancelledByUser))
		requireOneExecution(fake, task)
	})

	It("go on with a deletion that came in between", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		task := running(create(newTask(namespace, art.Name)))
		stop()
		remove(task)
		Expect(exists(task)()).To(BeTrue())
		startManager()
		Eventually(exists(task)).Should(BeFalse())
		Expect(fake.Status(task.TaskID())).To(HaveField("Status", runtimeapi.StatusCancelled))
	})

	for name, change := range map[string]func(*v1alpha1.AgentRuntimeSpec){"durable": func(*v1alpha1.AgentRuntimeSpec) {}, "forgetful": notDurable} {
		It("never run a task twice on a "+name+" executor, two at once and one coming and going", func() {
			const tasks = 50
			fake := startFake(fakeruntime.Options{Durable: true, LoseAnswerEvery: 7, Default: fakeruntime.Behaviour{
				Steps: fakeruntime.Timed(30e6, fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
			}})
			namespace, art := newNamespace(), newRuntime(fake.URL, change)
			startManager()
			var all []*v1alpha1.CompileTask
			var coming sync.WaitGroup
			coming.Go(func() {
				defer GinkgoRecover()
				for range 3 {
					startManager()()
				}
				startManager()
			})
			for range tasks {
				all = append(all, create(newTask(namespace, art.Name)))
			}
			coming.Wait()
			for _, task := range all {
				Expect(endReason(end(task))).To(Equal("Complete/Completed"))
				requireOneExecution(fake, task)
			}
			Expect(fake.Report().Repeated).To(BeEmpty())
		})
	}

	It("settle a race of a cancel and a completion once", func() {
		const tasks = 20
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		seen := watchWrites(namespace)
		startManager()
		startManager()
		var all []*v1alpha1.CompileTask
		for range tasks {
			all = append(all, create(newTask(namespace, art.Name)))
		}
		for i, task := range all {
			all[i] = running(task)
		}
		var racing sync.WaitGroup
		for _, task := range all {
			racing.Go(func() {
				defer GinkgoRecover()
				cancel(task)
			})
			racing.Go(func() {
				defer GinkgoRecover()
				Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
			})
		}
		racing.Wait()
		for _, task := range all {
			now := end(task)
			Expect(endReason(now)).To(BeElementOf("Complete/Completed", "Cancelled/"+v1alpha1.ReasonCancelledByUser))
			Eventually(func() string {
				versions := seen.versions(task)
				return versions[len(versions)-1].ResourceVersion
			}).Should(Equal(now.ResourceVersion))
			requireForward(seen.versions(task))
			requireOneExecution(fake, task)
		}
	})
})

// requireForward wants a task's states in the order of C.2: no end is left or
// changed, no session is lost, and time moves on.
func requireForward(versions []*v1alpha1.CompileTask) {
	GinkgoHelper()
	for i := 1; i < len(versions); i++ {
		before, after := versions[i-1], versions[i]
		if before.Terminal() {
			Expect(endReason(after)).To(Equal(endReason(before)))
			Expect(after.Status).To(Equal(before.Status))
		}
		if before.Spec.Cancel && !before.Terminal() && after.Terminal() {
			Expect(endReason(after)).To(HavePrefix(v1alpha1.ConditionCancelled), "a completion that races an accepted cancel is discarded")
		}
		if before.Status.SessionID != "" {
			Expect(after.Status.SessionID).To(Equal(before.Status.SessionID))
		}
		if before.Status.UpdateTime != nil {
			Expect(after.Status.UpdateTime.Time.Before(before.Status.UpdateTime.Time)).To(BeFalse())
		}
	}
}
