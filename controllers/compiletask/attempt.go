package compiletask

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

// operation is a call to an executor.
type operation string

const (
	opSubmit operation = "submit"
	opPoll   operation = "poll"
	opCancel operation = "cancel"
	// opCredential stands for a call that was not made for want of a credential.
	opCredential operation = "credential"
)

// attempt is what this process knows of a task beyond its object: the call under
// way, what the last one answered, and this process's own newest write, which the
// cache may not show yet. Losing it costs a repeated read or an idempotent
// submit, never work done twice.
//
// Fields are read and written only by the one worker that has the task's key,
// under the mutex, since a call's end is told from its own goroutine.
type attempt struct {
	mu  sync.Mutex
	key types.NamespacedName
	uid types.UID

	hadTurn bool
	// inherited tells that the task was there when this process began to watch,
	// so that an earlier one may have submitted it without a record.
	inherited bool
	// submitted tells that this process has sent the create call, mayHaveBegun that
	// one of its create calls ended without an answer that tells.
	submitted    bool
	mayHaveBegun bool
	session      string
	started      time.Time

	credential *credential
	// bodies is what was sealed into the task, opened.
	bodies *unsealed

	// left tells that the task has ended or is gone, so that no call may begin any
	// more; leftSession is the session on record by then.
	left        bool
	leftSession string
	// stopWanted tells that the task is to be stopped, for the call under way.
	stopWanted bool

	// calling is the call under way; stop ends it early.
	calling operation
	stop    context.CancelFunc

	// observed is the executor's last answer, failure the last call's error; a
	// success clears it. lastStage is the last stage of a task that had not ended.
	observed      *executor.Observation
	lastStage     string
	polledAt      time.Time
	holdRefusedAt time.Time
	failure       error
	failedOp      operation
	failingSince  time.Time
	failures      int
	notBefore     time.Time
	cancelSent    bool
	cancelBegan   time.Time
	wroteAt       time.Time

	// written is this process's newest write of the task's status, until the cache
	// shows it or something newer.
	written *v1alpha1.CompileTask
}

// attempts holds an attempt for each task that has not ended.
type attempts struct {
	mu  sync.Mutex
	all map[types.UID]*attempt
}

func newAttempts() *attempts { return &attempts{all: map[types.UID]*attempt{}} }

// of returns the task's attempt, a new one when there is none.
func (a *attempts) of(task *v1alpha1.CompileTask) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.all[task.UID]
	if !ok {
		at = &attempt{uid: task.UID, key: keyOf(task)}
		a.all[task.UID] = at
	}
	return at
}

// find returns the task's attempt, or nil.
func (a *attempts) find(uid types.UID) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[uid]
}

// take removes and returns the task's attempt, or nil.
func (a *attempts) take(uid types.UID) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.all[uid]
	delete(a.all, uid)
	return at
}

func (a *attempts) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

func keyOf(task *v1alpha1.CompileTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}

// succeed records an answer of the executor.
func (at *attempt) succeed(op operation, observed executor.Observation, now time.Time) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.observed, at.polledAt = &observed, now
	if !observed.State.Terminal() && observed.Stage != "" {
		at.lastStage = observed.Stage
	}
	if op == opCancel {
		at.cancelSent = true
	}
	at.clearFailure()
}

func (at *attempt) clearFailure() {
	at.failure, at.failedOp = nil, ""
	at.failingSince, at.notBefore = time.Time{}, time.Time{}
	at.failures = 0
}

// fail records a call that did not get its answer. A cancel that was accepted
// before is sent again (E.2.6).
func (at *attempt) fail(op operation, err error, now time.Time) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.failure == nil {
		at.failingSince = now
	}
	at.failure, at.failedOp = err, op
	at.failures++
	at.notBefore = now.Add(retryDelay(at.failures, executor.RetryAfter(err)))
	at.cancelSent = false
	if op == opSubmit && !refusedSubmit(err) {
		at.mayHaveBegun = true
	}
}

// begin marks a call as under way, which the caller then runs, unless the task has
// ended or gone meanwhile.
func (at *attempt) begin(op operation, stop context.CancelFunc) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.left {
		return false
	}
	at.calling, at.stop = op, stop
	if op == opSubmit {
		at.submitted = true
	}
	return true
}

// turn marks that the call under way went on from one operation to another.
func (at *attempt) turn(op operation) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.calling = op
}

// end marks the call as over.
func (at *attempt) end() {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.stop != nil {
		at.stop()
	}
	at.calling, at.stop = "", nil
}

// interrupt ends a poll under way early, and keeps a create call under way from
// going on to poll.
func (at *attempt) interrupt() {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.stopWanted = true
	if at.stop != nil && at.calling == opPoll {
		at.stop()
	}
}

