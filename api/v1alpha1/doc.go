// Package v1alpha1 holds the custom resources of the Agent Runtime Operator:
// CompileTask, the work; AgentRuntime, the executor that does it; and Payload, a
// sealed body that belongs to another resource.
//
// The types carry their own rules (schema bounds, CEL) and nothing that talks to
// anything: conditions and reasons are constants here, phases are derived by
// pure functions, and everything else lives in controllers and webhook.
//
// +kubebuilder:object:generate=true
// +groupName=agentruntime.dev
package v1alpha1
