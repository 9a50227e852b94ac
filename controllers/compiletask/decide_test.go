package compiletask

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// The moments of the decision tables: the task was submitted an hour ago.
var (
	tableNow = epoch.Add(24 * time.Hour)
	began    = tableNow.Add(-time.Hour)
)

// why says why a task is to stop, if it is.
type why string

const (
	whyNot      why = "running"
	whyCancel   why = "cancelling"
	whyDeleted  why = "deleting"
	whyDeadline why = "overdue"
)

var (
	every    = []why{whyNot, whyCancel, whyDeleted, whyDeadline}
	stopped  = []why{whyCancel, whyDeleted, whyDeadline}
	unwanted = []why{whyCancel, whyDeleted}
)

// fixture is a task that is on record with an executor.
func fixture(reason why, change ...func(*input)) input {
	task := &v1alpha1.CompileTask{}
	task.Name, task.Namespace, task.UID = "t", "ns", "uid"
	task.Finalizers = []string{v1alpha1.FinalizerCancelOnDelete}
	task.Status = v1alpha1.CompileTaskStatus{
		SessionID: "s1", Stage: "compile: agent", RuntimeName: "r", StartTime: &metav1.MicroTime{Time: began},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSubmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted}},
	}
	switch reason {
	case whyCancel:
		task.Spec.Cancel = true
	case whyDeleted:
		task.DeletionTimestamp = &metav1.Time{Time: tableNow.Add(-time.Second)}
	case whyDeadline:
		task.Spec.ActiveDeadlineSeconds = ptr.To[int32](60)
	}
	task.Status.Phase = task.DerivePhase()
	in := input{
		task: task, now: tableNow, slot: true,
		settings: settings{durable: true, unavailableAfter: 10 * time.Minute, giveUpAfter: 5 * time.Minute, pollEvery: 3 * time.Second, hold: 30 * time.Second},
		view:     view{session: "s1", started: began, cancelBegan: tableNow.Add(-time.Second)},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

func seen(o executor.Observation) func(*input) {
	return func(in *input) {
		in.view.observed = &o
		in.view.polledAt = tableNow
		if !o.State.Terminal() {
			in.view.lastStage = o.Stage
		}
	}
}

func cancelSent(in *input) { in.view.cancelSent = true }

func mayHaveBegun(in *input) { in.view.mayHaveBegun = true }

func unsubmitted(in *input) {
	in.view = view{}
	in.task.Status = v1alpha1.CompileTaskStatus{}
	in.task.Finalizers = nil
	in.task.Status.Phase = in.task.DerivePhase()
}

// failing is a call that has failed for some time; its retry is due.
func failing(err *executor.Error, since time.Duration) func(*input) {
	return func(in *input) {
		in.view.failure, in.view.failedOp = err, operation(err.Op)
		in.view.failingSince = tableNow.Add(-since)
		in.view.cancelBegan = tableNow.Add(-since)
	}
}

func httpError(op string, status int, code string) *executor.Error {
	return &executor.Error{Op: op, HTTPStatus: status, Code: code, Message: "because", Transient: status == 408 || status == 425 || status == 429 || status >= 500}
}

func network(op string) *executor.Error {
	return &executor.Error{Op: op, Code: runtimeapi.CodeUnavailable, Message: "because", Transient: true}
}

// wantEnd is the part of an end that the tables state.
type wantEnd struct{ Condition, Reason, Stage, Error string }

func endOfDecision(d decision) *wantEnd {
	if d.end == nil {
		return nil
	}
	w := &wantEnd{Condition: d.end.condition, Reason: d.end.reason, Stage: d.end.stage}
	if d.end.err != nil {
		w.Error = d.end.err.Code + ": " + d.end.err.Message
	}
	return w
}

func cancelledEnd(reason string) *wantEnd {
	return &wantEnd{v1alpha1.ConditionCancelled, reason, v1alpha1.StageCancelled, ""}
}

func failedEnd(reason, stage, text string) *wantEnd {
	return &wantEnd{v1alpha1.ConditionFailed, reason, stage, text}
}

var (
	userCancel  = cancelledEnd(v1alpha1.ReasonCancelledByUser)
	unconfirmed = cancelledEnd(v1alpha1.ReasonCancelUnconfirmed)
	completeEnd = &wantEnd{v1alpha1.ConditionComplete, v1alpha1.ReasonCompleted, v1alpha1.StageCompleted, ""}
	deadlineEnd = failedEnd(v1alpha1.ReasonDeadlineExceeded, "agent", "DEADLINE_EXCEEDED: The task ran longer than activeDeadlineSeconds and was stopped")
)

// row is what is known of a task and what follows from it, for each reason to stop.
type row struct {
	change []func(*input)
	in     []why
	end    *wantEnd
	call   operation
}

// TestDecideByReport has the rows of E.2.5 with the stage rules of C.3 and H.7.
func TestDecideByReport(t *testing.T) {
	running := seen(executor.Observation{State: executor.StateRunning, Stage: "compile: agent"})
	stopping := seen(executor.Observation{State: executor.StateCancelling, Stage: "compile: agent"})
	completed := seen(executor.Observation{State: executor.StateCompleted, Stage: "compile: completed", Result: json.RawMessage(`{"a":1}`)})
	salvaged := seen(executor.Observation{State: executor.StateCompleted, Stage: "compile: salvaged"})
	failure := &runtimeapi.Error{Code: "SKILL_INVALID", Message: "no skill"}
	failed := seen(executor.Observation{State: executor.StateFailed, Stage: "compile: writing", Error: failure})
	onlyFailed := seen(executor.Observation{State: executor.StateFailed, Stage: "compile: failed", Error: failure})
	cancelled := seen(executor.Observation{State: executor.StateCancelled, Stage: "cancelled"})
	table := map[string][]row{
		"running is polled on, or asked to stop": {
			{change: []func(*input){running}, in: []why{whyNot}, call: opPoll},
			{change: []func(*input){running}, in: stopped, call: opCancel},
			{change: []func(*input){running, cancelSent}, in: stopped, call: opPoll},
		},
		"cancelling is polled on": {
			{change: []func(*input){stopping}, in: []why{whyNot}, call: opPoll},
			{change: []func(*input){stopping, cancelSent}, in: stopped, call: opPoll},
		},
		"completed completes, unless a cancel was accepted": {
			{change: []func(*input){completed}, in: []why{whyNot, whyDeleted, whyDeadline}, end: completeEnd},
			{change: []func(*input){completed}, in: []why{whyCancel}, end: userCancel},
			{change: []func(*input){completed, cancelSent}, in: []why{whyCancel}, end: userCancel},
		},
		"salvaged completes with that reason and stage": {
			{change: []func(*input){salvaged}, in: []why{whyNot}, end: &wantEnd{v1alpha1.ConditionComplete, v1alpha1.ReasonSalvaged, v1alpha1.StageSalvaged, ""}},
			{change: []func(*input){salvaged}, in: []why{whyCancel}, end: userCancel},
		},
		"failed fails in the executor's stage": {
			{change: []func(*input){failed}, in: []why{whyNot, whyDeleted, whyDeadline}, end: failedEnd(v1alpha1.ReasonExecutorFailed, "writing", "SKILL_INVALID: no skill")},
			{change: []func(*input){failed}, in: []why{whyCancel}, end: userCancel},
		},
		"failed without a stage of its own fails in the last one": {
			{change: []func(*input){onlyFailed}, in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonExecutorFailed, "agent", "SKILL_INVALID: no skill")},
		},
		"failed without a reason is UNKNOWN": {
			{change: []func(*input){seen(executor.Observation{State: executor.StateFailed})}, in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonExecutorFailed, "agent", "UNKNOWN: External task failed")},
		},
		"cancelled is cancelled, whoever asked": {
			{change: []func(*input){cancelled}, in: []why{whyNot}, end: cancelledEnd(v1alpha1.ReasonCancelledByExecutor)},
			{change: []func(*input){cancelled}, in: unwanted, end: userCancel},
			{change: []func(*input){cancelled}, in: []why{whyDeadline}, end: deadlineEnd},
		},
	}
	runTable(t, table)
}

