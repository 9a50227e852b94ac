package compiletask

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// settings are what a runtime says about how its tasks are handled.
type settings struct {
	durable          bool
	unavailableAfter time.Duration
	giveUpAfter      time.Duration
	// pollEvery is the time between polls that are not held.
	pollEvery time.Duration
	// hold is how long a poll is asked to be held; 0 when none is.
	hold time.Duration
}

// view is the part of an attempt that decisions are made from, as it stood at one
// moment.
type view struct {
	session      string
	started      time.Time
	calling      operation
	observed     *executor.Observation
	failure      error
	failedOp     operation
	failingSince time.Time
	notBefore    time.Time
	polledAt     time.Time
	cancelSent   bool
	cancelBegan  time.Time
	// mayHaveBegun tells that some create call may have begun the work although no
	// answer said so.
	mayHaveBegun bool
	holdRefused  bool
	wroteAt      time.Time
	lastStage    string
}

// input is everything a decision about a submitted, or about to be submitted,
// task depends on.
type input struct {
	task     *v1alpha1.CompileTask
	view     view
	settings settings
	// slot tells that a poll can be held: the runtime's slots are not all taken.
	slot bool
	now  time.Time
}

// ending is how a task ends.
type ending struct {
	condition string
	reason    string
	message   string
	stage     string
	err       *v1alpha1.TaskError
	result    json.RawMessage
	meta      json.RawMessage
	// unheard tells that the end is not the executor's word: it was given up on.
	unheard bool
	// endLag is how long the executor says the end lay back when it was seen; -1
	// where it does not say.
	endLag time.Duration
}

// decision is what to do next about a task.
type decision struct {
	// end, when set, is the task's end; nothing else is done.
	end *ending
	// record asks to bring the object up to date before anything else.
	record bool
	// interrupt asks to end the poll under way, so that a cancel can go out.
	interrupt bool
	// call is the call to start, "" for none; hold and etag belong to a poll.
	call operation
	hold time.Duration
	etag string
	// after is when to look again at the latest; 0 when an event will tell.
	after time.Duration
}

// session is the executor's id of the run, from this process or from the object.
func (in *input) session() string {
	if in.view.session != "" {
		return in.view.session
	}
	return in.task.Status.SessionID
}

// recorded tells that the object names the session.
func (in *input) recorded() bool {
	return in.task.Status.SessionID != "" && in.task.Status.SessionID == in.session()
}

func (in *input) startTime() time.Time {
	switch {
	case in.task.Status.StartTime != nil:
		return in.task.Status.StartTime.Time
	case !in.view.started.IsZero():
		return in.view.started
	case in.view.failedOp == opSubmit:
		return in.view.failingSince
	}
	return time.Time{}
}

// overdue tells that activeDeadlineSeconds have passed; left is the time until
// then, 0 when there is no deadline.
func (in *input) overdue() (overdue bool, left time.Duration) {
	start := in.startTime()
	if in.task.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return false, 0
	}
	left = start.Add(time.Duration(*in.task.Spec.ActiveDeadlineSeconds) * time.Second).Sub(in.now)
	return left <= 0, max(left, 0)
}

// stopping tells that the executor's work is to be stopped, whoever asked.
func (in *input) stopping() bool {
	overdue, _ := in.overdue()
	return in.task.Spec.Cancel || !in.task.DeletionTimestamp.IsZero() || overdue
}

// decide says what to do about a task that holds its place in the queue, or that
// an executor may already have. It is a pure function: the rows of E.2.4 to E.2.6.
func decide(in input) decision {
	if end := endOf(&in); end != nil {
		return decision{end: end}
	}
	d := decision{record: needsRecord(&in)}
	if in.view.calling != "" {
		d.interrupt = in.view.calling != opCancel && in.stopping() && !in.view.cancelSent
		d.after = in.nextBound()
		return d
	}
	// A first cancel does not wait for what some other call has to wait for.
	firstCancel := in.stopping() && in.session() != "" && in.view.failedOp != opCancel && in.view.failedOp != opCredential
	if wait := in.view.notBefore.Sub(in.now); wait > 0 && !firstCancel {
		d.after = soonest(wait, in.waitBound())
		return d
	}
	switch {
	case in.session() == "":
		d.call = opSubmit
	case in.stopping() && !in.view.cancelSent:
		d.call = opCancel
	default:
		decidePoll(&in, &d)
	}
	return d
}

