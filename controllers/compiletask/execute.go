package compiletask

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// quickAnswer is how soon an answer to a poll that was to be held, and that says
// nothing new, shows that the executor does not hold polls.
const quickAnswer = 300 * time.Millisecond

// run is one call, or two in a row, to an executor for a task. It holds copies
// only: the pass that started it is over by the time it ends.
type run struct {
	reconciler *Reconciler
	attempt    *attempt
	executor   executor.Executor
	lane       string
	identity   executor.Identity
	secrets    []string
	settings   settings
	session    string
	// credential is the one the calls are made with, to tell whether a refused one
	// was fresh.
	credential *credential
}

// start begins the call that was decided on. Its end is told by a wake.
func (r *Reconciler) start(s *scope, d decision) {
	c := s.attempt.currentCredential()
	if c == nil {
		c = &credential{}
	}
	lane := laneOf(s)
	call := &run{
		reconciler: r, attempt: s.attempt, executor: s.executor, lane: lane, settings: s.settings, credential: c,
		identity: identityOf(s.task, s.runtime, s.attempt),
	}
	call.secrets = append([]string{c.apiKey}, call.identity.Secrets...)
	call.secrets = append(call.secrets, r.Executors.Secrets(lane)...)
	if call.session = s.attempt.knownSession(); call.session == "" {
		call.session = s.task.Status.SessionID
	}
	ctx, stop := context.WithCancel(r.calls.context())
	if !s.attempt.begin(d.call, stop) {
		stop()
		return
	}
	switch d.call {
	case opSubmit:
		request := executor.SubmitRequest{Identity: call.identity, Key: s.task.TaskID(), Payload: payloadOf(s.task, s.request, s.attempt.opened())}
		r.calls.submit(lane, func(context.Context) { call.submit(ctx, request) })
	case opCancel:
		r.calls.submit(lane, func(context.Context) { call.cancel(ctx) })
	default:
		if d.hold > 0 && r.calls.tryHold(lane) {
			r.calls.hold(lane, func(context.Context) { call.poll(ctx, d.hold, d.etag) })
			return
		}
		r.calls.submit(lane, func(context.Context) { call.poll(ctx, 0, "") })
	}
}

// payloadOf is the request as the executor gets it: canonical URIs, and the
// arguments in their own text (B.5), sealed ones before the plain.
func payloadOf(task *v1alpha1.CompileTask, request viking.Canonical, bodies *unsealed) runtimeapi.CompilePayload {
	payload := runtimeapi.CompilePayload{
		From: request.From, To: request.To, Skill: request.Skill, Instruction: task.Spec.Instruction,
	}
	args := rawOf(task.Spec.Args)
	if bodies != nil && bodies.args != nil {
		args = bodies.args
	}
	if !emptyObject(args) {
		payload.Args = args
	}
	return payload
}

// submit creates the task at the executor. On a runtime with durable keys a poll
// follows at once, since many tasks end within it and then need no record of
// having run.
func (c *run) submit(ctx context.Context, request executor.SubmitRequest) {
	if c.attempt.isLeft() {
		c.done(priorityBegun)
		return
	}
	began := time.Now()
	submission, err := c.executor.Submit(ctx, request)
	c.reconciler.Metrics.call(opSubmit, err, time.Since(began))
	if err != nil {
		c.failed(ctx, opSubmit, err)
		return
	}
	c.session = submission.SessionID
	unwanted, stop := c.attempt.learn(submission.SessionID, c.reconciler.Clock.Now())
	if unwanted {
		c.cancel(ctx)
		return
	}
	calls := c.reconciler.calls
	if stop || !c.settings.durable || c.settings.hold == 0 || !calls.tryHold(c.lane) {
		c.done(priorityBegun)
		return
	}
	c.attempt.turn(opPoll)
	calls.hold(c.lane, func(context.Context) { c.poll(ctx, c.reconciler.FirstPollWait, "") })
}

func (c *run) poll(ctx context.Context, hold time.Duration, etag string) {
	began := time.Now()
	observed, err := c.executor.Poll(ctx, executor.PollRequest{Identity: c.identity, SessionID: c.session, Wait: hold, ETag: etag})
	took := time.Since(began)
	c.reconciler.Metrics.call(opPoll, err, took)
	if err != nil {
		c.failed(ctx, opPoll, err)
		return
	}
	if hold > 0 && !observed.State.Terminal() && (!observed.Held || (took < quickAnswer && etag != "" && observed.ETag == etag)) {
		c.attempt.refuseHold(c.reconciler.Clock.Now())
	}
	c.answered(opPoll, observed)
}

