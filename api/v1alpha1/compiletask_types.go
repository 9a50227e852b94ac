package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FinalizerCancelOnDelete is on a CompileTask while an executor works on it, so
// that deleting the task cancels the work. It is put on only before a task is
// left running, comes off when the task ends, and gives up after the runtime's
// cancelGiveUpAfterSeconds.
const FinalizerCancelOnDelete = "agentruntime.dev/cancel-on-delete"

// Condition Submitted of a CompileTask: whether an executor has accepted it.
//
//   - True, Accepted: an executor runs it; status.sessionID names the session.
//   - Unknown, Submitting: the create call may be under way. Its outcome is
//     learned by repeating it under the same key.
//   - False: the task waits and was never submitted. The reason says for what. A
//     task that ended so has reason NeverSubmitted.
const (
	ConditionSubmitted = "Submitted"

	// ReasonAccepted: the executor answered the create call with a session.
	ReasonAccepted = "Accepted"
	// ReasonSubmitting: the create call is about to be sent or under way.
	ReasonSubmitting = "Submitting"
	// ReasonSuspended: spec.suspend holds the task.
	ReasonSuspended = "Suspended"
	// ReasonTargetBusy: an older task of the namespace has the same target.
	ReasonTargetBusy = "TargetBusy"
	// ReasonRuntimeBusy: the runtime runs as many tasks as it may.
	ReasonRuntimeBusy = "RuntimeBusy"
	// ReasonRuntimeNotFound: the named AgentRuntime, or a default one, is missing.
	ReasonRuntimeNotFound = "RuntimeNotFound"
	// ReasonRuntimeInvalid: the AgentRuntime can't be called as it is configured.
	ReasonRuntimeInvalid = "RuntimeInvalid"
	// ReasonCredentialsUnavailable: a Secret or token the task needs can't be had.
	ReasonCredentialsUnavailable = "CredentialsUnavailable"
	// ReasonNeverSubmitted: the task ended before it was submitted.
	ReasonNeverSubmitted = "NeverSubmitted"
	// ReasonNotPermitted: the requester may not use the runtime, Secret or
	// ServiceAccount that the task names.
	ReasonNotPermitted = "NotPermitted"
)

// Condition ExecutorReachable of a CompileTask: whether the last call to the
// executor got through. It is absent until a call has failed.
const (
	ConditionExecutorReachable = "ExecutorReachable"

	// ReasonCallFailed: the last call failed in a way that may pass; it is
	// repeated with growing waits until the runtime's unavailableAfterSeconds.
	ReasonCallFailed = "CallFailed"
	// ReasonReachable: calls get through again.
	ReasonReachable = "Reachable"
)

// The terminal conditions of a CompileTask. Exactly one is True once it ended.
const (
	// ConditionComplete: the executor completed the task; reason Completed, or
	// Salvaged when only part of the work could be saved (compile-api.md, F.5).
	ConditionComplete = "Complete"
	// ConditionFailed: the task ended without its result; see status.error.
	ConditionFailed = "Failed"
	// ConditionCancelled: the task was cancelled. What it had written stays.
	ConditionCancelled = "Cancelled"

	// ReasonCompleted: the executor finished the whole task.
	ReasonCompleted = "Completed"
	// ReasonSalvaged: the executor saved what there was at its limit.
	ReasonSalvaged = "Salvaged"
	// ReasonExecutorFailed: the executor ran the task and reported a failure.
	ReasonExecutorFailed = "ExecutorFailed"
	// ReasonRejected: the executor or the operator refused the task for good.
	ReasonRejected = "Rejected"
	// ReasonInvalidRequest: the task's URIs are not valid, or it pretends to come
	// from the REST API. Admission refuses such tasks, so this shows only where
	// admission was bypassed.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonSealedBodyUnreadable: a body that the REST API sealed into the task can't
	// be opened, so that what the task asks for is not known.
	ReasonSealedBodyUnreadable = "SealedBodyUnreadable"
	// ReasonExecutorUnavailable: calls failed for longer than the runtime's
	// unavailableAfterSeconds.
	ReasonExecutorUnavailable = "ExecutorUnavailable"
	// ReasonSessionLost: the executor no longer knows the session.
	ReasonSessionLost = "SessionLost"
	// ReasonSubmitOutcomeUnknown: the credential changed after the create call
	// may have been sent, so repeating it could run the work twice.
	ReasonSubmitOutcomeUnknown = "SubmitOutcomeUnknown"
	// ReasonDeadlineExceeded: the task ran longer than activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonCancelledByUser: spec.cancel was set and the work has stopped.
	ReasonCancelledByUser = "CancelledByUser"
	// ReasonCancelledByExecutor: the executor cancelled the task by itself.
	ReasonCancelledByExecutor = "CancelledByExecutor"
	// ReasonCancelUnconfirmed: the executor refused or failed every cancel call
	// for the runtime's cancelGiveUpAfterSeconds; the work may still run.
	ReasonCancelUnconfirmed = "CancelUnconfirmed"
)

