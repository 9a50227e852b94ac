package compiletask

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/viking"
)

// Executors gives the client of an AgentRuntime.
type Executors interface {
	// For returns the runtime's client, or an error when its spec can't be used.
	For(runtime *v1alpha1.AgentRuntime) (executor.Executor, error)
	// Secrets returns what must not show in anything the executor says.
	Secrets(runtime string) []string
}

// Reconciler brings CompileTasks to their end.
type Reconciler struct {
	// Client reads CompileTasks and AgentRuntimes from the cache, and writes.
	Client client.Client
	// APIReader reads Secrets and Payloads, which are not cached.
	APIReader client.Reader
	Executors Executors
	// Authorizer tells whether a requester may still use what a task names.
	Authorizer access.Authorizer
	// KeyRing opens what the REST API has sealed and checks its marks, seals large
	// results, and fingerprints credentials.
	KeyRing *sealed.KeyRing
	// ReloadKeyRing reads the ring anew, for a body under a key that KeyRing does not
	// have: the facade may have learned of a rotation before. May be nil.
	ReloadKeyRing func(context.Context) (*sealed.KeyRing, error)
	Recorder      events.EventRecorder
	Metrics       *Metrics
	Clock         clock.PassiveClock
	// FirstPollWait is how long the poll right after a submit is held on a runtime
	// with durable keys before the task goes on record as running.
	FirstPollWait time.Duration

	queue    *queue
	attempts *attempts
	released *released
	erased   *released
	departed *departed
	calls    *caller
	passes   *passes
}

// Priorities of a pass: what was begun is finished first.
const (
	priorityNew    = 0
	priorityBegun  = 10
	priorityEnding = 20
)

// scope is one pass over one task.
type scope struct {
	task    *v1alpha1.CompileTask
	attempt *attempt
	now     time.Time
	// request is filled by resolveRequest.
	request viking.Canonical
	// runtime and executor are filled by resolveRuntime. The executor of a runtime
	// that can't be called answers every call with why.
	runtime  *v1alpha1.AgentRuntime
	executor executor.Executor
	settings settings
	// refused is why the runtime can't be used, as a reason and message.
	refused *refusal
}

// refusal is why a task can't be submitted now.
type refusal struct{ reason, message string }

// phase is one step of a pass. done ends the pass.
type phase func(context.Context, *scope) (done bool, result ctrl.Result, err error)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups=agentruntime.dev,resources=agentruntimes,verbs=get;list;watch
// +kubebuilder:rbac:groups=agentruntime.dev,resources=compiletasks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=agentruntime.dev,resources=compiletasks/status,verbs=update
// +kubebuilder:rbac:groups=agentruntime.dev,resources=payloads,verbs=get;create
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over a task: it observes, decides, and acts. It never
// waits for an executor.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	for _, gone := range r.departed.take(req.NamespacedName) {
		r.drop(gone)
	}
	task, known, err := r.read(ctx, req.NamespacedName)
	if task == nil || err != nil {
		return ctrl.Result{}, err
	}
	if task.Terminal() {
		return r.afterEnd(ctx, task)
	}
	s := &scope{attempt: known, now: r.Clock.Now()}
	s.task = s.attempt.newest(task)
	if s.task.Terminal() {
		return r.afterEnd(ctx, s.task)
	}
	phases := []phase{r.resolveRequest, r.checkOrigin, r.resolveRuntime, r.endUnsubmitted, r.admit, r.unseal, r.authorize, r.converge}
	for _, step := range phases {
		done, result, err := step(ctx, s)
		if done || err != nil {
			return ordinary(result, err)
		}
	}
	return ctrl.Result{}, nil
}

// read gets the task from the cache, with what this process knows of it; nil when
// it is not there. The attempt comes first: one that is dropped while the pass is on
// its way, because the task has ended or gone, begins no call any more. For a task
// that nothing was known of the cache is read again after the attempt was made, as
// it may have come to show the end, and its attempt been dropped, in between.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.CompileTask, *attempt, error) {
	var task v1alpha1.CompileTask
	if err := r.Client.Get(ctx, key, &task); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if task.Terminal() {
		return &task, nil, nil
	}
	if known := r.attempts.find(task.UID); known != nil {
		return &task, known, nil
	}
	made := r.attempts.of(&task)
	var again v1alpha1.CompileTask
	err := r.Client.Get(ctx, key, &again)
	if err == nil && again.UID == task.UID && !again.Terminal() {
		return &again, made, nil
	}
	r.attempts.take(task.UID)
	if err == nil && again.Terminal() {
		return &again, nil, nil
	}
	// It is gone; another object that has taken the name has an event of its own.
	return nil, nil, client.IgnoreNotFound(err)
}

