// Package v1alpha1 is the admission code of the resources of agentruntime.dev:
// what neither their schemas, nor the CEL rules in them, nor the policies in
// config/policies can do. It stamps who asks, picks the default runtime, reads
// viking:// URIs, compares free JSON exactly, and asks whether the requester may
// use what a task names.
//
// Which requests reach it at all is decided by the match conditions at the
// markers below: creation, and updates that change the spec of a task with args.
// Status writes, metadata, deletion and garbage collection never depend on it.
//
// +kubebuilder:webhookconfiguration:mutating=true,name=agentruntime
// +kubebuilder:webhookconfiguration:mutating=false,name=agentruntime
package v1alpha1