// TestDecideByFailure has the rows of E.2.3, E.2.4 and of E.2.5's failed calls.
func TestDecideByFailure(t *testing.T) {
	table := map[string][]row{
		"a lost session": {
			{change: with(failing(httpError("poll", 404, "NOT_FOUND"), 0)), in: []why{whyNot, whyDeadline}, end: failedEnd(v1alpha1.ReasonSessionLost, "agent", "NOT_FOUND: because")},
			{change: with(failing(httpError("poll", 404, "NOT_FOUND"), 0)), in: unwanted, end: userCancel},
			{change: with(failing(httpError("cancel", 404, "NOT_FOUND"), 0)), in: unwanted, end: userCancel},
		},
		"a refused credential": {
			{change: with(failing(httpError("poll", 401, "UNAUTHENTICATED"), 0)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonRejected, "agent", "UNAUTHENTICATED: because")},
			{change: with(failing(httpError("poll", 403, "PERMISSION_DENIED"), 0)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonRejected, "agent", "PERMISSION_DENIED: because")},
			{change: with(failing(httpError("poll", 401, "UNAUTHENTICATED"), time.Minute)), in: unwanted, call: opCancel},
			{change: with(failing(httpError("cancel", 403, "PERMISSION_DENIED"), time.Minute)), in: unwanted, call: opCancel},
			{change: with(failing(httpError("cancel", 403, "PERMISSION_DENIED"), 5*time.Minute)), in: unwanted, end: unconfirmed},
		},
		"a cancel that is refused is repeated until the bound": {
			{change: with(failing(httpError("cancel", 409, "CONFLICT"), 4*time.Minute)), in: unwanted, call: opCancel},
			{change: with(failing(httpError("cancel", 409, "CONFLICT"), 5*time.Minute)), in: unwanted, end: unconfirmed},
		},
		"a submit that was refused": {
			{change: with(unsubmitted, failing(httpError("submit", 422, "INVALID_ARGUMENT"), 0)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonRejected, v1alpha1.StageSubmitting, "INVALID_ARGUMENT: because")},
			{change: with(unsubmitted, failing(httpError("submit", 404, "NOT_FOUND"), 0)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonRejected, v1alpha1.StageSubmitting, "NOT_FOUND: because")},
			{change: with(unsubmitted, failing(httpError("submit", 422, "INVALID_ARGUMENT"), 0)), in: unwanted, end: userCancel},
		},
		"an answer that breaks the protocol": {
			{change: with(failing(&executor.Error{Op: "poll", HTTPStatus: 200, Code: "INVALID_RESPONSE", Message: "because"}, 0)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonRejected, "agent", "INVALID_RESPONSE: because")},
		},
	}
	for _, status := range []int{0, 408, 425, 429, 500, 502, 503, 504} {
		failed := func(op string) *executor.Error {
			if status == 0 {
				return network(op)
			}
			return httpError(op, status, "UNAVAILABLE")
		}
		name := "a failure that may pass, status " + time.Duration(status).String()
		table[name] = []row{
			{change: with(failing(failed("poll"), 9*time.Minute)), in: []why{whyNot}, call: opPoll},
			{change: with(failing(failed("poll"), 10*time.Minute)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonExecutorUnavailable, "agent", "UNAVAILABLE: because")},
			{change: with(failing(failed("poll"), 0)), in: []why{whyDeadline}, end: failedEnd(v1alpha1.ReasonExecutorUnavailable, "agent", "UNAVAILABLE: because")},
			{change: with(failing(failed("cancel"), 4*time.Minute)), in: unwanted, call: opCancel},
			{change: with(failing(failed("cancel"), 5*time.Minute)), in: unwanted, end: unconfirmed},
			{change: with(unsubmitted, failing(failed("submit"), time.Minute), mayHaveBegun), in: []why{whyNot, whyCancel, whyDeleted}, call: opSubmit},
			{change: with(unsubmitted, failing(failed("submit"), 10*time.Minute)), in: []why{whyNot}, end: failedEnd(v1alpha1.ReasonExecutorUnavailable, v1alpha1.StageSubmitting, "UNAVAILABLE: because")},
			{change: with(unsubmitted, failing(failed("submit"), 5*time.Minute), mayHaveBegun), in: unwanted, end: unconfirmed},
		}
	}
	runTable(t, table)
}