// coalesce is how close together stage changes are written at most: a task whose
// stage changes faster is watched for its end only until the time has passed.
const coalesce = time.Second

func decidePoll(in *input, d *decision) {
	if in.settings.hold > 0 && in.slot && !in.view.holdRefused {
		d.call, d.hold = opPoll, in.settings.hold
		if in.view.observed != nil {
			d.etag = in.view.observed.ETag
		}
		if recent := in.now.Sub(in.view.wroteAt); recent < coalesce && in.view.observed != nil {
			d.hold, d.etag = coalesce, ""
		}
		return
	}
	if wait := in.view.polledAt.Add(in.settings.pollEvery).Sub(in.now); !in.view.polledAt.IsZero() && wait > 0 {
		d.after = soonest(wait, in.waitBound())
		return
	}
	d.call = opPoll
}

// nextBound is the time until a deadline or give-up bound may pass, 0 for none.
func (in *input) nextBound() time.Duration {
	_, bound := in.overdue()
	if !in.task.DeletionTimestamp.IsZero() {
		bound = soonest(bound, max(in.releaseAt().Sub(in.now), time.Millisecond))
	}
	return bound
}

// releaseAt is when a deleted task is let go of whatever its executor says: some
// time after the deletion or, after a time without a manager, after this one first
// saw it, so that the executor is asked to stop in any case.
func (in *input) releaseAt() time.Time {
	return later(in.task.DeletionTimestamp.Time, in.view.cancelBegan).Add(in.settings.giveUpAfter)
}

// waitBound bounds a wait between calls: beside nextBound, until calls that fail
// are given up.
func (in *input) waitBound() time.Duration {
	if in.view.failure == nil {
		return in.nextBound()
	}
	return soonest(in.nextBound(), max(in.failingUntil().Sub(in.now), time.Millisecond))
}

// failingUntil is when calls that fail without end are given up.
func (in *input) failingUntil() time.Time {
	if in.stopping() {
		return later(in.view.failingSince, in.view.cancelBegan).Add(in.settings.giveUpAfter)
	}
	return in.view.failingSince.Add(in.settings.unavailableAfter)
}

// needsRecord tells whether the object lags behind what has to be on record: a
// task is left to an executor only with its session, and with the finalizer that
// cancels it, on record. The one exception is a call under way to a runtime with
// durable keys, whose end may come with it (spec decision 0.3).
func needsRecord(in *input) bool {
	if in.session() == "" {
		shown := submitting(in.task) && sameReachable(in) && in.task.Status.Phase == in.task.DerivePhase()
		return in.view.failure != nil && !shown
	}
	if !in.recorded() {
		return in.view.calling == "" || !in.settings.durable
	}
	if in.view.observed != nil && !sameReport(in.task, in.view.observed) {
		return true
	}
	if !hasFinalizer(in.task) && in.task.DeletionTimestamp.IsZero() {
		return true
	}
	return in.task.Status.Phase != in.task.DerivePhase() || !sameReachable(in)
}

// sameReachable tells whether the object already says whether calls get through.
func sameReachable(in *input) bool {
	reachable := meta.FindStatusCondition(in.task.Status.Conditions, v1alpha1.ConditionExecutorReachable)
	switch {
	case in.view.failure != nil:
		reason, _ := callFailed(*in)
		return reachable != nil && reachable.Status == metav1.ConditionFalse && reachable.Reason == reason
	case reachable != nil && in.view.observed != nil:
		return reachable.Status == metav1.ConditionTrue
	}
	return true
}