// CompileTaskPhase is a one-word summary of a CompileTask, derived from its spec
// and conditions (see CompileTask.DerivePhase).
// +kubebuilder:validation:Enum=Pending;Running;Cancelling;Completed;Failed;Cancelled
type CompileTaskPhase string

// The phases of a CompileTask.
const (
	CompileTaskPending    CompileTaskPhase = "Pending"
	CompileTaskRunning    CompileTaskPhase = "Running"
	CompileTaskCancelling CompileTaskPhase = "Cancelling"
	CompileTaskCompleted  CompileTaskPhase = "Completed"
	CompileTaskFailed     CompileTaskPhase = "Failed"
	CompileTaskCancelled  CompileTaskPhase = "Cancelled"
)

// Stages the operator sets itself; all others are the executor's words.
const (
	StageQueued     = "queued"
	StageSubmitting = "submitting"
	StageCompleted  = "completed"
	StageSalvaged   = "salvaged"
	StageCancelled  = "cancelled"
)

// Codes of status.error that the operator sets itself (compile-api.md, A.3).
const (
	ErrorCodeInvalidArgument      = "INVALID_ARGUMENT"
	ErrorCodeUnavailable          = "UNAVAILABLE"
	ErrorCodeNotFound             = "NOT_FOUND"
	ErrorCodeDeadlineExceeded     = "DEADLINE_EXCEEDED"
	ErrorCodeSubmitOutcomeUnknown = "SUBMIT_OUTCOME_UNKNOWN"
	ErrorCodeInternal             = "INTERNAL"
	ErrorCodeUnknown              = "UNKNOWN"
)

// Bounds of a CompileTask beyond those in its schema.
const (
	// MaxInlineResultBytes is the largest result kept in status. A larger one
	// goes, sealed, into the Payload that status.resultPayloadName names.
	MaxInlineResultBytes = 16 << 10
	// MaxMetaBytes is the largest status.meta; larger metadata is left out, with
	// a warning in the result summary.
	MaxMetaBytes = 16 << 10
	// MaxArgsBytes is the largest spec.args.
	MaxArgsBytes = 256 << 10
)