// TestDecideOverdue has a task past its deadline: like one that its user cancelled
// it is not let go of before the executor has stopped it, or was asked for long
// enough.
func TestDecideOverdue(t *testing.T) {
	late := func(text string) *wantEnd { return failedEnd(v1alpha1.ReasonDeadlineExceeded, "agent", text) }
	const overdue = "DEADLINE_EXCEEDED: The task ran longer than activeDeadlineSeconds"
	table := map[string][]row{
		"a cancel that fails is repeated": {
			{change: with(failing(httpError("cancel", 503, runtimeapi.CodeUnavailable), time.Minute)), in: []why{whyDeadline}, call: opCancel},
			{change: with(failing(httpError("cancel", 400, runtimeapi.CodeInvalidArgument), time.Minute)), in: []why{whyDeadline}, call: opCancel},
		},
		"until it has been repeated for long enough": {
			{change: with(failing(httpError("cancel", 503, runtimeapi.CodeUnavailable), 5*time.Minute)), in: []why{whyDeadline},
				end: late(overdue + ". The executor did not confirm the cancel in time; its last answer was UNAVAILABLE: because; the work may still run")},
		},
		"a session that is gone has nothing left to stop": {
			{change: with(failing(httpError("cancel", 404, runtimeapi.CodeNotFound), 0)), in: []why{whyDeadline},
				end: late(overdue + "; the executor no longer knows the session")},
		},
	}
	runTable(t, table)
}

