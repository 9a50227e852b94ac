package compiletask

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// workers is how many passes run at a time. A pass waits for the API server only,
// never for an executor.
const workers = 64

// SetupWithManager adds the controller to a manager. Its calls to executors run
// until the manager stops.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.prepare()
	err := ctrl.NewControllerManagedBy(mgr).
		Named("compiletask").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(source.Func(r.bindQueue)).
		WatchesRawSource(source.Kind(mgr.GetCache(), &v1alpha1.AgentRuntime{}, r.runtimeHandler())).
		WatchesRawSource(source.Kind(mgr.GetCache(), &v1alpha1.CompileTask{}, r.taskHandler())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the compiletask controller: %w", err)
	}
	return nil
}

// prepare makes the parts that are the reconciler's own.
func (r *Reconciler) prepare() {
	r.attempts = newAttempts()
	r.released, r.erased = newReleased(), newReleased()
	r.departed = &departed{all: map[types.NamespacedName][]*v1alpha1.CompileTask{}}
	r.passes = &passes{}
	r.calls = &caller{lanes: map[string]*lane{}}
	r.queue = newQueue(func(key types.NamespacedName) { r.passes.ask(key, priorityNew) })
	r.queue.gather()
}

// passes lets what is outside the controller's sources ask for a pass.
type passes struct {
	mu    sync.Mutex
	queue requestQueue
}

// ask asks for a pass over a task. Before the controller has started it is not
// needed: every task gets a pass then.
func (p *passes) ask(key types.NamespacedName, priority int) {
	p.mu.Lock()
	queue := p.queue
	p.mu.Unlock()
	if queue != nil {
		enqueue(queue, reconcile.Request{NamespacedName: key}, priority)
	}
}

func (p *passes) bind(queue requestQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = queue
}

// bindQueue is a source without events of its own, through which the controller
// hands over its work queue and the context that calls run under.
func (r *Reconciler) bindQueue(ctx context.Context, q requestQueue) error {
	r.calls.bind(ctx)
	r.passes.bind(q)
	r.Metrics.leads()
	return nil
}

// Wait returns when no call to an executor is under way any more. It is for after
// the manager has stopped.
func (r *Reconciler) Wait() { r.calls.wait() }

func enqueue(q workqueue.TypedRateLimitingInterface[reconcile.Request], request reconcile.Request, priority int) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// taskHandler keeps the admission queue in step with what is in the cluster, and
// asks for a pass where one is needed: not for this process's own status writes.
func (r *Reconciler) taskHandler() handler.TypedEventHandler[*v1alpha1.CompileTask, reconcile.Request] {
	return handler.TypedFuncs[*v1alpha1.CompileTask, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.CompileTask], q requestQueue) {
			r.observe(e.Object, e.IsInInitialList)
			if needsPass(e.Object) {
				priority := priorityNew
				if e.Object.Status.SessionID != "" {
					priority = priorityBegun
				}
				enqueue(q, reconcile.Request{NamespacedName: keyOf(e.Object)}, priority)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.CompileTask], q requestQueue) {
			r.observe(e.ObjectNew, false)
			if !hasFinalizer(e.ObjectNew) {
				r.released.drop(e.ObjectNew.UID)
			}
			if e.ObjectNew.Spec.SealedCredentials == nil {
				r.erased.drop(e.ObjectNew.UID)
			}
			if r.changedByOthers(e.ObjectOld, e.ObjectNew) {
				enqueue(q, reconcile.Request{NamespacedName: keyOf(e.ObjectNew)}, priorityBegun)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.CompileTask], q requestQueue) {
			r.released.drop(e.Object.UID)
			r.erased.drop(e.Object.UID)
			r.drop(e.Object)
			// A pass over the task may be under way and put back what was just dropped:
			// the next one, which comes after it, drops it again.
			r.departed.add(e.Object)
			enqueue(q, reconcile.Request{NamespacedName: keyOf(e.Object)}, priorityEnding)
		},
	}
}

// drop forgets a task that has ended or is gone, and stops what only this process
// knows to run for it.
func (r *Reconciler) drop(task *v1alpha1.CompileTask) {
	r.queue.forget(task.UID)
	if at := r.attempts.take(task.UID); at != nil {
		r.stopStray(at, task)
	}
}

// departed holds deleted tasks until the pass after their deletion.
type departed struct {
	mu  sync.Mutex
	all map[types.NamespacedName][]*v1alpha1.CompileTask
}

func (d *departed) add(task *v1alpha1.CompileTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[keyOf(task)] = append(d.all[keyOf(task)], task)
}

func (d *departed) take(key types.NamespacedName) []*v1alpha1.CompileTask {
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks := d.all[key]
	delete(d.all, key)
	return tasks
}

// observe keeps the admission queue in step with a task, and drops what is known of
// one that has ended.
func (r *Reconciler) observe(task *v1alpha1.CompileTask, initial bool) {
	if task.Terminal() {
		r.drop(task)
		return
	}
	if initial {
		r.attempts.of(task).inherit(true)
	}
	onRecord := task.Status.SessionID != "" || submitting(task) || hasFinalizer(task)
	runtime := task.EffectiveRuntimeName()
	if runtime == "" || (!onRecord && (task.Spec.Suspend || task.Spec.Cancel)) {
		return
	}
	request, faults := canonical(task)
	if len(faults) > 0 {
		return
	}
	r.queue.put(r.ticketOf(task, request.To, runtime))
}

