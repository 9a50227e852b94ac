package compiletask_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("A CompileTask", func() {
	It("that is quick costs two writes and says how it went", func() {
		fake := fakeruntime.Start(fakeruntime.Options{Durable: true, Default: fakeruntime.Behaviour{
			Steps: fakeruntime.Script(fakeruntime.Completed(`{"created":["viking://resources/w/a.md"],"page_count":1,"warnings":["w"]}`)),
		}})
		DeferCleanup(fake.Close)
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		startManager()
		task := create(newTask(namespace, runtime.Name))
		Eventually(phaseOf(task)).Should(Equal(v1alpha1.CompileTaskCompleted))
		now := current(task)()
		out, _ := json.MarshalIndent(now.Status, "", "  ")
		GinkgoWriter.Println(string(out))
		Expect(now.Generation).To(BeEquivalentTo(1))
		Expect(now.Finalizers).To(BeEmpty())
		Expect(now.Status.Stage).To(Equal("completed"))
		Expect(now.Status.ResultSummary.Created).To(BeEquivalentTo(1))
		Expect(fake.Report().Keys).To(HaveKey(now.TaskID()))
	})

	It("that outlives the first poll goes on record, changes stage, and can be cancelled", func() {
		fake := fakeruntime.Start(fakeruntime.Options{Durable: true, Default: fakeruntime.Behaviour{
			Steps: []fakeruntime.Step{{Status: fakeruntime.Running("compile: agent")}, {Manual: true, Status: fakeruntime.Running("compile: writing")}},
		}})
		DeferCleanup(fake.Close)
		namespace, runtime := newNamespace(), newRuntime(fake.URL)
		startManager()
		task := create(newTask(namespace, runtime.Name))
		Eventually(phaseOf(task)).Should(Equal(v1alpha1.CompileTaskRunning))
		Eventually(func() string { return current(task)().Status.Stage }).Should(Equal("compile: agent"))
		Expect(current(task)().Finalizers).To(ContainElement(v1alpha1.FinalizerCancelOnDelete))
		Expect(fake.Advance(current(task)().TaskID())).To(Succeed())
		Eventually(func() string { return current(task)().Status.Stage }).Should(Equal("compile: writing"))
		now := current(task)()
		now.Spec.Cancel = true
		Expect(k8s.Update(context.Background(), now)).To(Succeed())
		Eventually(phaseOf(task)).Should(Equal(v1alpha1.CompileTaskCancelled))
		Eventually(func() []string { return current(task)().Finalizers }, 2*time.Second).Should(BeEmpty())
		out, _ := json.MarshalIndent(current(task)().Status, "", "  ")
		GinkgoWriter.Println(string(out))
	})
})