func (c *run) cancel(ctx context.Context) {
	began := time.Now()
	observed, err := c.executor.Cancel(ctx, executor.CancelRequest{Identity: c.identity, SessionID: c.session})
	c.reconciler.Metrics.call(opCancel, err, time.Since(began))
	if err != nil {
		c.failed(ctx, opCancel, err)
		return
	}
	c.answered(opCancel, observed)
}

// answered records an observation, with nothing in it that must not show or that
// the API server would not store.
func (c *run) answered(op operation, observed executor.Observation) {
	var err error
	if observed.Meta, err = c.presentable(observed.Meta); err != nil {
		observed.Meta = nil
	}
	if observed.Result, err = c.presentable(observed.Result); err != nil {
		observed.Result = noteResult("The executor's result can't be kept: " + err.Error())
	}
	c.attempt.succeed(op, observed, c.reconciler.Clock.Now())
	priority := priorityBegun
	if observed.State.Terminal() {
		priority = priorityEnding
	}
	c.done(priority)
}

func (c *run) presentable(raw json.RawMessage) (json.RawMessage, error) {
	if emptyObject(raw) {
		return nil, nil
	}
	// The gateway token may have been read, for the first time or anew, by the very
	// call that this answers.
	clean, err := executor.RedactJSON(raw, append(c.reconciler.Executors.Secrets(c.lane), c.secrets...)...)
	if err != nil {
		return nil, err
	}
	return executor.Storable(clean)
}

// failed records a call without an answer. One that this process itself ended
// says nothing about the executor.
func (c *run) failed(ctx context.Context, op operation, err error) {
	now := c.reconciler.Clock.Now()
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
	case refusedCredential(err) && !c.credential.readAt.IsZero() && now.Sub(c.credential.readAt) > freshCredential:
		// The key may have been rotated, or the token run out: read it anew, once.
		c.attempt.setCredential(nil)
		c.attempt.fail(op, asTransient(err), now)
	case executor.IsGatewayRejected(err):
		// That is between the operator and the executor, and passes once both have the
		// same token; the task is not at fault.
		c.attempt.fail(op, asTransient(err), now)
	default:
		c.attempt.fail(op, err, now)
	}
	c.done(priorityBegun)
}

// freshCredential is the age up to which a refused credential is not read again.
const freshCredential = 5 * time.Second

func asTransient(err error) error {
	var call *executor.Error
	if !errors.As(err, &call) {
		return err
	}
	again := *call
	again.Transient = true
	return &again
}

func (c *run) done(priority int) {
	c.attempt.end()
	c.reconciler.passes.ask(c.attempt.key, priority)
}

// stopStray cancels, once and without waiting, a session that only this process
// knows of and whose task has ended or is gone without it. A create call under way
// cancels the session that it begins.
func (r *Reconciler) stopStray(at *attempt, task *v1alpha1.CompileTask) {
	if at.leave(task.Status.SessionID) {
		return
	}
	at.abandon()
	session := at.strayOf(task)
	if session == "" {
		return
	}
	logger := ctrl.Log.WithName("compiletask").WithValues("CompileTask", klog.KObj(task), "session", session)
	runtime, refused, err := r.runtimeOf(r.calls.context(), task)
	if err != nil || refused != nil {
		logger.Info("Can't cancel the session of a task that is gone: its runtime can't be found")
		return
	}
	client, err := r.Executors.For(runtime)
	if err != nil {
		logger.Error(err, "Can't cancel the session of a task that is gone")
		return
	}
	identity := identityOf(task, runtime, at)
	r.calls.submit(runtime.Name, func(ctx context.Context) {
		began := time.Now()
		_, err := client.Cancel(ctx, executor.CancelRequest{Identity: identity, SessionID: session})
		r.Metrics.call(opCancel, err, time.Since(began))
		if err != nil {
			logger.Error(err, "Could not cancel the session of a task that is gone; it may still run")
		}
	})
}