// TestDecideEndsARefusedSubmit has a cancel of a task that the executor has no room
// for: where no create call can have begun anything, nothing is left to stop.
func TestDecideEndsARefusedSubmit(t *testing.T) {
	full := httpError("submit", 429, runtimeapi.CodeResourceExhausted)
	table := map[string][]row{
		"no create call can have begun it": {
			{change: with(unsubmitted, failing(full, 0)), in: []why{whyCancel, whyDeleted}, end: userCancel},
			{change: with(unsubmitted, failing(full, 0)), in: []why{whyNot}, call: opSubmit},
		},
		"an earlier one may have": {
			{change: with(unsubmitted, failing(full, 0), mayHaveBegun), in: []why{whyCancel, whyDeleted}, call: opSubmit},
		},
		"a refusal for good says that none has": {
			{change: with(unsubmitted, failing(httpError("submit", 400, runtimeapi.CodeInvalidArgument), 0), mayHaveBegun), in: []why{whyCancel, whyDeleted}, end: userCancel},
		},
		"a failure of another kind may have": {
			{change: with(unsubmitted, failing(httpError("submit", 503, runtimeapi.CodeUnavailable), 0)), in: []why{whyCancel, whyDeleted}, call: opSubmit},
		},
	}
	runTable(t, table)
}

