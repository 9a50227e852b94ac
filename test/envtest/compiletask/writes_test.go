package compiletask_test

import (
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("What a task costs", Ordered, func() {
	var (
		namespace string
		seen      *writes
	)
	BeforeAll(func() {
		namespace = newNamespace()
		seen = watchWrites(namespace)
		startManager()
	})
	// settled waits until as many writes are seen, and wants no more of them.
	settled := func(task *v1alpha1.CompileTask, tasks int, events ...string) {
		GinkgoHelper()
		end(task)
		Eventually(seen.of(task)).Should(Equal(tasks), func() string { return seen.describe(task) })
		Eventually(seen.reasons(task)).Should(HaveLen(len(events)))
		Consistently(seen.of(task), "200ms").Should(Equal(tasks))
		Expect(seen.reasons(task)()).To(ConsistOf(events))
	}
	given := func(behaviour fakeruntime.Behaviour, options fakeruntime.Options, change ...func(*v1alpha1.AgentRuntimeSpec)) (*fakeruntime.Server, *v1alpha1.CompileTask) {
		GinkgoHelper()
		options.Default = behaviour
		fake := startFake(options)
		art := newRuntime(fake.URL, change...)
		// A task that comes before the manager has seen its runtime waits for it.
		first := newTask(namespace, art.Name)
		fake.On(fakeruntime.To(first.Spec.To), fakeruntime.Behaviour{})
		end(create(first))
		return fake, create(newTask(namespace, art.Name))
	}

	It("is two writes and no event when it is quick", func() {
		_, task := given(fakeruntime.Behaviour{}, fakeruntime.Options{Durable: true})
		settled(task, 2)
	})

	It("is the same when it ends within the first poll", func() {
		_, task := given(fakeruntime.Behaviour{Steps: fakeruntime.Timed(100*time.Millisecond, fakeruntime.Running("compile: agent"), fakeruntime.Running("compile: writing"), fakeruntime.Completed(""))}, fakeruntime.Options{Durable: true})
		settled(task, 2)
	})

	It("is two writes and a warning when it fails quickly", func() {
		_, task := given(fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Failed("X", "y"))}, fakeruntime.Options{Durable: true})
		settled(task, 2, v1alpha1.ReasonExecutorFailed)
	})

	It("is five, one for each further stage, and their events, when it outlives the first poll", func() {
		fake, task := given(steady(), fakeruntime.Options{Durable: true})
		running(task)
		for i := range 2 {
			// Stage changes closer together than a second may be one write.
			stage := fmt.Sprint("compile: part ", i)
			Expect(fake.Set(task.Spec.To, fakeruntime.Running(stage))).To(Succeed())
			Eventually(stageOf(task)).Should(Equal(stage))
		}
		Expect(fake.Set(task.Spec.To, fakeruntime.Completed(""))).To(Succeed())
		settled(task, 7, v1alpha1.ReasonAccepted, "StageChanged", "StageChanged", v1alpha1.ReasonCompleted)
		Expect(seen.stages(task)).To(Equal([]string{"", "compile: agent", "compile: part 0", "compile: part 1", "completed"}))
	})

	It("is five without durable keys", func() {
		_, task := given(fakeruntime.Behaviour{Steps: fakeruntime.Timed(1500*time.Millisecond, fakeruntime.Running("compile: agent"), fakeruntime.Completed(""))}, fakeruntime.Options{}, notDurable)
		end(task)
		Expect(seen.of(task)()).To(BeNumerically("<=", 6), "the first stage may come after the session")
		Expect(seen.versions(task)[1].Finalizers).To(ConsistOf(v1alpha1.FinalizerCancelOnDelete), "on record before the call leaves")
		Expect(seen.versions(task)[1].Status.SessionID).To(BeEmpty())
	})

	It("is no more for an executor that does not hold polls, which is polled", func() {
		fake, task := given(fakeruntime.Behaviour{Steps: fakeruntime.Timed(1500*time.Millisecond, fakeruntime.Running("compile: agent"), fakeruntime.Completed(""))}, fakeruntime.Options{Durable: true, NoHeldPolls: true})
		settled(task, 5, v1alpha1.ReasonAccepted, v1alpha1.ReasonCompleted)
		Expect(fake.Report().Status).To(BeNumerically("<=", 6), "polled about once a second")
	})

	It("is bounded when the stage flaps", func() {
		fake, task := given(steady(), fakeruntime.Options{Durable: true})
		running(task)
		before, began := seen.of(task)(), time.Now()
		const changes = 40
		for i := range changes {
			polls := fake.Report().Status
			Expect(fake.Set(task.Spec.To, fakeruntime.Running(fmt.Sprint("compile: ", i%2)))).To(Succeed())
			Eventually(func() bool {
				return fake.Report().Status > polls || time.Since(began) > time.Duration(i)*50*time.Millisecond
			}, "2s", "5ms").Should(BeTrue())
		}
		Eventually(stageOf(task)).Should(Equal("compile: 1"))
		// About one a second, and one more on either side.
		Expect(seen.of(task)() - before).To(BeNumerically("<=", 3+int(time.Since(began)/time.Second)))
		cancel(task)
		end(task)
	})

	It("is one write and one event for calls that keep failing", func() {
		fake, task := given(steady(), fakeruntime.Options{Durable: true}, func(s *v1alpha1.AgentRuntimeSpec) { s.PollIntervalSeconds = 1 })
		running(task)
		before := seen.of(task)()
		fake.AddFault(fakeruntime.Fault{Op: fakeruntime.OpStatus, Drop: true})
		Expect(fake.Set(task.Spec.To, fakeruntime.Running("compile: writing"))).To(Succeed())
		called(fake, fakeruntime.OpStatus, fake.Report().Status+3)
		Expect(seen.of(task)()-before).To(BeNumerically("<=", 2), "the stage change may come first")
		Eventually(seen.reasons(task)).Should(ContainElement(v1alpha1.ReasonCallFailed))
		fake.ClearFaults()
		Expect(fake.Set(task.Spec.To, fakeruntime.Completed(""))).To(Succeed())
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
	})

	It("is one write for submits that keep failing in changing words", func() {
		fake, first := given(fakeruntime.Behaviour{}, fakeruntime.Options{Durable: true})
		end(first)
		task := newTask(namespace, "")
		var faults []fakeruntime.Fault
		for i := range 4 {
			faults = append(faults, fakeruntime.Fault{Op: fakeruntime.OpCreate, Skip: i, Count: 1, Respond: fakeruntime.Refuse(http.StatusServiceUnavailable, "UNAVAILABLE", fmt.Sprint("try ", i))})
		}
		fake.On(fakeruntime.To(task.Spec.To), fakeruntime.Behaviour{Faults: faults})
		task.Spec.RuntimeName = current(first)().Spec.RuntimeName
		create(task)
		end(task)
		// Created, finalizer, failing, terminal, finalizer off.
		Expect(len(seen.versions(task))).To(BeNumerically("<=", 5), seen.describe(task))
	})
})