func (r *Reconciler) ticketOf(task *v1alpha1.CompileTask, target, runtime string) ticket {
	return ticket{
		uid: task.UID, key: keyOf(task), target: target, runtime: runtime,
		created: task.CreationTimestamp.Time,
		waited:  waitsOnRecord(task),
		version: task.ResourceVersion,
		running: task.Status.SessionID != "" || submitting(task) || hasFinalizer(task),
	}
}

// needsPass leaves ended tasks alone that have nothing left to be done.
func needsPass(task *v1alpha1.CompileTask) bool {
	if !task.Terminal() || hasFinalizer(task) || task.Spec.SealedCredentials != nil {
		return true
	}
	_, expires := task.TTLSeconds()
	return expires
}

// changedByOthers tells whether an update needs a pass: a change of spec or of
// deletion, or a status that this process did not write.
func (r *Reconciler) changedByOthers(old, now *v1alpha1.CompileTask) bool {
	if old.Generation != now.Generation || old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() {
		return needsPass(now)
	}
	at := r.attempts.find(now.UID)
	if at == nil {
		return !old.Terminal() && now.Terminal() && needsPass(now)
	}
	return !at.ownWrite(now)
}

// runtimeHandler keeps the limits in step and wakes the tasks when a runtime comes,
// goes, changes, or answers again. A task may wait for a runtime that is in no
// queue, so all are asked; runtimes change rarely.
func (r *Reconciler) runtimeHandler() handler.TypedEventHandler[*v1alpha1.AgentRuntime, reconcile.Request] {
	return handler.TypedFuncs[*v1alpha1.AgentRuntime, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.AgentRuntime], q requestQueue) {
			r.queue.setLimit(e.Object.Name, int(e.Object.Spec.MaxConcurrentTasks))
			if !e.IsInInitialList {
				r.wakeTasks(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.AgentRuntime], q requestQueue) {
			r.queue.setLimit(e.ObjectNew.Name, int(e.ObjectNew.Spec.MaxConcurrentTasks))
			answersAgain := !isReady(e.ObjectOld) && isReady(e.ObjectNew)
			if answersAgain || e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.MarkedDefault() != e.ObjectNew.MarkedDefault() {
				r.wakeTasks(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.AgentRuntime], q requestQueue) {
			r.queue.dropRuntime(e.Object.Name)
			r.wakeTasks(ctx, q)
		},
	}
}

func isReady(runtime *v1alpha1.AgentRuntime) bool {
	return meta.IsStatusConditionTrue(runtime.Status.Conditions, v1alpha1.ConditionReady)
}

// wakeTasks asks for a pass over every task that has not ended, and has those whose
// calls fail call again.
func (r *Reconciler) wakeTasks(ctx context.Context, q requestQueue) {
	var tasks v1alpha1.CompileTaskList
	if err := r.Client.List(ctx, &tasks, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the tasks to wake for a changed runtime; they look again by themselves")
		return
	}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		if task.Terminal() {
			continue
		}
		if at := r.attempts.find(task.UID); at != nil {
			at.retryNow()
		}
		enqueue(q, reconcile.Request{NamespacedName: keyOf(task)}, priorityNew)
	}
}

// TaskCounts says about how many tasks run on a runtime and wait for it.
func (r *Reconciler) TaskCounts(runtime string) (running, waiting int) {
	return r.queue.counts(runtime)
}

// CacheOptions trims CompileTasks before they are cached: what no pass needs is
// dropped, above all of those that have ended, of which there may be very many.
// No trimmed object is ever written back.
func CacheOptions() cache.ByObject {
	return cache.ByObject{Transform: func(object any) (any, error) {
		if task, ok := object.(*v1alpha1.CompileTask); ok {
			trim(task)
		}
		return object, nil
	}}
}

func trim(task *v1alpha1.CompileTask) {
	task.ManagedFields = nil
	task.Annotations = only(task.Annotations, v1alpha1.AnnotationRequestID, v1alpha1.AnnotationCancelRequestedAt)
	if task.Status.SessionID != "" {
		// Submitted: the request itself is not needed any more, but for the secrets in it.
		task.Spec.Instruction, task.Spec.Args, task.Spec.SealedArgs = "", nil, nil
	}
	if !task.Terminal() {
		return
	}
	task.Annotations, task.Labels = nil, nil
	sealedCredentials := task.Spec.SealedCredentials
	if sealedCredentials != nil {
		// That there are some is what says that they are still to be erased.
		sealedCredentials = &v1alpha1.SealedBody{}
	}
	task.Spec = v1alpha1.CompileTaskSpec{
		SealedCredentials: sealedCredentials,
		RuntimeName:       task.Spec.RuntimeName, Cancel: task.Spec.Cancel,
		TTLSecondsAfterFinished: task.Spec.TTLSecondsAfterFinished, TTLSecondsAfterFailed: task.Spec.TTLSecondsAfterFailed,
		Requester: v1alpha1.Requester{Username: task.Spec.Requester.Username},
	}
	conditions := task.Status.Conditions
	for i := range conditions {
		conditions[i].Message = ""
	}
	task.Status = v1alpha1.CompileTaskStatus{
		Conditions: conditions, Phase: task.Status.Phase, SessionID: task.Status.SessionID,
		RuntimeName: task.Status.RuntimeName, CompletionTime: task.Status.CompletionTime,
	}
}

// only returns the members of those names, nil when there are none.
func only(all map[string]string, names ...string) map[string]string {
	var kept map[string]string
	for _, name := range names {
		if value := all[name]; value != "" {
			if kept == nil {
				kept = make(map[string]string, len(names))
			}
			kept[name] = value
		}
	}
	return kept
}