// ordinary takes what is no failure out of an error: an object that is gone, and
// a conflict, which means to look again.
func ordinary(result ctrl.Result, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return result, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return ctrl.Result{}, err
}

// conflictDelay leaves the cache a moment to show what won.
const conflictDelay = 20 * time.Millisecond

// resolveRequest makes the request's URIs canonical (spec section G). Admission
// has refused what is not valid, so a fault here means that it was bypassed.
func (r *Reconciler) resolveRequest(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	request, faults := canonical(s.task)
	if len(faults) == 0 {
		s.request = request
		return false, ctrl.Result{}, nil
	}
	end := &ending{endLag: -1}
	end.fail(v1alpha1.ReasonInvalidRequest, v1alpha1.ErrorCodeInvalidArgument, faults[0].Error(), v1alpha1.StageQueued)
	return r.finish(ctx, s, end)
}

// canonical is the task's request in canonical form. Path variables are taken at
// the task's creation, so that every pass comes to the same.
func canonical(task *v1alpha1.CompileTask) (viking.Canonical, []*viking.FieldError) {
	if c := task.Status.Canonical; c != nil {
		return viking.Canonical{From: c.From, To: c.To, Skill: c.Skill}, nil
	}
	return viking.Canonicalize(
		viking.Request{From: task.Spec.From, To: task.Spec.To, Skill: task.Spec.Skill},
		viking.Caller{User: viking.UserID(task.Spec.Requester.Username)},
		task.CreationTimestamp.UTC(),
	)
}

// endUnsubmitted ends a task whose cancel came before any executor heard of it.
func (r *Reconciler) endUnsubmitted(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if r.maybeSubmitted(s) {
		return false, ctrl.Result{}, nil
	}
	if !s.task.DeletionTimestamp.IsZero() {
		// Someone else's finalizer holds the task; it must not start any more.
		r.queue.forget(s.task.UID)
		return true, ctrl.Result{}, nil
	}
	if !s.task.Spec.Cancel {
		return false, ctrl.Result{}, nil
	}
	end := &ending{endLag: -1}
	end.cancelled(v1alpha1.ReasonCancelledByUser, "Cancelled before it was submitted")
	return r.finish(ctx, s, end)
}

// admit asks the queue for the task's turn, unless an executor may have it
// already: then the place is its own.
func (r *Reconciler) admit(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	if r.onRecord(s) || s.attempt.wasSubmitted() {
		return false, ctrl.Result{}, nil
	}
	if s.task.Spec.Suspend && !s.task.Spec.Cancel {
		r.queue.forget(s.task.UID)
		return r.waitFor(ctx, s, v1alpha1.ReasonSuspended, "The task is suspended; set spec.suspend to false to let it run", 0)
	}
	if s.refused != nil {
		r.queue.forget(s.task.UID)
		return r.waitFor(ctx, s, s.refused.reason, s.refused.message, refusedRetry)
	}
	r.queue.put(r.ticketOf(s.task, s.request.To, s.runtime.Name))
	switch turn := r.queue.admit(s.task.UID); {
	case turn == admitted:
		r.Metrics.admitted(s.attempt, s.task, s.now)
		return false, ctrl.Result{}, nil
	case turn == targetBusy:
		// An older task of the target has not ended, so no earlier process can have
		// started this one.
		s.attempt.disinherit()
		if done, result, err := r.endUnsubmitted(ctx, s); done || err != nil {
			return done, result, err
		}
		return r.waitFor(ctx, s, v1alpha1.ReasonTargetBusy, "Another task with the same target runs or is older; this one starts when it is its turn", 0)
	case s.task.Spec.Cancel:
		// An earlier process may have sent it, and learning the session is the way to
		// cancel it. That does not wait for a slot.
		return false, ctrl.Result{}, nil
	default:
		return r.waitFor(ctx, s, v1alpha1.ReasonRuntimeBusy, "The runtime runs as many tasks as its maxConcurrentTasks allows; this one starts when it is its turn", 0)
	}
}

// refusedRetry is how often a task that waits for something unwatched looks again.
const refusedRetry = 30 * time.Second

// onRecord tells that the object says an executor has, or may have, the task.
func (r *Reconciler) onRecord(s *scope) bool {
	return s.task.Status.SessionID != "" || submitting(s.task) || hasFinalizer(s.task)
}

// maybeSubmitted tells that an executor may have the task: because the object
// says so, because this process sent it, or because an earlier process may have
// sent it without a record, which only runtimes with durable keys allow.
func (r *Reconciler) maybeSubmitted(s *scope) bool {
	if r.onRecord(s) || s.attempt.wasSubmitted() {
		return true
	}
	if !s.attempt.isInherited() || !s.settings.durable || r.needsClaim(s) {
		return false
	}
	// Whoever wrote that the task is suspended knew that it was not submitted.
	return !s.task.Spec.Suspend || !suspendedOnRecord(s.task)
}

