// Package agentruntime reconciles AgentRuntimes: it asks each executor from time
// to time whether it answers and what it can do, and says so in the status.
package agentruntime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/executor/registry"
)

// ProbeInterval is the time between two probes of an executor.
const ProbeInterval = 15 * time.Second

// workers is how many executors are probed at a time. A probe takes at most the
// runtime's requestTimeoutSeconds.
const workers = 8

// Executors gives the client of an AgentRuntime and drops it.
type Executors interface {
	For(runtime *v1alpha1.AgentRuntime) (executor.Executor, error)
	Forget(runtime string)
}

// TaskCounter says about how many tasks run on a runtime and wait for it.
type TaskCounter interface {
	TaskCounts(runtime string) (running, waiting int)
}

// Reconciler keeps the status of AgentRuntimes.
type Reconciler struct {
	Client    client.Client
	Executors Executors
	Tasks     TaskCounter
	Recorder  events.EventRecorder
	Now       func() time.Time
}

// +kubebuilder:rbac:groups=agentruntime.dev,resources=agentruntimes,verbs=get;list;watch
// +kubebuilder:rbac:groups=agentruntime.dev,resources=agentruntimes/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile probes one runtime and writes its status when that changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var runtime v1alpha1.AgentRuntime
	if err := r.Client.Get(ctx, req.NamespacedName, &runtime); err != nil {
		if apierrors.IsNotFound(err) {
			r.Executors.Forget(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get AgentRuntime %q: %w", req.Name, err)
	}
	if !runtime.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var all v1alpha1.AgentRuntimeList
	if err := r.Client.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list AgentRuntimes: %w", err)
	}
	next := runtime.DeepCopy()
	next.Status.ObservedGeneration = runtime.Generation
	r.setReady(ctx, next)
	setDefault(next, v1alpha1.DefaultRuntime(all.Items), r.Now())
	running, waiting := r.Tasks.TaskCounts(runtime.Name)
	next.Status.RunningTasks, next.Status.WaitingTasks = ptr.To(int32(running)), ptr.To(int32(waiting))
	if !equality.Semantic.DeepEqual(runtime.Status, next.Status) {
		if err := r.Client.Status().Update(ctx, next); err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: time.Second}, nil
			}
			return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("write the status: %w", err))
		}
		r.tell(&runtime, next)
	}
	return ctrl.Result{RequeueAfter: time.Duration(float64(ProbeInterval) * (0.9 + 0.2*rand.Float64()))}, nil
}

// setReady probes the executor.
func (r *Reconciler) setReady(ctx context.Context, runtime *v1alpha1.AgentRuntime) {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration, ""
	exec, err := r.Executors.For(runtime)
	if err != nil {
		message = fmt.Sprintf("The runtime can't be called: %v", err)
	} else {
		var capabilities executor.Capabilities
		capabilities, err = exec.Probe(ctx)
		status, reason, message = judge(err)
		if err == nil {
			runtime.Status.HeldPolls = v1alpha1.HeldPollsUnsupported
			if capabilities.HeldPolls {
				runtime.Status.HeldPolls = v1alpha1.HeldPollsSupported
			}
		}
	}
	meta.SetStatusCondition(&runtime.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message,
		ObservedGeneration: runtime.Generation, LastTransitionTime: metav1.Time{Time: r.Now()},
	})
}

// judge turns a probe's outcome into a condition.
func judge(err error) (status metav1.ConditionStatus, reason, message string) {
	switch {
	case err == nil:
		return metav1.ConditionTrue, v1alpha1.ReasonProbeSucceeded, "The executor answers"
	case errors.Is(err, registry.ErrTokenUnavailable):
		return metav1.ConditionFalse, v1alpha1.ReasonGatewayTokenUnavailable,
			"The gateway token can't be read: " + tokenCause(err) + "; create the Secret in the operator's namespace"
	case executor.IsGatewayRejected(err):
		return metav1.ConditionFalse, v1alpha1.ReasonGatewayTokenRejected,
			"The executor refuses the gateway token; set gatewayTokenSecretRef to a Secret with the token the executor expects"
	}
	return metav1.ConditionFalse, v1alpha1.ReasonProbeFailed,
		"The executor did not answer the last probe: " + err.Error() + "; tasks wait and retry"
}

// tokenCause returns why a gateway token can't be read, which the call's own text
// keeps from the users of tasks.
func tokenCause(err error) string {
	if call, ok := errors.AsType[*executor.Error](err); ok && call.Unwrap() != nil {
		return call.Unwrap().Error()
	}
	return err.Error()
}

// setDefault says of a runtime with the default mark whether it is in effect.
func setDefault(runtime, inEffect *v1alpha1.AgentRuntime, now time.Time) {
	if !runtime.MarkedDefault() {
		meta.RemoveStatusCondition(&runtime.Status.Conditions, v1alpha1.ConditionDefault)
		return
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionDefault, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNewestMarked,
		Message:            "Tasks without a runtimeName use this runtime",
		ObservedGeneration: runtime.Generation, LastTransitionTime: metav1.Time{Time: now},
	}
	if inEffect != nil && inEffect.Name != runtime.Name {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonSuperseded
		condition.Message = fmt.Sprintf("AgentRuntime %q is newer and has the default mark too, so it is the default; remove the annotation %s from one of them",
			inEffect.Name, v1alpha1.AnnotationDefaultRuntime)
	}
	meta.SetStatusCondition(&runtime.Status.Conditions, condition)
}

// tell makes an event of each condition that changed.
func (r *Reconciler) tell(before, after *v1alpha1.AgentRuntime) {
	for _, condition := range after.Status.Conditions {
		old := meta.FindStatusCondition(before.Status.Conditions, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		eventType := corev1.EventTypeNormal
		if condition.Status == metav1.ConditionFalse {
			eventType = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, eventType, condition.Reason, "Probe", "%s", condition.Message)
	}
}

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ours := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("agentruntime").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v1alpha1.AgentRuntime{}, builder.WithPredicates(ours)).
		Watches(&v1alpha1.AgentRuntime{}, handler.EnqueueRequestsFromMapFunc(r.otherMarked), builder.WithPredicates(marked())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the agentruntime controller: %w", err)
	}
	return nil
}

// marked lets through what may change which runtime is the default.
func marked() predicate.Predicate {
	is := func(object client.Object) bool {
		runtime, ok := object.(*v1alpha1.AgentRuntime)
		return ok && runtime.MarkedDefault()
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// otherMarked lists the runtimes whose Default condition may change with another.
func (r *Reconciler) otherMarked(ctx context.Context, changed client.Object) []reconcile.Request {
	var all v1alpha1.AgentRuntimeList
	if err := r.Client.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List AgentRuntimes")
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != changed.GetName() && other.MarkedDefault() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		}
	}
	return requests
}
