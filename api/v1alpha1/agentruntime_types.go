package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition Ready of an AgentRuntime: whether its executor answers. Tasks are
// sent to a runtime that is not ready too; they then wait and retry.
const (
	ConditionReady = "Ready"

	// ReasonProbeSucceeded: the executor answered the last probe.
	ReasonProbeSucceeded = "ProbeSucceeded"
	// ReasonProbeFailed: the executor did not answer the last probe.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonGatewayTokenRejected: the executor refuses the gateway token.
	ReasonGatewayTokenRejected = "GatewayTokenRejected"
	// ReasonGatewayTokenUnavailable: the gateway token's Secret can't be read.
	ReasonGatewayTokenUnavailable = "GatewayTokenUnavailable"
	// ReasonInvalidConfiguration: the spec can't be used, for example its URL.
	ReasonInvalidConfiguration = "InvalidConfiguration"
)

// Condition Default of an AgentRuntime marked as the default one: True for the
// one in effect, False with reason Superseded for an older one that is marked
// too.
const (
	ConditionDefault = "Default"

	// ReasonNewestMarked: this is the newest runtime with the default mark.
	ReasonNewestMarked = "NewestMarked"
	// ReasonSuperseded: a newer runtime has the default mark too and wins.
	ReasonSuperseded = "Superseded"
)

// CredentialsMode says which credential of the task's user an executor gets.
// +kubebuilder:validation:Enum=None;Secret;ServiceAccountToken
type CredentialsMode string

// The credentials modes.
const (
	// CredentialsNone: the executor gets no credential of the user.
	CredentialsNone CredentialsMode = "None"
	// CredentialsSecret: the key in the Secret that the task names.
	CredentialsSecret CredentialsMode = "Secret"
	// CredentialsServiceAccountToken: a short-lived token of the ServiceAccount
	// that the task names.
	CredentialsServiceAccountToken CredentialsMode = "ServiceAccountToken"
)

// AgentRuntimeSpec says where an executor is and how to use it. Whoever may
// write it is a cluster admin: the operator calls the URL from inside the
// cluster and hands it users' credentials.
type AgentRuntimeSpec struct {
	// url is the executor's base URL, for example
	// "https://agentruntime-runtime.agentruntime-system.svc:1944". The Runtime
	// protocol's paths (/runtime/v1/tasks…) are appended to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@\s]+(/[^?#\s]*)?$`
	URL string `json:"url,omitempty"`

	// caBundle is the PEM certificates that the executor's certificate is checked
	// against. When left out, the system's are used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	CABundle []byte `json:"caBundle,omitempty"`

	// gatewayTokenSecretRef names the Secret in the operator's namespace, of type
	// agentruntime.dev/gateway-token, that holds the token sent as
	// X-Gateway-Token. With it, and only with it, the executor also gets the
	// account and user of each task: without the token it could not believe them,
	// and need not learn them.
	// +optional
	GatewayTokenSecretRef *SecretKeyReference `json:"gatewayTokenSecretRef,omitempty"`

	// credentials says which credential of a task's user the executor gets. When
	// left out it gets none.
	// +optional
	Credentials *RuntimeCredentials `json:"credentials,omitempty"`

	// durableKeys says that the executor keeps its idempotency keys across its
	// own restarts for at least 8 days. Work on such a runtime costs fewer writes
	// to the API server: a task may be submitted, and be seen to end, before
	// anything is recorded, since repeating the submit is always safe. Unset
	// means false.
	// +optional
	DurableKeys bool `json:"durableKeys,omitempty"`

	// maxConcurrentTasks bounds the tasks that run on this runtime at a time; the
	// rest wait, with namespaces taking turns.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxConcurrentTasks int32 `json:"maxConcurrentTasks,omitempty"`

	// requestTimeoutSeconds bounds one call to the executor. A held poll gets
	// that much on top of the time it is held.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	RequestTimeoutSeconds int32 `json:"requestTimeoutSeconds,omitempty"`

	// pollIntervalSeconds is how often a running task is asked for its state where
	// polls are not held. It stretches when very many tasks run.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	PollIntervalSeconds int32 `json:"pollIntervalSeconds,omitempty"`

	// heldPollSeconds is how long the executor is asked to hold a poll until
	// something changes ("Prefer: wait"). At most 256 polls a runtime are held at
	// a time. 0 turns held polls off.
	// +optional
	// +default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60
	HeldPollSeconds *int32 `json:"heldPollSeconds,omitempty"`

	// unavailableAfterSeconds is how long calls for a task may fail in a passing
	// way before the task fails as UNAVAILABLE.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	UnavailableAfterSeconds int32 `json:"unavailableAfterSeconds,omitempty"`

	// cancelGiveUpAfterSeconds bounds how long a cancel that the executor keeps
	// refusing is repeated before the task ends as Cancelled all the same, with
	// reason CancelUnconfirmed. It also bounds how long the finalizer of a deleted
	// task waits.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	CancelGiveUpAfterSeconds int32 `json:"cancelGiveUpAfterSeconds,omitempty"`

	// contentStore says where the files behind viking:// URIs can be looked up
	// before a task is created through the REST API. When left out, the executor
	// finds out.
	// +optional
	ContentStore *ContentStoreReference `json:"contentStore,omitempty"`
}