// TestDecideCalls has the order of calls of E.2.4 and E.2.6.
func TestDecideCalls(t *testing.T) {
	table := map[string][]row{
		"what is not submitted is submitted, to learn the session of one that is to stop too": {
			{change: with(unsubmitted), in: every, call: opSubmit},
		},
		"a session of an earlier process is polled, or cancelled": {
			{change: with(func(in *input) { in.view = view{} }), in: []why{whyNot}, call: opPoll},
			{change: with(func(in *input) { in.view = view{} }), in: stopped, call: opCancel},
		},
		"a call under way is waited for": {
			{change: with(func(in *input) { in.view.calling = opPoll }), in: every},
			{change: with(func(in *input) { in.view.calling = opCancel }), in: every},
			{change: with(unsubmitted, func(in *input) { in.view.calling = opSubmit }), in: every},
		},
		"a failed call is not repeated before its time": {
			{change: with(failing(network("poll"), 0), func(in *input) { in.view.notBefore = tableNow.Add(time.Second) }), in: []why{whyNot}},
			{change: with(failing(network("cancel"), 0), func(in *input) { in.view.notBefore = tableNow.Add(time.Second) }), in: stopped},
			{change: with(unsubmitted, failing(network("submit"), 0), func(in *input) { in.view.notBefore = tableNow.Add(time.Second) }), in: []why{whyNot, whyCancel, whyDeleted}},
			{change: with(failing(&executor.Error{Op: "credential", Transient: true}, 0), func(in *input) { in.view.notBefore = tableNow.Add(time.Second) }), in: []why{whyNot, whyCancel, whyDeleted}},
		},
		"a first cancel does not wait for what a poll has to wait for": {
			{change: with(failing(httpError("poll", 429, runtimeapi.CodeResourceExhausted), 0), func(in *input) { in.view.notBefore = tableNow.Add(time.Hour) }), in: []why{whyCancel, whyDeleted}, call: opCancel},
		},
		"with every slot for held polls taken, a task is polled on a timer": {
			{change: with(func(in *input) { in.slot, in.view.polledAt = false, tableNow.Add(-time.Second) }), in: []why{whyNot}},
			{change: with(func(in *input) { in.slot, in.view.polledAt = false, tableNow.Add(-3*time.Second) }), in: []why{whyNot}, call: opPoll},
		},
		"a poll that is not held waits for its time": {
			{change: with(func(in *input) { in.settings.hold, in.view.polledAt = 0, tableNow.Add(-time.Second) }), in: []why{whyNot}},
			{change: with(func(in *input) { in.settings.hold, in.view.polledAt = 0, tableNow.Add(-3*time.Second) }), in: []why{whyNot}, call: opPoll},
			{change: with(func(in *input) { in.view.holdRefused, in.view.polledAt = true, tableNow.Add(-time.Second) }), in: []why{whyNot}},
			{change: with(func(in *input) { in.settings.hold, in.view.polledAt = 0, tableNow }), in: stopped, call: opCancel},
		},
		"the finalizer gives up": {
			{change: with(func(in *input) {
				in.task.DeletionTimestamp = &metav1.Time{Time: tableNow.Add(-5 * time.Minute)}
				in.view.cancelSent, in.view.cancelBegan = true, tableNow.Add(-5*time.Minute)
			}), in: []why{whyDeleted}, end: unconfirmed},
			// A manager that comes late asks the executor to stop before it gives up.
			{change: with(func(in *input) {
				in.task.DeletionTimestamp = &metav1.Time{Time: tableNow.Add(-time.Hour)}
			}), in: []why{whyDeleted}, call: opCancel},
		},
	}
	runTable(t, table)
}

func with(changes ...func(*input)) []func(*input) { return changes }

func runTable(t *testing.T, table map[string][]row) {
	t.Helper()
	for name, rows := range table {
		t.Run(name, func(t *testing.T) {
			for i, r := range rows {
				for _, reason := range r.in {
					d := decide(fixture(reason, r.change...))
					if diff := cmp.Diff(r.end, endOfDecision(d)); diff != "" {
						t.Errorf("row %d, %s: end (-want +got):\n%s", i, reason, diff)
					}
					if d.end == nil && d.call != r.call {
						t.Errorf("row %d, %s: call %q, want %q", i, reason, d.call, r.call)
					}
					if d.end == nil && d.call == "" && d.after <= 0 && fixture(reason, r.change...).view.calling == "" {
						t.Errorf("row %d, %s: nothing is called and nothing wakes the task", i, reason)
					}
				}
			}
		})
	}
}

func TestDecideInterruptsWhatIsInTheWayOfACancel(t *testing.T) {
	for _, reason := range every {
		for _, op := range []operation{opSubmit, opPoll, opCancel} {
			for _, sent := range []bool{false, true} {
				d := decide(fixture(reason, func(in *input) { in.view.calling, in.view.cancelSent = op, sent }))
				want := reason != whyNot && op != opCancel && !sent
				if d.interrupt != want {
					t.Errorf("%s, calling %s, cancel sent %v: interrupt %v, want %v", reason, op, sent, d.interrupt, want)
				}
			}
		}
	}
}

func TestDecideHolds(t *testing.T) {
	observed := executor.Observation{State: executor.StateRunning, Stage: "compile: agent", ETag: `"1"`}
	cases := map[string]struct {
		change   func(*input)
		wantHold time.Duration
		wantETag string
	}{
		"the first poll has no state to compare with":  {func(*input) {}, 30 * time.Second, ""},
		"later ones answer at the next change":         {seen(observed), 30 * time.Second, `"1"`},
		"right after a write only the end is of use":   {func(in *input) { seen(observed)(in); in.view.wroteAt = tableNow.Add(-time.Millisecond) }, coalesce, ""},
		"not asked where the runtime does not hold":    {func(in *input) { in.settings.hold = 0 }, 0, ""},
		"not asked again of one that answered at once": {func(in *input) { in.view.holdRefused = true }, 0, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(fixture(whyNot, test.change))
			if d.call == opPoll && (d.hold != test.wantHold || d.etag != test.wantETag) {
				t.Fatalf("poll held %s with ETag %q, want %s and %q", d.hold, d.etag, test.wantHold, test.wantETag)
			}
			if d.call != opPoll {
				t.Fatalf("call %q, want a poll", d.call)
			}
		})
	}
}

