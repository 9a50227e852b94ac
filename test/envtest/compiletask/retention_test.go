package compiletask_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("Retention", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		art       *v1alpha1.AgentRuntime
	)
	BeforeAll(func() {
		fake = startFake(fakeruntime.Options{Durable: true})
		namespace, art = newNamespace(), newRuntime(fake.URL)
		startManager()
	})
	ttl := func(finished, failed *int32) func(*v1alpha1.CompileTask) {
		return func(t *v1alpha1.CompileTask) {
			t.Spec.TTLSecondsAfterFinished, t.Spec.TTLSecondsAfterFailed = finished, failed
		}
	}
	failing := func(t *v1alpha1.CompileTask) {
		fake.On(fakeruntime.To(t.Spec.To), fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Failed("X", "y"))})
	}
	// The watch shows what a read after the deletion can't.
	endedThenGone := func(change ...func(*v1alpha1.CompileTask)) time.Duration {
		GinkgoHelper()
		seen := watchWrites(namespace)
		task := create(newTask(namespace, art.Name, change...))
		Eventually(exists(task)).Should(BeFalse())
		gone := time.Now()
		var last *v1alpha1.CompileTask
		Eventually(func() bool {
			all := seen.versions(task)
			if len(all) > 0 {
				last = all[len(all)-1]
			}
			return last != nil && last.Terminal()
		}).Should(BeTrue())
		return gone.Sub(last.Status.CompletionTime.Time)
	}

	It("of 0 deletes a task at its end", func() {
		endedThenGone(ttl(ptr.To[int32](0), nil))
	})
	It("of a second deletes a task a second after its end", func() {
		Expect(endedThenGone(ttl(ptr.To[int32](1), nil))).To(BeNumerically(">=", time.Second))
	})
	It("of its own for failed tasks takes the place of the other", func() {
		endedThenGone(ttl(ptr.To[int32](3600), ptr.To[int32](0)), failing)
		kept := end(create(newTask(namespace, art.Name, ttl(ptr.To[int32](0), ptr.To[int32](3600)), failing)))
		Consistently(exists(kept)).Should(BeTrue())
	})
	It("without a TTL keeps a task, until it is given one", func() {
		kept := end(create(newTask(namespace, art.Name)))
		Consistently(exists(kept)).Should(BeTrue())
		patch(kept, `{"spec":{"ttlSecondsAfterFinished":0}}`)
		Eventually(exists(kept)).Should(BeFalse())
	})
	It("is made up for after a restart", func() {
		clock := &shiftedClock{}
		stop := startManager(withClock(clock))
		kept := end(create(newTask(namespace, art.Name, ttl(ptr.To[int32](3600), nil))))
		stop()
		clock.shift(2 * time.Hour)
		startManager(withClock(clock))
		Eventually(exists(kept)).Should(BeFalse())
	})
})
