package v1alpha1

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/viking"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=agentruntime.dev,resources=agentruntimes,verbs=get;list;watch

// The update condition is as narrow as it can be and still sound. CEL compares
// free JSON loosely, so it can't say itself whether args changed; but the API
// server raises the generation, exactly, before validating admission looks. A
// task without args never needs this webhook after its creation.

// +kubebuilder:webhook:path=/mutate-agentruntime-dev-v1alpha1-compiletask,mutating=true,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=agentruntime.dev,resources=compiletasks,verbs=create,versions=v1alpha1,name=default-compiletask.agentruntime.dev,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-agentruntime-dev-v1alpha1-compiletask,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=agentruntime.dev,resources=compiletasks,verbs=create;update,versions=v1alpha1,name=validate-compiletask.agentruntime.dev,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"created-or-args-may-have-changed","expression":"request.operation == 'CREATE' || (object.metadata.generation != oldObject.metadata.generation && (has(object.spec.args) || has(oldObject.spec.args)))"}]}`

// Options are what admission needs from outside. The zero value takes everything
// from the manager.
type Options struct {
	// Authorizer answers what the requester may use; SubjectAccessReviews of the
	// manager's cluster when nil.
	Authorizer access.Authorizer
	// Runtimes lists AgentRuntimes; the manager's cached client when nil.
	Runtimes client.Reader
	// KeyRing checks the marks of the REST API. When nil no mark fits, and all tasks
	// of the REST API are refused.
	KeyRing *sealed.KeyRing
}

// SetupWithManager serves the admission of CompileTasks on the manager's webhook
// server.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	if options.Runtimes == nil {
		options.Runtimes = mgr.GetClient()
	}
	if options.Authorizer == nil {
		authorizer, err := authorizerFor(mgr)
		if err != nil {
			return err
		}
		options.Authorizer = authorizer
	}
	err := ctrl.NewWebhookManagedBy(mgr, &v1alpha1.CompileTask{}).
		WithDefaulter(&compileTaskDefaulter{runtimes: options.Runtimes}).
		WithValidator(&compileTaskValidator{authorizer: options.Authorizer, keyRing: options.KeyRing}).
		Complete()
	if err != nil {
		return fmt.Errorf("set up CompileTask admission: %w", err)
	}
	return nil
}

// authorizerFor has no client-side rate limit: a user's create waits for it, and
// the API server has fair queues of its own.
func authorizerFor(mgr ctrl.Manager) (access.Authorizer, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS = -1
	reviews, err := authorizationclient.NewForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make the client for access reviews: %w", err)
	}
	return access.NewSubjectAccessReviews(reviews), nil
}

var (
	_ admission.Defaulter[*v1alpha1.CompileTask] = (*compileTaskDefaulter)(nil)
	_ admission.Validator[*v1alpha1.CompileTask] = (*compileTaskValidator)(nil)
)

// compileTaskDefaulter stamps new tasks.
type compileTaskDefaulter struct {
	runtimes client.Reader
}

// Default records who creates the task and fills in the default runtime. It acts
// at creation only: both are fixed from then on.
func (d *compileTaskDefaulter) Default(ctx context.Context, task *v1alpha1.CompileTask) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if request.Operation != admissionv1.Create {
		return nil
	}
	requester := requesterOf(request.UserInfo)
	if faults := checkRequester(requester, requesterPath()); len(faults) > 0 {
		return invalid(task, faults)
	}
	task.Spec.Requester = requester
	if task.Spec.RuntimeName != "" {
		return nil
	}
	name, err := defaultRuntimeName(ctx, d.runtimes)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	task.Spec.RuntimeName = name
	return nil
}

// compileTaskValidator checks new tasks, and that args stay as they are.
type compileTaskValidator struct {
	authorizer access.Authorizer
	keyRing    *sealed.KeyRing
}

// ValidateCreate lists every fault of the task and everything its requester lacks
// in one answer: 422 when something is wrong with the task, 403 when only rights
// are missing, 500 when nobody could say.
func (v *compileTaskValidator) ValidateCreate(ctx context.Context, task *v1alpha1.CompileTask) (admission.Warnings, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	// The user of the request, not what the object says: this check does not rely
	// on the stamp.
	requester := requesterOf(request.UserInfo)
	marked := markFits(v.keyRing, task, request.Namespace, requester.Username, time.Now())
	faults := ValidateCompileTask(task, nil, viking.Caller{User: viking.UserID(requester.Username)}, marked)
	denials, err := checkReferences(ctx, v.authorizer, requester, request.Namespace, &task.Spec)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("check what the requester may use: %w", err))
	}
	faults = append(faults, denials...)
	if len(faults) > 0 {
		return nil, refusal(task, faults)
	}
	if task.Spec.RuntimeName == "" {
		return admission.Warnings{"no AgentRuntime is marked as default: the task waits until one is"}, nil
	}
	return nil, nil
}

// ValidateUpdate checks what CEL rules can't see of a change.
func (v *compileTaskValidator) ValidateUpdate(_ context.Context, old, task *v1alpha1.CompileTask) (admission.Warnings, error) {
	if faults := ValidateCompileTask(task, old, viking.Caller{}, false); len(faults) > 0 {
		return nil, invalid(task, faults)
	}
	return nil, nil
}

// ValidateDelete lets everything through; deletion is not sent here.
func (*compileTaskValidator) ValidateDelete(context.Context, *v1alpha1.CompileTask) (admission.Warnings, error) {
	return nil, nil
}

// refusal is 403 when every fault is a missing permission, else 422. Either has
// the faults as causes with their fields, for programs to read.
func refusal(task *v1alpha1.CompileTask, faults field.ErrorList) error {
	causes := make([]metav1.StatusCause, 0, len(faults))
	for _, fault := range faults {
		if fault.Origin != originPermission {
			return invalid(task, faults)
		}
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseType(fault.Type), Message: fault.ErrorBody(), Field: fault.Field,
		})
	}
	resource := v1alpha1.GroupVersion.WithResource("compiletasks").GroupResource()
	status := apierrors.NewForbidden(resource, nameOf(task), faults.ToAggregate())
	status.ErrStatus.Details.Causes = causes
	return status
}

func invalid(task *v1alpha1.CompileTask, faults field.ErrorList) error {
	kind := v1alpha1.GroupVersion.WithKind("CompileTask").GroupKind()
	return apierrors.NewInvalid(kind, nameOf(task), faults)
}

func nameOf(task *v1alpha1.CompileTask) string {
	if task.Name == "" {
		return task.GenerateName
	}
	return task.Name
}