// converge is the pass over a task that is, or may be, with an executor.
func (r *Reconciler) converge(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	in := r.input(s)
	d := decide(in)
	if d.end != nil {
		return r.finish(ctx, s, d.end)
	}
	if d.interrupt {
		s.attempt.interrupt()
	}
	if d.record {
		if err := r.record(ctx, s, in); err != nil {
			return true, ctrl.Result{}, err
		}
	}
	if d.call == "" {
		return true, ctrl.Result{RequeueAfter: d.after}, nil
	}
	if d.call == opSubmit {
		if done, result, err := r.claim(ctx, s); done || err != nil {
			return true, result, err
		}
	}
	ctrl.LoggerFrom(ctx).V(2).Info("Calling the executor", "operation", d.call, "hold", d.hold.String())
	r.start(s, d)
	return true, ctrl.Result{RequeueAfter: in.nextBound()}, nil
}

// laneOf names the lane of the task's calls: its runtime's.
func laneOf(s *scope) string {
	if s.runtime != nil {
		return s.runtime.Name
	}
	return s.task.EffectiveRuntimeName()
}

// input gathers what decide needs.
func (r *Reconciler) input(s *scope) input {
	in := input{task: s.task, settings: s.settings, slot: r.calls.mayHold(laneOf(s)), now: s.now}
	in.view = s.attempt.snapshot(s.task, false, s.now)
	if in.stopping() {
		in.view = s.attempt.snapshot(s.task, true, s.now)
	}
	return in
}

// resolveRuntime finds the task's AgentRuntime. A missing or unusable one does
// not end the pass: a task that may be submitted still has to reach its end.
func (r *Reconciler) resolveRuntime(ctx context.Context, s *scope) (bool, ctrl.Result, error) {
	runtime, refused, err := r.runtimeOf(ctx, s.task)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	if refused == nil {
		s.executor, err = r.Executors.For(runtime)
		if err != nil {
			refused = &refusal{v1alpha1.ReasonRuntimeInvalid, fmt.Sprintf("AgentRuntime %q can't be used: %v", runtime.Name, err)}
		}
	}
	s.runtime, s.refused = runtime, refused
	if refused != nil {
		s.executor = unusable{refused.message}
	}
	s.settings = r.settingsOf(runtime)
	return false, ctrl.Result{}, nil
}

// runtimeOf reads the AgentRuntime that a task is bound to, or the default one.
func (r *Reconciler) runtimeOf(ctx context.Context, task *v1alpha1.CompileTask) (*v1alpha1.AgentRuntime, *refusal, error) {
	name := task.EffectiveRuntimeName()
	if name == "" {
		var all v1alpha1.AgentRuntimeList
		if err := r.Client.List(ctx, &all); err != nil {
			return nil, nil, fmt.Errorf("list AgentRuntimes: %w", err)
		}
		found := v1alpha1.DefaultRuntime(all.Items)
		if found == nil {
			return nil, &refusal{v1alpha1.ReasonRuntimeNotFound,
				"The task names no runtime and there is no default one; mark an AgentRuntime with the annotation " + v1alpha1.AnnotationDefaultRuntime + `="true"`}, nil
		}
		return found, nil, nil
	}
	var runtime v1alpha1.AgentRuntime
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &runtime)
	if apierrors.IsNotFound(err) {
		return nil, &refusal{v1alpha1.ReasonRuntimeNotFound, fmt.Sprintf("AgentRuntime %q does not exist; create it", name)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get AgentRuntime %q: %w", name, err)
	}
	return &runtime, nil, nil
}

// unusable is the executor of a runtime that can't be called: every call fails in
// a way that may pass, as the runtime may come back.
type unusable struct{ message string }

func (u unusable) failure(op operation) error {
	return &executor.Error{Code: v1alpha1.ErrorCodeUnavailable, Message: u.message, Transient: true, Op: string(op)}
}

// Submit implements executor.Executor.
func (u unusable) Submit(context.Context, executor.SubmitRequest) (executor.Submission, error) {
	return executor.Submission{}, u.failure(opSubmit)
}

// Poll implements executor.Executor.
func (u unusable) Poll(context.Context, executor.PollRequest) (executor.Observation, error) {
	return executor.Observation{}, u.failure(opPoll)
}

// Cancel implements executor.Executor.
func (u unusable) Cancel(context.Context, executor.CancelRequest) (executor.Observation, error) {
	return executor.Observation{}, u.failure(opCancel)
}

// Probe implements executor.Executor.
func (u unusable) Probe(context.Context) (executor.Capabilities, error) {
	return executor.Capabilities{}, u.failure("probe")
}