// abandon ends whatever call is under way.
func (at *attempt) abandon() {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.stop != nil {
		at.stop()
	}
}

// refuseHold notes that the executor answered a poll at once that it was asked to
// hold.
func (at *attempt) refuseHold(now time.Time) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.holdRefusedAt = now
}

// refusedHoldFor is how long a task is polled on a timer after its executor did not
// hold a poll: it may have been busy, or restarting.
const refusedHoldFor = time.Minute

// learn records the session that a create call answered with. It reports whether
// nobody wants the session any more, and whether it is to be stopped.
func (at *attempt) learn(session string, now time.Time) (unwanted, stop bool) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.session, at.started = session, now
	if at.bodies != nil {
		// The args are with the executor. What reads them may have the old value still.
		at.bodies = &unsealed{apiKey: at.bodies.apiKey, secrets: at.bodies.secrets}
	}
	at.clearFailure()
	return at.left && at.leftSession != session, at.stopWanted
}

// leave marks that the task has ended or is gone, and reports whether a create
// call is under way, which then sees to its session itself.
func (at *attempt) leave(recorded string) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.left, at.leftSession = true, recorded
	return at.calling == opSubmit && at.session == ""
}

// retryNow lets a call that is backing off go out with the next pass.
func (at *attempt) retryNow() {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.notBefore = time.Time{}
}

func (at *attempt) isLeft() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.left
}

func (at *attempt) wasSubmitted() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.submitted || at.session != ""
}

func (at *attempt) isInherited() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.inherited
}

func (at *attempt) inherit(inherited bool) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.inherited = inherited
}

func (at *attempt) disinherit() { at.inherit(false) }

func (at *attempt) currentCredential() *credential {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.credential
}

func (at *attempt) setCredential(c *credential) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.credential = c
}

// opened is what was sealed into the task, nil when it has not been opened.
func (at *attempt) opened() *unsealed {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.bodies
}

func (at *attempt) setOpened(bodies *unsealed) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.bodies = bodies
}

func (at *attempt) knownSession() string {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.session
}

func (at *attempt) startedAt() time.Time {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.started
}

func (at *attempt) backingOff(now time.Time) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return now.Before(at.notBefore)
}

func (at *attempt) isCalling() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.calling != ""
}

// snapshot is the attempt as decisions see it. Since when calls fail is also taken
// from the object, which outlives the process.
func (at *attempt) snapshot(task *v1alpha1.CompileTask, stopping bool, now time.Time) view {
	at.mu.Lock()
	defer at.mu.Unlock()
	if stopping && at.cancelBegan.IsZero() {
		at.cancelBegan = now
	}
	failingSince := at.failingSince
	reachable := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionExecutorReachable)
	if at.failure != nil && reachable != nil && reachable.Status == metav1.ConditionFalse && reachable.LastTransitionTime.Time.Before(failingSince) {
		failingSince = reachable.LastTransitionTime.Time
	}
	return view{
		session: at.session, started: at.started, calling: at.calling,
		observed: at.observed, lastStage: at.lastStage, polledAt: at.polledAt, holdRefused: !at.holdRefusedAt.IsZero() && now.Sub(at.holdRefusedAt) < refusedHoldFor,
		failure: at.failure, failedOp: at.failedOp, failingSince: failingSince, notBefore: at.notBefore,
		mayHaveBegun: at.mayHaveBegun || at.inherited,
		cancelSent:   at.cancelSent, cancelBegan: at.cancelBegan, wroteAt: at.wroteAt,
	}
}

// wrote remembers this process's own write until the cache has caught up.
func (at *attempt) wrote(task *v1alpha1.CompileTask, now time.Time) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.written, at.wroteAt = task, now
}

// newest is the newer of the cached object and this process's own last write.
func (at *attempt) newest(cached *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.written == nil {
		return cached
	}
	if !newerThan(at.written, cached) {
		at.written = nil
		return cached
	}
	return at.written.DeepCopy()
}

// ownWrite tells whether the object is what this process wrote last, or older.
func (at *attempt) ownWrite(task *v1alpha1.CompileTask) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.written != nil && !newerThan(task, at.written)
}

// newerThan compares the resource versions of two states of one object.
func newerThan(a, b *v1alpha1.CompileTask) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// strayOf is the session that the ended task's object does not name and that has
// not ended, "" when there is none.
func (at *attempt) strayOf(task *v1alpha1.CompileTask) string {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.session == "" || task.Status.SessionID == at.session {
		return ""
	}
	if at.observed != nil && at.observed.State.Terminal() {
		return ""
	}
	return at.session
}

// firstTurn reports true the first time it is asked.
func (at *attempt) firstTurn() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	first := !at.hadTurn
	at.hadTurn = true
	return first
}