// CompileTaskSpec says what to compile and how. It can't be changed after
// creation, except for suspend, cancel and the two TTLs.
//
// +kubebuilder:validation:XValidation:rule="self.from == oldSelf.from",message="from is immutable; create a new CompileTask",fieldPath=".from"
// +kubebuilder:validation:XValidation:rule="self.to == oldSelf.to",message="to is immutable; create a new CompileTask",fieldPath=".to"
// +kubebuilder:validation:XValidation:rule="self.skill == oldSelf.skill",message="skill is immutable; create a new CompileTask",fieldPath=".skill"
// +kubebuilder:validation:XValidation:rule="has(self.instruction) == has(oldSelf.instruction) && (!has(self.instruction) || self.instruction == oldSelf.instruction)",message="instruction is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.args) == has(oldSelf.args)",message="args is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.runtimeName) == has(oldSelf.runtimeName) && (!has(self.runtimeName) || self.runtimeName == oldSelf.runtimeName)",message="runtimeName is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.credentialsSecretName) == has(oldSelf.credentialsSecretName) && (!has(self.credentialsSecretName) || self.credentialsSecretName == oldSelf.credentialsSecretName)",message="credentialsSecretName is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) == has(oldSelf.serviceAccountName) && (!has(self.serviceAccountName) || self.serviceAccountName == oldSelf.serviceAccountName)",message="serviceAccountName is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.activeDeadlineSeconds) == has(oldSelf.activeDeadlineSeconds) && (!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds == oldSelf.activeDeadlineSeconds)",message="activeDeadlineSeconds is immutable; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="has(self.restRequest) == has(oldSelf.restRequest) && (!has(self.restRequest) || self.restRequest == oldSelf.restRequest)",message="restRequest is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.sealedArgs) == has(oldSelf.sealedArgs) && (!has(self.sealedArgs) || self.sealedArgs == oldSelf.sealedArgs)",message="sealedArgs is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.sealedCredentials) || (has(oldSelf.sealedCredentials) && self.sealedCredentials == oldSelf.sealedCredentials)",message="sealedCredentials can only be removed, by the operator"
// +kubebuilder:validation:XValidation:rule="!(has(self.args) && has(self.sealedArgs))",message="args and sealedArgs exclude each other"
// +kubebuilder:validation:XValidation:rule="self.requester == oldSelf.requester",message="requester is set at creation and immutable"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || (has(self.cancel) && self.cancel)",message="cancel can't be taken back; create a new CompileTask"
// +kubebuilder:validation:XValidation:rule="!has(self.credentialsSecretName) || !has(self.serviceAccountName)",message="credentialsSecretName and serviceAccountName exclude each other"
type CompileTaskSpec struct {
	// from lists the source directories as viking:// URIs, for example
	// "viking://resources/research". Path variables such as
	// "{calendar:today}" are expanded in UTC at the task's creation time.
	// Duplicates are dropped.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	From []string `json:"from,omitempty"`

	// to is the target as a viking:// URI: a directory below
	// "viking://resources" or below a memory type, or a skills namespace. It may
	// not exist yet. Tasks of one namespace with the same target run one at a
	// time, oldest first.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	To string `json:"to,omitempty"`

	// skill is the Skill that says what to produce, as the viking:// URI of its
	// directory or of its SKILL.md.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Skill string `json:"skill,omitempty"`

	// instruction adds to what the Skill says, for this task only. When left out
	// the Skill alone decides.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Instruction string `json:"instruction,omitempty"`

	// args is a JSON object passed to the executor as it is, for example
	// {"model_name": "my-endpoint"}. Numbers follow Kubernetes' rules. The secret
	// keys "api_key" and "user_key" are refused here: anyone who may read the task
	// could read them. Use credentialsSecretName instead.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Args *runtime.RawExtension `json:"args,omitempty"`

	// runtimeName names the AgentRuntime that runs the task. When left out, the
	// default one is filled in at creation. The requester needs the verb "use" on
	// it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	RuntimeName string `json:"runtimeName,omitempty"`

	// credentialsSecretName names a Secret of the task's namespace, of type
	// agentruntime.dev/credentials, whose key "api-key" is sent to the executor
	// as the user's credential. The requester must be allowed to get it, when the
	// task is created and when it is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// serviceAccountName names a ServiceAccount of the task's namespace. A
	// short-lived token of it, for the audience the AgentRuntime names, is sent
	// to the executor as the user's credential. The requester must be allowed to
	// create that token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// suspend holds a task that has not been submitted yet. It has no effect on
	// one that runs. Unset means false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel asks to stop the task. It can be set once and not taken back. What
	// the task has already written stays. Unset means false.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// activeDeadlineSeconds bounds how long the task may run, counted from its
	// submission. Past it the work is cancelled and the task fails with
	// DEADLINE_EXCEEDED. Unset means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished deletes the task this long after it ended. Unset
	// means it is kept; 0 means it goes at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ttlSecondsAfterFailed takes the place of ttlSecondsAfterFinished for a task
	// that failed. Unset means ttlSecondsAfterFinished holds for it too.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFailed *int32 `json:"ttlSecondsAfterFailed,omitempty"`

	// sealedArgs holds args whose exact text the field args could not keep, such
	// as large integers. It takes the place of args and stays readable through the
	// REST API, which alone writes it.
	// +optional
	SealedArgs *SealedBody `json:"sealedArgs,omitempty"`

	// sealedCredentials holds what only the executor may see: the key that the
	// caller of the REST API has forwarded, and args with secrets in them. The REST
	// API alone writes it, and the operator removes it when the task has ended.
	// +optional
	SealedCredentials *SealedBody `json:"sealedCredentials,omitempty"`

	// restRequest tells of the REST call that created the task. It is absent from
	// tasks that were created otherwise, and only the REST API can make it.
	// +optional
	RESTRequest *RESTRequest `json:"restRequest,omitempty"`

	// requester is who created the task, stamped by the operator's admission
	// webhook. What a client writes here is replaced.
	// +required
	Requester Requester `json:"requester,omitzero"`
}

