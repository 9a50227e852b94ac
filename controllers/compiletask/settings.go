package compiletask

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Settings of a runtime that is missing, and the floor of an empty field.
const (
	defaultUnavailableAfter = 600 * time.Second
	defaultGiveUpAfter      = 600 * time.Second
	defaultPollInterval     = 3 * time.Second
	defaultHeldPoll         = 30 * time.Second
)

// maxPollsPerSecond bounds the polls of one runtime that are not held: with very
// many tasks each is asked less often.
const maxPollsPerSecond = 50

func (r *Reconciler) settingsOf(runtime *v1alpha1.AgentRuntime) settings {
	if runtime == nil {
		return settings{unavailableAfter: defaultUnavailableAfter, giveUpAfter: defaultGiveUpAfter, pollEvery: defaultPollInterval}
	}
	spec := runtime.Spec
	running, _ := r.queue.counts(runtime.Name)
	out := settings{
		durable:          spec.DurableKeys,
		unavailableAfter: seconds(spec.UnavailableAfterSeconds, defaultUnavailableAfter),
		giveUpAfter:      seconds(spec.CancelGiveUpAfterSeconds, defaultGiveUpAfter),
		pollEvery:        jitter(max(seconds(spec.PollIntervalSeconds, defaultPollInterval), time.Second*time.Duration(running)/maxPollsPerSecond)),
		hold:             defaultHeldPoll,
	}
	if spec.HeldPollSeconds != nil {
		out.hold = time.Duration(*spec.HeldPollSeconds) * time.Second
	}
	if runtime.Status.HeldPolls == v1alpha1.HeldPollsUnsupported {
		out.hold = 0
	}
	return out
}

func seconds(value int32, unset time.Duration) time.Duration {
	if value == 0 {
		return unset
	}
	return time.Duration(value) * time.Second
}

func submitting(task *v1alpha1.CompileTask) bool {
	condition := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSubmitted)
	return condition != nil && condition.Status == metav1.ConditionUnknown
}

func suspendedOnRecord(task *v1alpha1.CompileTask) bool {
	condition := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSubmitted)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == v1alpha1.ReasonSuspended
}

func waitsOnRecord(task *v1alpha1.CompileTask) bool {
	return meta.IsStatusConditionFalse(task.Status.Conditions, v1alpha1.ConditionSubmitted)
}

func hasFinalizer(task *v1alpha1.CompileTask) bool {
	return controllerutil.ContainsFinalizer(task, v1alpha1.FinalizerCancelOnDelete)
}