// RuntimeCredentials says which credential of a task's user an executor gets.
// +kubebuilder:validation:XValidation:rule="self.mode != 'ServiceAccountToken' || has(self.audience)",message="audience is required with mode ServiceAccountToken"
// +kubebuilder:validation:XValidation:rule="self.mode == 'ServiceAccountToken' || !has(self.audience)",message="audience is only for mode ServiceAccountToken"
type RuntimeCredentials struct {
	// mode is None, Secret (the task's credentialsSecretName), or
	// ServiceAccountToken (a token of the task's serviceAccountName). A task that
	// names neither waits with reason CredentialsUnavailable unless mode is None.
	// +required
	Mode CredentialsMode `json:"mode,omitempty"`

	// audience is the audience of the ServiceAccount tokens. The executor must
	// check them with a TokenReview for it. It can't be an audience of the API
	// server itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Audience string `json:"audience,omitempty"`
}

// SecretKeyReference names a key of a Secret in the operator's namespace.
type SecretKeyReference struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// key is the key in the Secret's data.
	// +optional
	// +default="token"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ContentStoreReference says where the files behind viking:// URIs are.
type ContentStoreReference struct {
	// url is the base URL of a server of OpenViking's file API.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@\s]+(/[^?#\s]*)?$`
	URL string `json:"url,omitempty"`

	// caBundle is the PEM certificates that the server's certificate is checked
	// against. When left out, the system's are used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	CABundle []byte `json:"caBundle,omitempty"`

	// gatewayTokenSecretRef names the Secret in the operator's namespace, of type
	// agentruntime.dev/gateway-token, that holds the token sent as
	// X-Gateway-Token, with the account and user of each request beside it. The
	// built-in executor needs it. Without it only the key that the caller's API
	// key forwards is sent.
	// +optional
	GatewayTokenSecretRef *SecretKeyReference `json:"gatewayTokenSecretRef,omitempty"`
}

// HeldPollSupport says whether an executor can hold polls.
// +kubebuilder:validation:Enum=Supported;Unsupported
type HeldPollSupport string

// Whether an executor can hold polls.
const (
	HeldPollsSupported   HeldPollSupport = "Supported"
	HeldPollsUnsupported HeldPollSupport = "Unsupported"
)

// AgentRuntimeStatus is what is known of an executor.
type AgentRuntimeStatus struct {
	// conditions tell whether the executor answers (Ready) and, for a runtime
	// with the default mark, whether it is the default one (Default).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// heldPolls says whether the executor can hold polls ("Prefer: wait"), once
	// it is known.
	// +optional
	HeldPolls HeldPollSupport `json:"heldPolls,omitempty"`

	// runningTasks is about how many tasks run on the runtime; it lags by a few
	// seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RunningTasks *int32 `json:"runningTasks,omitempty"`

	// waitingTasks is about how many tasks wait for the runtime; it lags by a few
	// seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WaitingTasks *int32 `json:"waitingTasks,omitempty"`
}

// AgentRuntime is an executor that CompileTasks can be sent to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=art,categories=agents
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.status.conditions[?(@.type=="Default")].status`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.runningTasks`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxConcurrentTasks`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waitingTasks`,priority=1
// +kubebuilder:printcolumn:name="Held polls",type=string,JSONPath=`.status.heldPolls`,priority=1
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,priority=1
type AgentRuntime struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says where the executor is and how to use it.
	// +required
	Spec AgentRuntimeSpec `json:"spec,omitzero"`

	// status is what is known of it.
	// +optional
	Status AgentRuntimeStatus `json:"status,omitzero"`
}

// AgentRuntimeList is a list of AgentRuntimes.
//
// +kubebuilder:object:root=true
type AgentRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []AgentRuntime `json:"items"`
}

// MarkedDefault reports whether the runtime carries the default mark.
func (r *AgentRuntime) MarkedDefault() bool {
	return r.Annotations[AnnotationDefaultRuntime] == "true" && r.DeletionTimestamp.IsZero()
}

// DefaultRuntime returns the runtime that tasks without a runtimeName use: the
// newest with the default mark, by name where two are equally new; nil when none
// has it.
func DefaultRuntime(runtimes []AgentRuntime) *AgentRuntime {
	var newest *AgentRuntime
	for i := range runtimes {
		candidate := &runtimes[i]
		if !candidate.MarkedDefault() {
			continue
		}
		if newest == nil || newerThan(candidate, newest) {
			newest = candidate
		}
	}
	return newest
}

func newerThan(a, b *AgentRuntime) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name
}
