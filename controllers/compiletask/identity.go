package compiletask

import (
	"regexp"
	"strings"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/viking"
)

// identityOf is for whom the task's calls are made, with what this process knows.
func identityOf(task *v1alpha1.CompileTask, runtime *v1alpha1.AgentRuntime, at *attempt) executor.Identity {
	identity := executor.Identity{
		LogID: requestIDOf(task), TraceParent: traceParentOf(task), Secrets: at.opened().all(),
	}
	if c := at.currentCredential(); c != nil {
		identity.APIKey = c.apiKey
	}
	if trustsOwner(runtime) {
		identity.Account, identity.User = task.Namespace, viking.UserID(task.Spec.Requester.Username)
	}
	return identity
}

// requestID is the form of a request id (A.4).
var requestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// requestIDOf is the request id that the task's annotation holds. Anyone who may
// change the task may have written something else there, which is left out.
func requestIDOf(task *v1alpha1.CompileTask) string {
	if id := task.Annotations[v1alpha1.AnnotationRequestID]; requestID.MatchString(id) {
		return id
	}
	return ""
}

// traceParent is the form of a traceparent header (W3C Trace Context, 3.2): version,
// trace id, parent id, flags.
var traceParent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// traceParentOf is the trace context of the REST call that made the task, empty when
// it has none or one that the standard calls invalid.
func traceParentOf(task *v1alpha1.CompileTask) string {
	if task.Spec.RESTRequest == nil {
		return ""
	}
	parts := traceParent.FindStringSubmatch(task.Spec.RESTRequest.TraceParent)
	if parts == nil || parts[1] == "ff" || strings.Trim(parts[2], "0") == "" || strings.Trim(parts[3], "0") == "" {
		return ""
	}
	return parts[0]
}

// trustsOwner tells that an executor gets the account and user of each task: only
// one that shows with a gateway token that it is the operator's own. To others
// they would be names and mail addresses of people.
func trustsOwner(runtime *v1alpha1.AgentRuntime) bool {
	return runtime != nil && runtime.Spec.GatewayTokenSecretRef != nil
}