// sameReport tells whether the object already shows the observation's stage and
// meta.
func sameReport(task *v1alpha1.CompileTask, observed *executor.Observation) bool {
	if observed.Stage != "" && clipCharacters(observed.Stage, maxStage) != task.Status.Stage {
		return false
	}
	var have json.RawMessage
	if task.Status.Meta != nil {
		have = task.Status.Meta.Raw
	}
	return containsMembers(have, observed.Meta)
}

// endOf tells whether the task has ended and how, nil while it has not.
func endOf(in *input) *ending {
	if in.view.observed != nil && in.view.observed.State.Terminal() {
		return endByReport(in)
	}
	if in.view.failure != nil && in.view.calling == "" {
		if end := endByFailure(in); end != nil {
			return end
		}
	}
	if !in.task.DeletionTimestamp.IsZero() && !in.now.Before(in.releaseAt()) {
		return cancelUnconfirmed("The task is being deleted and the executor has not confirmed the cancel in time")
	}
	return nil
}

// endByReport is E.2.5 with the stage rules of C.3 and H.7 Q1 to Q3.
func endByReport(in *input) *ending {
	observed := in.view.observed
	end := &ending{meta: observed.Meta, endLag: observed.EndLag}
	if in.task.Spec.Cancel {
		end.cancelled(v1alpha1.ReasonCancelledByUser, "Cancelled on request; what was written before stays")
		return end
	}
	switch observed.State {
	case executor.StateCompleted:
		end.condition, end.reason = v1alpha1.ConditionComplete, v1alpha1.ReasonCompleted
		end.message = "The executor completed the task"
		end.stage = v1alpha1.StageCompleted
		if stripStage(observed.Stage) == v1alpha1.StageSalvaged {
			end.reason, end.stage = v1alpha1.ReasonSalvaged, v1alpha1.StageSalvaged
			end.message = "The executor reached its limit and saved what there was; see the warnings of the result"
		}
		end.result = resultOf(observed)
	case executor.StateFailed:
		end.condition, end.reason = v1alpha1.ConditionFailed, v1alpha1.ReasonExecutorFailed
		end.err = taskError(observed.Error)
		end.message = "The executor reports a failure; see status.error"
		end.stage = failedStage(in)
	default:
		if overdue, _ := in.overdue(); overdue {
			end.fail(v1alpha1.ReasonDeadlineExceeded, runtimeapi.CodeDeadlineExceeded,
				"The task ran longer than activeDeadlineSeconds and was stopped", failedStage(in))
			return end
		}
		reason, message := v1alpha1.ReasonCancelledByExecutor, "The executor cancelled the task by itself"
		if !in.task.DeletionTimestamp.IsZero() {
			reason, message = v1alpha1.ReasonCancelledByUser, "Cancelled because the task is being deleted"
		}
		end.cancelled(reason, message)
	}
	return end
}

// endByFailure sorts a failed call (E.2.3, E.2.5, E.2.6); nil means try again.
func endByFailure(in *input) *ending {
	code, message := executor.CodeOf(in.view.failure)
	transient := executor.IsTransient(in.view.failure)
	switch {
	case in.cancelling() || in.stoppingLate():
		return endWhileStopping(in, code, message)
	case executor.IsSessionNotFound(in.view.failure):
		return failed(v1alpha1.ReasonSessionLost, runtimeapi.CodeNotFound, message, failedStage(in))
	case !transient:
		return failed(v1alpha1.ReasonRejected, code, message, failedStage(in))
	}
	overdue, _ := in.overdue()
	if in.now.Before(in.failingUntil()) && !overdue {
		return nil
	}
	end := failed(v1alpha1.ReasonExecutorUnavailable, runtimeapi.CodeUnavailable, message, failedStage(in))
	end.unheard = true
	return end
}

// stoppingLate tells that the executor was reached after the deadline, so that the
// task is being stopped for it. One that could not be reached even then fails as
// unavailable (DESIGN.md, "How a CompileTask runs").
func (in *input) stoppingLate() bool {
	overdue, _ := in.overdue()
	return overdue && (in.view.failedOp == opCancel || in.view.cancelSent)
}

