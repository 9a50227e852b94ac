package v1alpha1

// Annotations and labels of the operator.
const (
	// AnnotationDefaultRuntime marks the AgentRuntime that tasks without a
	// runtimeName use, when its value is "true". Of several marked ones the
	// newest wins, as with IngressClass.
	AnnotationDefaultRuntime = "agentruntime.dev/is-default-runtime"

	// AnnotationRequestID holds the X-Request-ID of the REST call that created a
	// task. It is sent to the executor as X-Tt-Logid (compile-api.md, A.4).
	AnnotationRequestID = "agentruntime.dev/request-id"

	// AnnotationCancelRequestedAt is when the REST API took a task's cancel, in
	// RFC 3339 with microseconds. The next status.updateTime comes after it, so that
	// the time of change that the REST API shows keeps increasing.
	AnnotationCancelRequestedAt = "agentruntime.dev/cancel-requested-at"
)

// SecretTypeCredentials is the type a Secret must have for a CompileTask to name
// it in credentialsSecretName. Its key "api-key" is sent to the executor.
const SecretTypeCredentials = "agentruntime.dev/credentials"

// CredentialsSecretKey is the key read from a Secret of type
// SecretTypeCredentials.
const CredentialsSecretKey = "api-key"

// SecretTypeGatewayToken is the type of a Secret that an AgentRuntime's
// gatewayTokenSecretRef names, in the operator's namespace.
const SecretTypeGatewayToken = "agentruntime.dev/gateway-token"

// Requester is who created an object, as the API server authenticated them. It
// is stamped at admission and can't be changed; values given by a client are
// replaced.
type Requester struct {
	// username is the authenticated user name, for example
	// "system:serviceaccount:team-a:ci" or "alice@example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Username string `json:"username,omitempty"`

	// uid is the user's unique id, where the authenticator knows one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	UID string `json:"uid,omitempty"`

	// groups are the groups the user was in when the object was created. They are
	// used when the operator later asks whether the requester may still use what
	// the object names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Groups []string `json:"groups,omitempty"`

	// extra is what the authenticator said beyond name, uid and groups.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=32
	Extra map[string]ExtraValue `json:"extra,omitempty"`
}

// ExtraValue is one extra attribute of a user.
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:items:MaxLength=2048
type ExtraValue []string