func TestDecideLooksAgainWhenABoundPasses(t *testing.T) {
	poll := func(in *input) { in.view.calling = opPoll }
	deadline := func(in *input) { in.task.Spec.ActiveDeadlineSeconds = ptr.To[int32](3660) }
	deleted := func(in *input) {
		in.task.DeletionTimestamp = &metav1.Time{Time: tableNow.Add(-4 * time.Minute)}
		in.view.cancelBegan = tableNow.Add(-4 * time.Minute)
	}
	cases := map[string]struct {
		change []func(*input)
		want   time.Duration
	}{
		"nothing to wait for":                {with(poll), 0},
		"the deadline":                       {with(poll, deadline), time.Minute},
		"the finalizer's bound":              {with(poll, deleted), time.Minute},
		"the sooner of both":                 {with(poll, deadline, deleted, func(in *input) { in.task.Spec.ActiveDeadlineSeconds = ptr.To[int32](3601) }), time.Second},
		"a retry":                            {with(failing(network("poll"), 0), func(in *input) { in.view.notBefore = tableNow.Add(2 * time.Second) }), 2 * time.Second},
		"a retry after the deadline":         {with(failing(network("poll"), 0), deadline, func(in *input) { in.view.notBefore = tableNow.Add(time.Hour) }), time.Minute},
		"the deadline of one not yet begun":  {with(unsubmitted, deadline, func(in *input) { in.view.calling = opSubmit }), 0},
		"the end of failing calls":           {with(failing(network("poll"), 9*time.Minute), func(in *input) { in.view.notBefore = tableNow.Add(time.Hour) }), time.Minute},
		"a deadline by this process's start": {with(poll, deadline, func(in *input) { in.task.Status.StartTime = nil }), time.Minute},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := decide(fixture(whyNot, test.change...)).after; got != test.want {
				t.Fatalf("looks again after %s, want %s", got, test.want)
			}
		})
	}
}

func TestDecideCountsTheDeadlineFromTheFirstFailedSubmit(t *testing.T) {
	in := fixture(whyDeadline, unsubmitted, failing(network("submit"), 2*time.Minute))
	if got := endOfDecision(decide(in)); got == nil || got.Reason != v1alpha1.ReasonExecutorUnavailable {
		t.Fatalf("end %v, want UNAVAILABLE past the deadline", got)
	}
}