// endWhileStopping is the end of a task that is being stopped and whose last call
// failed: at once where nothing can be left to stop, else only when the cancel has
// been repeated for long enough.
func endWhileStopping(in *input, code, message string) *ending {
	switch {
	case executor.IsSessionNotFound(in.view.failure):
		return in.stopped("the executor no longer knows the session")
	// Had an earlier create call begun the work, the same key would be answered with
	// its session, not refused for good; a full executor may not look at the key.
	case in.view.failedOp == opSubmit && refusedSubmit(in.view.failure) &&
		(!in.view.mayHaveBegun || !executor.IsTransient(in.view.failure)):
		return in.stopped("the executor had not taken the task")
	case in.now.Before(in.failingUntil()):
		return nil
	}
	return in.unconfirmed("The executor did not confirm the cancel in time; its last answer was " + code + ": " + message)
}

// refusedSubmit tells that the answer to a create call says that nothing was begun.
func refusedSubmit(err error) bool {
	var call *executor.Error
	return errors.As(err, &call) && call.HTTPStatus >= 400 && call.HTTPStatus < 500 && call.HTTPStatus != http.StatusRequestTimeout
}

// stopped is the end of a task that was stopped, by its user or by its deadline.
func (in *input) stopped(how string) *ending {
	if !in.cancelling() {
		return failed(v1alpha1.ReasonDeadlineExceeded, runtimeapi.CodeDeadlineExceeded,
			"The task ran longer than activeDeadlineSeconds; "+how, failedStage(in))
	}
	end := &ending{endLag: -1}
	end.cancelled(v1alpha1.ReasonCancelledByUser, "Cancelled; "+how)
	return end
}

// unconfirmed is the end of a task whose executor never said that it stopped.
func (in *input) unconfirmed(message string) *ending {
	if in.cancelling() {
		return cancelUnconfirmed(message)
	}
	end := failed(v1alpha1.ReasonDeadlineExceeded, runtimeapi.CodeDeadlineExceeded,
		"The task ran longer than activeDeadlineSeconds. "+message+"; the work may still run", failedStage(in))
	end.unheard = true
	return end
}

func failed(reason, code, message, stage string) *ending {
	end := &ending{endLag: -1}
	end.fail(reason, code, message, stage)
	return end
}

// cancelling tells that the user wants the task gone, so that it can't fail any
// more. A deadline alone does not make it so.
func (in *input) cancelling() bool {
	return in.task.Spec.Cancel || !in.task.DeletionTimestamp.IsZero()
}

func (e *ending) cancelled(reason, message string) {
	e.condition, e.reason, e.message = v1alpha1.ConditionCancelled, reason, message
	e.stage = v1alpha1.StageCancelled
}

func (e *ending) fail(reason, code, message, stage string) {
	e.condition, e.reason, e.stage = v1alpha1.ConditionFailed, reason, stage
	e.err = taskError(&runtimeapi.Error{Code: code, Message: message})
	e.message = e.err.Code + ": " + e.err.Message
}

func cancelUnconfirmed(message string) *ending {
	end := &ending{endLag: -1, unheard: true}
	end.cancelled(v1alpha1.ReasonCancelUnconfirmed, message+"; the work may still run")
	return end
}

// resultOf is the executor's result, else its meta, else an empty object (E.2.5).
func resultOf(observed *executor.Observation) json.RawMessage {
	if !emptyObject(observed.Result) {
		return observed.Result
	}
	if !emptyObject(observed.Meta) {
		return observed.Meta
	}
	return json.RawMessage("{}")
}

// failedStage is the stage in which a task failed: the executor's, unless that
// only says that it failed, then the last one before (H.7 Q2).
func failedStage(in *input) string {
	if observed := in.view.observed; observed != nil {
		if stage := stripStage(observed.Stage); stage != "" && stage != "failed" && observed.State != executor.StateCancelled {
			return clipCharacters(stage, maxStage)
		}
	}
	for _, stage := range []string{stripStage(in.view.lastStage), stripStage(in.task.Status.Stage)} {
		if stage != "" && stage != v1alpha1.StageQueued {
			return clipCharacters(stage, maxStage)
		}
	}
	return v1alpha1.StageSubmitting
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
