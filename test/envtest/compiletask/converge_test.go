package compiletask_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// outcome is how a task ended.
type outcome struct{ reason, stage, err, result string }

var _ = Describe("Convergence on what the executor says", Ordered, func() {
	var (
		fake      *fakeruntime.Server
		namespace string
		runtime   *v1alpha1.AgentRuntime
		patient   *v1alpha1.AgentRuntime
		ends      *rows[outcome]
		cancels   *rows[string]
	)
	BeforeAll(func() {
		fake = startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, runtime = newNamespace(), newRuntime(fake.URL, impatient)
		patient = newRuntime(fake.URL)
		startManager()
		ends.begin()
		cancels.begin()
	})

	status := func(s runtimeapi.Status, stage string) runtimeapi.TaskStatus {
		return runtimeapi.TaskStatus{Status: s, Stage: stage}
	}
	set := func(s runtimeapi.TaskStatus) func(string) {
		return func(key string) { Expect(fake.Set(key, s)).To(Succeed()) }
	}
	answer := func(code int, body string) func(string) {
		return func(key string) {
			Expect(fake.Fail(key, fakeruntime.Fault{Op: fakeruntime.OpStatus, Respond: &fakeruntime.Response{Status: code, Body: []byte(body)}})).To(Succeed())
			set(status(runtimeapi.StatusRunning, "compile: agent"))(key)
		}
	}
	refuse := func(code int, word string) func(string) {
		return func(key string) {
			Expect(fake.Fail(key, fakeruntime.Fault{Op: fakeruntime.OpStatus, Respond: fakeruntime.Refuse(code, word, "no")})).To(Succeed())
			set(status(runtimeapi.StatusRunning, "compile: agent"))(key)
		}
	}
	withMeta := status(runtimeapi.StatusCompleted, "compile: completed")
	withMeta.Meta = []byte(`{"token_usage":{"total":7}}`)

	ends = newRows("a running task: ", func(row[outcome]) *v1alpha1.CompileTask {
		return create(newTask(namespace, runtime.Name))
	}, func(r row[outcome], task *v1alpha1.CompileTask) {
		r.act(running(task).TaskID())
	}, func(want outcome, task *v1alpha1.CompileTask) {
		now := end(task)
		Expect(endReason(now)).To(Equal(want.reason))
		Expect(now.Status.Stage).To(Equal(want.stage))
		Expect(errorOf(now)).To(Equal(want.err))
		if want.result != "" {
			Expect(string(now.Status.Result.Raw)).To(MatchJSON(want.result))
		} else {
			Expect(now.Status.Result).To(BeNil())
		}
		Expect(now.Status.CompletionTime).NotTo(BeNil())
		Expect(now.Status.StartTime.Time.After(now.Status.CompletionTime.Time)).To(BeFalse())
		requireOneExecution(fake, task)
		for _, call := range fake.Calls(fakeruntime.OpCancel) {
			Expect(string(call.Body)).NotTo(ContainSubstring(`"`+now.Status.SessionID+`"`), "no cancel was asked for")
		}
	},
		row[outcome]{name: "completed", act: set(fakeruntime.Completed(`{"created":["a"]}`)), want: outcome{"Complete/Completed", "completed", "", `{"created":["a"]}`}},
		row[outcome]{name: "completed without a result: its meta", act: set(withMeta), want: outcome{"Complete/Completed", "completed", "", `{"token_usage":{"total":7}}`}},
		row[outcome]{name: "completed without anything: an empty object", act: set(status(runtimeapi.StatusCompleted, "done")), want: outcome{"Complete/Completed", "completed", "", `{}`}},
		row[outcome]{name: "salvaged", act: set(status(runtimeapi.StatusCompleted, "compile: salvaged")), want: outcome{"Complete/Salvaged", "salvaged", "", `{}`}},
		row[outcome]{name: "failed in a stage", act: set(runtimeapi.TaskStatus{Status: runtimeapi.StatusFailed, Stage: "compile: writing", Error: &runtimeapi.Error{Code: "SKILL_INVALID", Message: "bad"}}),
			want: outcome{"Failed/ExecutorFailed", "writing", "SKILL_INVALID: bad", ""}},
		row[outcome]{name: "failed, with the last stage seen", act: set(fakeruntime.Failed("LIMIT", "too much")), want: outcome{"Failed/ExecutorFailed", "agent", "LIMIT: too much", ""}},
		row[outcome]{name: "failed without a reason", act: set(status(runtimeapi.StatusFailed, "compile: failed")), want: outcome{"Failed/ExecutorFailed", "agent", "UNKNOWN: External task failed", ""}},
		row[outcome]{name: "cancelled by itself", act: set(fakeruntime.Cancelled()), want: outcome{"Cancelled/CancelledByExecutor", "cancelled", "", ""}},
		row[outcome]{name: "a lost session", act: func(key string) { Expect(fake.Lose(key)).To(Succeed()) }, want: outcome{"Failed/SessionLost", "agent", "NOT_FOUND: Compile session not found", ""}},
		row[outcome]{name: "401", act: refuse(http.StatusUnauthorized, "UNAUTHENTICATED"), want: outcome{"Failed/Rejected", "agent", "UNAUTHENTICATED: no", ""}},
		row[outcome]{name: "403", act: refuse(http.StatusForbidden, "PERMISSION_DENIED"), want: outcome{"Failed/Rejected", "agent", "PERMISSION_DENIED: no", ""}},
		row[outcome]{name: "503 for too long", act: refuse(http.StatusServiceUnavailable, "UNAVAILABLE"), want: outcome{"Failed/ExecutorUnavailable", "agent", "UNAVAILABLE: no", ""}},
		row[outcome]{name: "no JSON", act: answer(http.StatusOK, "<html>"), want: outcome{"Failed/Rejected", "agent", "INVALID_RESPONSE: the status answer is not a JSON object", ""}},
		row[outcome]{name: "no stage", act: answer(http.StatusOK, `{"status":"running"}`), want: outcome{"Failed/Rejected", "agent", "INVALID_RESPONSE: the status answer has no stage", ""}},
		row[outcome]{name: "an unknown status", act: answer(http.StatusOK, `{"status":"dancing","stage":"x"}`), want: outcome{"Failed/Rejected", "agent", "INVALID_RESPONSE: the status answer has an unknown status", ""}},
		row[outcome]{name: "a redirect", act: answer(http.StatusFound, ``), want: outcome{"Failed/Rejected", "agent", "INVALID_ARGUMENT: Compile API request failed", ""}},
	)

	cancels = newRows("a task that is being cancelled: ", func(r row[string]) *v1alpha1.CompileTask {
		task := newTask(namespace, runtime.Name)
		if r.patient {
			task.Spec.RuntimeName = patient.Name
		}
		fake.On(fakeruntime.To(task.Spec.To), r.behaviour)
		return create(task)
	}, func(r row[string], task *v1alpha1.CompileTask) {
		cancel(running(task))
		if r.act != nil {
			Eventually(func() runtimeapi.Status { s, _ := fake.Status(task.Spec.To); return s.Status }).Should(Equal(runtimeapi.StatusCancelling))
			Expect(current(task)().DerivePhase()).To(Equal(v1alpha1.CompileTaskCancelling))
			r.act(task.TaskID())
		}
	}, func(wantReason string, task *v1alpha1.CompileTask) {
		now := end(task)
		Expect(endReason(now)).To(Equal("Cancelled/" + wantReason))
		Expect(now.Status.Phase).To(Equal(v1alpha1.CompileTaskCancelled))
		Expect(now.Status.Stage).To(Equal("cancelled"))
		Expect(now.Status.Error).To(BeNil())
		Expect(now.Status.Result).To(BeNil())
		requireOneExecution(fake, task)
	},
		row[string]{name: "cancelled at once", behaviour: steady(), want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "cancelling, then cancelled", behaviour: manualCancel(nil), act: func(key string) { Expect(fake.Advance(key)).To(Succeed()) }, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "cancelling for five polls", behaviour: fakeruntime.Behaviour{Steps: steady().Steps, CancelPolls: 5}, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "completed all the same", behaviour: manualCancel(ptrTo(fakeruntime.Completed(`{"created":["a"]}`))), act: func(key string) { Expect(fake.Advance(key)).To(Succeed()) }, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "failed all the same", behaviour: manualCancel(ptrTo(fakeruntime.Failed("X", "y"))), act: func(key string) { Expect(fake.Advance(key)).To(Succeed()) }, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "a session lost meanwhile", behaviour: manualCancel(nil), act: func(key string) { Expect(fake.Lose(key)).To(Succeed()) }, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "a cancel answered 404", behaviour: steady(fakeruntime.Fault{Op: fakeruntime.OpCancel, Respond: fakeruntime.Refuse(http.StatusNotFound, "NOT_FOUND", "who?")}), want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "three refused cancels, then an accepted one", behaviour: fakeruntime.Behaviour{Steps: steady().Steps, CancelPolls: 5, Faults: []fakeruntime.Fault{
			{Op: fakeruntime.OpCancel, Count: 3, Respond: fakeruntime.Refuse(http.StatusServiceUnavailable, "UNAVAILABLE", "later")},
		}}, patient: true, want: v1alpha1.ReasonCancelledByUser},
		row[string]{name: "cancels refused for too long", behaviour: steady(fakeruntime.Fault{Op: fakeruntime.OpCancel, Respond: fakeruntime.Refuse(http.StatusConflict, "CONFLICT", "no")}), want: v1alpha1.ReasonCancelUnconfirmed},
		row[string]{name: "cancels not authenticated for too long", behaviour: steady(fakeruntime.Fault{Op: fakeruntime.OpCancel, Respond: fakeruntime.Refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "no")}), want: v1alpha1.ReasonCancelUnconfirmed},
		row[string]{name: "cancels lost for too long", behaviour: steady(fakeruntime.Fault{Op: fakeruntime.OpCancel, Drop: true}), want: v1alpha1.ReasonCancelUnconfirmed},
	)

	It("follows the executor's stages word for word, and merges its meta", func() {
		task := running(create(newTask(namespace, runtime.Name)))
		step := fakeruntime.Running("Compile: Füße & <b>, part 1/2")
		step.Meta = []byte(`{"token_usage":{"total":1},"model":"m"}`)
		Expect(fake.Set(task.TaskID(), step)).To(Succeed())
		Eventually(stageOf(task)).Should(Equal(step.Stage))
		Expect(string(current(task)().Status.Meta.Raw)).To(MatchJSON(string(step.Meta)))
		last := fakeruntime.Completed(`{}`)
		last.Meta = []byte(`{"token_usage":{"total":2}}`)
		Expect(fake.Set(task.TaskID(), last)).To(Succeed())
		Expect(string(end(task).Status.Meta.Raw)).To(MatchJSON(`{"token_usage":{"total":2},"model":"m"}`))
	})

	It("does not fail a task over the operator's own token", func() {
		task := newTask(namespace, patient.Name)
		refusal := fakeruntime.Refuse(http.StatusForbidden, "PERMISSION_DENIED", "gateway token rejected")
		refusal.Header = http.Header{runtimeapi.HeaderGatewayChallenge: {"true"}}
		fake.On(fakeruntime.To(task.Spec.To), fakeruntime.Behaviour{Faults: []fakeruntime.Fault{
			{Op: fakeruntime.OpCreate, Count: 1, Respond: refusal}, {Op: fakeruntime.OpStatus, Count: 1, Respond: refusal},
		}})
		Expect(endReason(end(create(task)))).To(Equal("Complete/Completed"))
		requireOneExecution(fake, task)
	})

	It("shows failing calls while they fail, and that they get through again", func() {
		task := newTask(namespace, patient.Name)
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{Op: fakeruntime.OpStatus, Skip: 1, Count: 2, Respond: fakeruntime.Refuse(http.StatusBadGateway, "UNAVAILABLE", "gone fishing")}))
		seen := watchWrites(namespace)
		create(task)
		Eventually(reasonOf(task, v1alpha1.ConditionExecutorReachable)).Should(Equal(v1alpha1.ReasonCallFailed))
		Expect(messageOf(task, v1alpha1.ConditionExecutorReachable)()).To(ContainSubstring("UNAVAILABLE: gone fishing"))
		Expect(fake.Set(current(task)().TaskID(), fakeruntime.Running("compile: writing"))).To(Succeed())
		Eventually(reasonOf(task, v1alpha1.ConditionExecutorReachable)).Should(Equal(v1alpha1.ReasonReachable))
		Eventually(seen.reasons(task)).Should(ContainElement(v1alpha1.ReasonCallFailed))
		cancel(task)
		end(task)
	})
})

// manualCancel is the behaviour of a task that stays in cancelling until it is
// told to end, with an end of its own if one is given.
func manualCancel(with *runtimeapi.TaskStatus) fakeruntime.Behaviour {
	behaviour := steady()
	behaviour.CancelManual, behaviour.CancelEnd = true, with
	return behaviour
}

func ptrTo[T any](v T) *T { return &v }
