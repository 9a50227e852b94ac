package compiletask_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("The queue", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		seen      *writes
	)
	BeforeAll(func() { startManager() })
	BeforeEach(func() {
		fake = startFake(fakeruntime.Options{Durable: true, Default: fakeruntime.Behaviour{
			Steps: fakeruntime.Script(fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
		}})
		namespace = newNamespace()
		seen = watchWrites(namespace)
	})
	by := func(user string) func(*v1alpha1.CompileTask) {
		return func(t *v1alpha1.CompileTask) { t.Spec.Requester.Username = user }
	}
	// waits wants a task to wait for its turn, and says so.
	waits := func(task *v1alpha1.CompileTask, reason string) {
		GinkgoHelper()
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(reason))
		Expect(phaseOf(task)()).To(Equal(v1alpha1.CompileTaskPending))
		Expect(stageOf(task)()).To(Equal("queued"))
	}
	// started waits until a task's create call has arrived.
	started := func(task *v1alpha1.CompileTask) {
		GinkgoHelper()
		Eventually(func() map[string]fakeruntime.KeyReport { return fake.Report().Keys }).Should(HaveKey(current(task)().TaskID()))
	}
	notStarted := func(tasks ...*v1alpha1.CompileTask) {
		GinkgoHelper()
		for _, task := range tasks {
			Expect(fake.Report().Keys).NotTo(HaveKey(current(task)().TaskID()))
		}
	}
	finish := func(task *v1alpha1.CompileTask) {
		GinkgoHelper()
		Expect(fake.Advance(current(task)().TaskID())).To(Succeed())
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
	}

	It("runs the tasks of a target one at a time in order, whoever made them; waiting costs one write", func() {
		art := newRuntime(fake.URL)
		var tasks []*v1alpha1.CompileTask
		for i := range 5 {
			tasks = append(tasks, create(newTask(namespace, art.Name, to("viking://resources/shared/"), by(fmt.Sprint("user-", i%2)))))
		}
		for i, task := range tasks {
			started(task)
			for _, later := range tasks[i+1:] {
				waits(later, v1alpha1.ReasonTargetBusy)
			}
			notStarted(tasks[i+1:]...)
			finish(task)
		}
		// Created, waits, claimed for a task that may look as old as another, ended;
		// and finalizer, running and finalizer for one that outlives its first poll.
		for _, task := range tasks[1:] {
			waiting := 0
			for _, version := range seen.versions(task) {
				if version.Status.Stage == "queued" && version.Status.SessionID == "" {
					waiting++
				}
			}
			Expect(waiting).To(BeNumerically("<=", 2), "one write to say that it waits, one at most to claim its turn")
		}
		var order []string
		for _, call := range fake.Calls(fakeruntime.OpCreate) {
			order = append(order, keyOfCall(call))
		}
		var want []string
		for _, task := range tasks {
			want = append(want, current(task)().TaskID())
		}
		Expect(order).To(Equal(want))
		Expect(seen.reasons(tasks[1])()).NotTo(ContainElement(v1alpha1.ReasonTargetBusy), "waiting for one's turn is no event")
	})

	It("writes nothing for a task whose place changes", func() {
		art := newRuntime(fake.URL)
		first := create(newTask(namespace, art.Name))
		started(first)
		second := create(newTask(namespace, art.Name, to(first.Spec.To)))
		waits(second, v1alpha1.ReasonTargetBusy)
		third := create(newTask(namespace, art.Name, to(first.Spec.To)))
		waits(third, v1alpha1.ReasonTargetBusy)
		Eventually(seen.of(third)).Should(Equal(2))
		version := current(third)().ResourceVersion
		finish(first)
		started(second)
		remove(second)
		started(third)
		Expect(seen.versions(third)[1].ResourceVersion).To(Equal(version))
		finish(third)
	})

	It("lets other namespaces use a target of the same name", func() {
		art, other := newRuntime(fake.URL), newNamespace()
		first := create(newTask(namespace, art.Name, to("viking://resources/same")))
		second := create(newTask(other, art.Name, to("viking://resources/same")))
		started(first)
		started(second)
	})

	It("sees one target behind different spellings", func() {
		art := newRuntime(fake.URL)
		first := create(newTask(namespace, art.Name, to("viking://resources/spelt")))
		started(first)
		second := create(newTask(namespace, art.Name, to("viking://resources/spelt/")))
		waits(second, v1alpha1.ReasonTargetBusy)
	})

	It("runs as many as the runtime allows, and more when it allows more", func() {
		art := newRuntime(fake.URL, oneAtATime)
		first := create(newTask(namespace, art.Name))
		started(first)
		second, third := create(newTask(namespace, art.Name)), create(newTask(namespace, art.Name))
		waits(second, v1alpha1.ReasonRuntimeBusy)
		waits(third, v1alpha1.ReasonRuntimeBusy)
		art.Spec.MaxConcurrentTasks = 2
		Expect(k8s.Update(context.Background(), art)).To(Succeed())
		started(second)
		notStarted(third)
		finish(first)
		started(third)
	})

	It("is fair between namespaces", func() {
		art, other := newRuntime(fake.URL, func(s *v1alpha1.AgentRuntimeSpec) { s.MaxConcurrentTasks = 2 }), newNamespace()
		var mine []*v1alpha1.CompileTask
		for range 4 {
			mine = append(mine, create(newTask(namespace, art.Name)))
		}
		started(mine[0])
		started(mine[1])
		waits(mine[3], v1alpha1.ReasonRuntimeBusy)
		theirs := create(newTask(other, art.Name))
		waits(theirs, v1alpha1.ReasonRuntimeBusy)
		finish(mine[0])
		started(theirs)
		notStarted(mine[2], mine[3])
	})

	It("frees a target at once when its task is cancelled or deleted", func() {
		art := newRuntime(fake.URL)
		first := running(create(newTask(namespace, art.Name)))
		second := create(newTask(namespace, art.Name, to(first.Spec.To)))
		waits(second, v1alpha1.ReasonTargetBusy)
		third := create(newTask(namespace, art.Name, to(first.Spec.To)))
		waits(third, v1alpha1.ReasonTargetBusy)
		cancel(first)
		started(second)
		running(second)
		remove(second)
		started(third)
		finish(third)
	})

	It("keeps a suspended task out of the others' way", func() {
		art := newRuntime(fake.URL, oneAtATime)
		idle := create(newTask(namespace, art.Name, suspended))
		waits(idle, v1alpha1.ReasonSuspended)
		busy := create(newTask(namespace, art.Name, to(idle.Spec.To)))
		started(busy)
		patch(idle, `{"spec":{"suspend":false}}`)
		waits(idle, v1alpha1.ReasonTargetBusy)
		finish(busy)
		started(idle)
	})
})