// CompileTaskStatus is what has become of a CompileTask.
type CompileTaskStatus struct {
	// conditions tell the task's state: Submitted, ExecutorReachable, and once
	// it ended exactly one of Complete, Failed and Cancelled. A message says what
	// is the matter and what to do.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the conditions in a word: Pending, Running, Cancelling,
	// Completed, Failed or Cancelled. An empty phase means Pending.
	// +optional
	Phase CompileTaskPhase `json:"phase,omitempty"`

	// stage is what the task is doing: "queued", "submitting", then the
	// executor's own words. An ended task says "completed", "salvaged",
	// "cancelled", or the stage in which it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Stage string `json:"stage,omitempty"`

	// taskID is the task's id in the REST API and the Idempotency-Key under
	// which the executor knows it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	TaskID string `json:"taskID,omitempty"`

	// runtimeName is the AgentRuntime that runs the task.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RuntimeName string `json:"runtimeName,omitempty"`

	// sessionID is the executor's id of the run.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	SessionID string `json:"sessionID,omitempty"`

	// credentialFingerprint is a keyed hash of the credential under which the
	// task is submitted, kept until the session is known.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	CredentialFingerprint string `json:"credentialFingerprint,omitempty"`

	// canonical is the request with its URIs in canonical form and its path
	// variables expanded.
	// +optional
	Canonical *CanonicalRequest `json:"canonical,omitempty"`

	// startTime is when the task was submitted.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`

	// completionTime is when the task ended.
	// +optional
	CompletionTime *metav1.MicroTime `json:"completionTime,omitempty"`

	// updateTime is when this status last changed. It always moves forward.
	// +optional
	UpdateTime *metav1.MicroTime `json:"updateTime,omitempty"`

	// error says why the task failed. Credentials are redacted from it.
	// +optional
	Error *TaskError `json:"error,omitempty"`

	// meta is what the executor reports beside the result, for example
	// token_usage.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Meta *runtime.RawExtension `json:"meta,omitempty"`

	// result is the executor's result, when it is at most 16 KiB. A larger one is
	// kept, sealed, in the Payload that resultPayloadName names. Only the operator
	// can open that; the REST API shows it to whoever may see the task.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Result *runtime.RawExtension `json:"result,omitempty"`

	// resultPayloadName names the Payload that holds a result over 16 KiB, sealed.
	// The REST API shows its content.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResultPayloadName string `json:"resultPayloadName,omitempty"`

	// resultSummary counts what a completed task did, whatever the result's size.
	// +optional
	ResultSummary *ResultSummary `json:"resultSummary,omitempty"`
}

// CanonicalRequest is a compile request in canonical form (compile-api.md, G).
type CanonicalRequest struct {
	// from lists the canonical sources, without duplicates, in request order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	From []string `json:"from,omitempty"`

	// to is the canonical target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	To string `json:"to,omitempty"`

	// skill is the canonical Skill root.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Skill string `json:"skill,omitempty"`
}

// TaskError is why a task failed, in the wire's terms (compile-api.md, A.3, F.3).
type TaskError struct {
	// code is a word such as UNAVAILABLE or SKILL_INVALID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Code string `json:"code,omitempty"`

	// message says what happened, in at most 500 characters and a mark where it
	// was cut.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ResultSummary counts what a completed task did (compile-api.md, F.4).
type ResultSummary struct {
	// created is the number of files the task created.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Created int32 `json:"created,omitempty"`

	// updated is the number of files the task changed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Updated int32 `json:"updated,omitempty"`

	// unchanged is the number of files the task found as it would have written
	// them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unchanged int32 `json:"unchanged,omitempty"`

	// pageCount is the number of wiki pages in the output.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PageCount int32 `json:"pageCount,omitempty"`

	// linkCount is the number of links the executor inserted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LinkCount int32 `json:"linkCount,omitempty"`

	// warnings are the first of the executor's warnings.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`

	// warningCount is how many warnings there were in all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WarningCount int32 `json:"warningCount,omitempty"`

	// resultBytes is the size of the executor's result as JSON, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ResultBytes int64 `json:"resultBytes,omitempty"`
}

// CompileTask is one compile: it has an executor turn source directories into a
// target directory as a Skill describes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ct,categories=agents
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.to`
// +kubebuilder:printcolumn:name="Skill",type=string,JSONPath=`.spec.skill`
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.spec.runtimeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Submitted",type=string,JSONPath=`.status.conditions[?(@.type=="Submitted")].reason`,priority=1
// +kubebuilder:printcolumn:name="Bound runtime",type=string,JSONPath=`.status.runtimeName`,priority=1
// +kubebuilder:printcolumn:name="Created",type=integer,JSONPath=`.status.resultSummary.created`,priority=1
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.resultSummary.updated`,priority=1
// +kubebuilder:printcolumn:name="Unchanged",type=integer,JSONPath=`.status.resultSummary.unchanged`,priority=1
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requester.username`,priority=1
// +kubebuilder:printcolumn:name="Task ID",type=string,JSONPath=`.status.taskID`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error.code`,priority=1
type CompileTask struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what to compile.
	// +required
	Spec CompileTaskSpec `json:"spec,omitzero"`

	// status is what has become of it.
	// +optional
	Status CompileTaskStatus `json:"status,omitzero"`
}

// CompileTaskList is a list of CompileTasks.
//
// +kubebuilder:object:root=true
type CompileTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CompileTask `json:"items"`
}