func TestDecideRecords(t *testing.T) {
	unreachable := func(status metav1.ConditionStatus) func(*input) {
		return func(in *input) {
			in.task.Status.Conditions = append(in.task.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionExecutorReachable, Status: status, Reason: v1alpha1.ReasonCallFailed})
		}
	}
	submittingOnRecord := func(in *input) {
		in.task.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSubmitted, Status: metav1.ConditionUnknown}}
		in.task.Status.Phase = v1alpha1.CompileTaskRunning
	}
	sameStage := seen(executor.Observation{State: executor.StateRunning, Stage: "compile: agent"})
	unrecorded := func(in *input) { in.task.Status.SessionID = "" }
	calling := func(in *input) { in.view.calling = opPoll }
	cases := map[string]struct {
		why    why
		change []func(*input)
		want   bool
	}{
		"nothing new":                           {whyNot, with(sameStage), false},
		"a new stage":                           {whyNot, with(seen(executor.Observation{State: executor.StateRunning, Stage: "compile: writing"})), true},
		"an empty stage says nothing":           {whyNot, with(seen(executor.Observation{State: executor.StateRunning})), false},
		"new meta":                              {whyNot, with(seen(executor.Observation{State: executor.StateRunning, Stage: "compile: agent", Meta: json.RawMessage(`{"a":1}`)})), true},
		"the same meta":                         {whyNot, with(seen(executor.Observation{State: executor.StateRunning, Stage: "compile: agent", Meta: json.RawMessage(`{"a":{"c":1,"b":2}}`)}), func(in *input) { in.task.Status.Meta = &runtime.RawExtension{Raw: []byte(`{"a":{"b":2,"c":1},"z":0}`)} }), false},
		"a session that is not on record":       {whyNot, with(unrecorded), true},
		"one whose first poll may bring an end": {whyNot, with(unrecorded, calling), false},
		"that, without durable keys":            {whyNot, with(unrecorded, calling, func(in *input) { in.settings.durable = false }), true},
		"the first failure":                     {whyNot, with(failing(network("poll"), 0)), true},
		"the second failure":                    {whyNot, with(failing(network("poll"), 0), unreachable(metav1.ConditionFalse)), false},
		"the first failure of a submit":         {whyNot, with(unsubmitted, failing(network("submit"), 0)), true},
		"the second failure of a submit":        {whyNot, with(unsubmitted, failing(network("submit"), 0), submittingOnRecord, unreachable(metav1.ConditionFalse)), false},
		"the first failure of a claimed submit": {whyNot, with(unsubmitted, failing(network("submit"), 0), submittingOnRecord), true},
		"a cancel while a submit fails":         {whyCancel, with(unsubmitted, failing(network("submit"), 0), submittingOnRecord, unreachable(metav1.ConditionFalse)), true},
		"calls get through again":               {whyNot, with(sameStage, unreachable(metav1.ConditionFalse)), true},
		"they still do":                         {whyNot, with(sameStage, unreachable(metav1.ConditionTrue)), false},
		"a cancel that does not show":           {whyCancel, with(sameStage, func(in *input) { in.task.Status.Phase = v1alpha1.CompileTaskRunning }), true},
		"a cancel that shows":                   {whyCancel, with(sameStage), false},
		"a cancel while calls fail":             {whyCancel, with(failing(network("poll"), 0), unreachable(metav1.ConditionFalse), func(in *input) { in.task.Status.Phase = v1alpha1.CompileTaskRunning }), true},
		"a cancel after calls got through":      {whyCancel, with(sameStage, unreachable(metav1.ConditionTrue), func(in *input) { in.task.Status.Phase = v1alpha1.CompileTaskRunning }), true},
		"a deadline changes no phase":           {whyDeadline, with(sameStage), false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := decide(fixture(test.why, test.change...)).record; got != test.want {
				t.Fatalf("record %v, want %v", got, test.want)
			}
		})
	}
}

func TestResultOfAnObservation(t *testing.T) {
	cases := map[string]struct{ result, meta, want string }{
		"the result":             {`{"a":1}`, `{"b":2}`, `{"a":1}`},
		"else the meta":          {`{}`, `{"b":2}`, `{"b":2}`},
		"null counts as nothing": {`null`, `{"b":2}`, `{"b":2}`},
		"else an empty object":   {``, ``, `{}`},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got := resultOf(&executor.Observation{Result: json.RawMessage(test.result), Meta: json.RawMessage(test.meta)})
			if string(got) != test.want {
				t.Fatalf("result %s, want %s", got, test.want)
			}
		})
	}
}

func TestFailedStage(t *testing.T) {
	cases := map[string]struct {
		observed *executor.Observation
		last     string
		recorded string
		want     string
	}{
		"the executor's":                       {&executor.Observation{State: executor.StateFailed, Stage: "compile: writing"}, "compile: agent", "x", "writing"},
		"the last one before it failed":        {&executor.Observation{State: executor.StateFailed, Stage: "failed"}, "compile: agent", "x", "agent"},
		"the recorded one after a restart":     {nil, "", "compile: agent", "agent"},
		"submitting before there is any":       {nil, "", "", "submitting"},
		"submitting after it was queued":       {nil, "", "queued", "submitting"},
		"one prefix only is taken off":         {nil, "compile: compile: x", "", "compile: x"},
		"not the word of a cancelled executor": {&executor.Observation{State: executor.StateCancelled, Stage: "cancelled"}, "agent", "", "agent"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			in := input{task: &v1alpha1.CompileTask{}, view: view{observed: test.observed, lastStage: test.last}}
			in.task.Status.Stage = test.recorded
			if got := failedStage(&in); got != test.want {
				t.Fatalf("stage %q, want %q", got, test.want)
			}
		})
	}
}
