package compiletask_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("Submitting", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		art       *v1alpha1.AgentRuntime
	)
	BeforeAll(func() {
		namespace = newNamespace()
		startManager()
	})
	BeforeEach(func() {
		fake = startFake(fakeruntime.Options{Durable: true})
		art = newRuntime(fake.URL)
	})

	// given makes a task with a behaviour of its own.
	given := func(behaviour fakeruntime.Behaviour, change ...func(*v1alpha1.CompileTask)) *v1alpha1.CompileTask {
		GinkgoHelper()
		task := newTask(namespace, art.Name, change...)
		fake.On(fakeruntime.To(task.Spec.To), behaviour)
		return create(task)
	}
	creates := func(f fakeruntime.Fault) fakeruntime.Behaviour {
		f.Op = fakeruntime.OpCreate
		return fakeruntime.Behaviour{Faults: []fakeruntime.Fault{f}}
	}

	It("repeats a refused call under the same key", func() {
		task := given(creates(fakeruntime.Fault{Count: 1, Respond: fakeruntime.Refuse(http.StatusServiceUnavailable, "UNAVAILABLE", "later")}))
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
		Expect(fake.Report().Creates).To(Equal(2))
	})

	It("repeats a call whose answer was lost under the same key", func() {
		task := given(creates(fakeruntime.Fault{Count: 1, Commit: true, Drop: true}))
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
		Expect(fake.Report().Keys[current(task)().TaskID()].Creates).To(Equal(2))
	})

	It("waits as long as it is asked to", func() {
		task := given(creates(fakeruntime.Fault{Count: 1, Respond: fakeruntime.Refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "full").RetryLater("1")}))
		end(task)
		calls := fake.Calls(fakeruntime.OpCreate)
		Expect(calls).To(HaveLen(2))
		Expect(calls[1].Time.Sub(calls[0].Time)).To(BeNumerically(">=", time.Second))
		requireOneExecution(fake, task)
	})

	It("fails with the executor's code, and frees the target", func() {
		task := given(creates(fakeruntime.Fault{Respond: fakeruntime.Refuse(http.StatusUnprocessableEntity, "INVALID_ARGUMENT", "args are not supported")}))
		now := end(task)
		Expect(endReason(now)).To(Equal("Failed/Rejected"))
		Expect(errorOf(now)).To(Equal("INVALID_ARGUMENT: args are not supported"))
		Expect(now.Status.Stage).To(Equal("submitting"))
		Expect(fake.Report().Creates).To(Equal(1))
		fake.On(fakeruntime.Any(), fakeruntime.Behaviour{})
		Expect(endReason(end(create(newTask(namespace, art.Name, to(task.Spec.To)))))).To(Equal("Complete/Completed"))
	})

	It("fails as UNAVAILABLE after the bound, without a cancel", func() {
		art = newRuntime(fake.URL, impatient)
		now := end(given(creates(fakeruntime.Fault{Drop: true})))
		Expect(endReason(now)).To(Equal("Failed/ExecutorUnavailable"))
		Expect(errorOf(now)).To(HavePrefix("UNAVAILABLE: Failed to reach the compile kernel service"))
		Expect(now.Status.Stage).To(Equal("submitting"))
		Expect(fake.Report().Cancels).To(BeZero())
	})

	It("sends canonical URIs, the instruction and the arguments", func() {
		task := given(fakeruntime.Behaviour{}, func(t *v1alpha1.CompileTask) {
			t.Spec.From = []string{"viking://resources/docs/", "viking://resources/docs"}
			t.Spec.To += "/{calendar:today}"
			t.Spec.Instruction = "Be brief"
			t.Spec.Args = &runtime.RawExtension{Raw: []byte(`{"big":9007199254740993,"half":1.5,"deep":{"list":[1,"x",null,true]}}`)}
			t.Annotations = map[string]string{v1alpha1.AnnotationRequestID: "req-1"}
		})
		now := end(task)
		day := now.CreationTimestamp.UTC().Format("2006/01/02")
		base := task.Spec.To[:len(task.Spec.To)-len("/{calendar:today}")]
		Expect(now.Status.Canonical).To(Equal(&v1alpha1.CanonicalRequest{
			From: []string{"viking://resources/docs"}, To: base + "/" + day, Skill: "viking://agent/skills/llm-wiki",
		}))
		call := fake.Calls(fakeruntime.OpCreate)[0]
		Expect(string(call.Body)).To(MatchJSON(`{"task_type":"compile","payload":{"from":["viking://resources/docs"],"to":"` + base + "/" + day + `",
			"skill":"viking://agent/skills/llm-wiki","instruction":"Be brief","args":{"big":9007199254740993,"half":1.5,"deep":{"list":[1,"x",null,true]}}}}`))
		Expect(string(call.Body)).To(ContainSubstring("9007199254740993"))
		Expect(keyOfCall(call)).To(Equal(now.Status.TaskID))
		Expect(call.Header.Get(runtimeapi.HeaderLogID)).To(Equal("req-1"))
		Expect(call.Header.Get(runtimeapi.HeaderGatewayToken)).To(BeEmpty())
		Expect(call.Header.Get(runtimeapi.HeaderAPIKey)).To(BeEmpty())
		var status map[string]any
		Expect(json.Unmarshal(fake.Calls(fakeruntime.OpStatus)[0].Body, &status)).To(Succeed())
		Expect(status).To(Equal(map[string]any{"session_id": now.Status.SessionID}))
	})

	It("takes the id from the name that the REST API gives", func() {
		task := given(fakeruntime.Behaviour{}, fromREST)
		Expect(end(task).Status.TaskID).To(Equal("cmp_" + strings.TrimPrefix(task.Name, "cmp-")))
		requireOneExecution(fake, task)
	})

	It("waits for its runtime to come", func() {
		absent := create(newTask(namespace, "not-there-yet"))
		Eventually(reasonOf(absent, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeNotFound))
		Expect(messageOf(absent, v1alpha1.ConditionSubmitted)()).To(ContainSubstring("not-there-yet"))
		Expect(phaseOf(absent)()).To(Equal(v1alpha1.CompileTaskPending))
		Expect(stageOf(absent)()).To(Equal("queued"))
		late := art.DeepCopy()
		late.ObjectMeta = metav1.ObjectMeta{Name: "not-there-yet"}
		Expect(k8s.Create(context.Background(), late)).To(Succeed())
		DeferCleanup(func() { Expect(k8s.Delete(context.Background(), late)).To(Succeed()) })
		Expect(endReason(end(absent))).To(Equal("Complete/Completed"))
	})

	It("binds a task to a late default runtime before it calls it", func() {
		task := newTask(namespace, "")
		held := make(chan struct{})
		fake.On(fakeruntime.To(task.Spec.To), creates(fakeruntime.Fault{Hold: held}))
		create(task)
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonRuntimeNotFound))
		grant(namespace, mayUseRuntimes)
		marked := art.DeepCopy()
		marked.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
		Expect(k8s.Update(context.Background(), marked)).To(Succeed())
		called(fake, fakeruntime.OpCreate, 1)
		now := current(task)()
		Expect(now.Status.RuntimeName).To(Equal(art.Name))
		Expect(now.Status.Phase).To(Equal(v1alpha1.CompileTaskRunning))
		Expect(now.Status.Stage).To(Equal("submitting"))
		close(held)
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
	})

	It("asks whether the requester may use a default runtime", func() {
		elsewhere := newNamespace()
		marked := art.DeepCopy()
		marked.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
		Expect(k8s.Update(context.Background(), marked)).To(Succeed())
		task := create(newTask(elsewhere, ""))
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonNotPermitted))
		Expect(messageOf(task, v1alpha1.ConditionSubmitted)()).To(ContainSubstring(`"alice" may not use AgentRuntime`))
		Expect(fake.Report().Creates).To(BeZero())
		grant(elsewhere, mayUseRuntimes)
		poke(task)
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
	})

	It("holds a suspended task until it is resumed", func() {
		task := given(fakeruntime.Behaviour{}, suspended)
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonSuspended))
		Expect(phaseOf(task)()).To(Equal(v1alpha1.CompileTaskPending))
		patch(task, `{"spec":{"suspend":false}}`)
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
	})

	It("stops a task at its deadline", func() {
		task := given(steady(), func(t *v1alpha1.CompileTask) { t.Spec.ActiveDeadlineSeconds = ptr.To[int32](1) })
		now := end(task)
		Expect(endReason(now)).To(Equal("Failed/DeadlineExceeded"))
		Expect(errorOf(now)).To(HavePrefix("DEADLINE_EXCEEDED: "))
		Expect(now.Status.Stage).To(Equal("agent"))
		Expect(fake.Status(now.TaskID())).To(HaveField("Status", runtimeapi.StatusCancelled))
		requireOneExecution(fake, task)
	})
})
