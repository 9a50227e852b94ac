package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion identifies the resources of this package.
	GroupVersion = schema.GroupVersion{Group: "agentruntime.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the resources of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CompileTask{}, &CompileTaskList{},
		&AgentRuntime{}, &AgentRuntimeList{},
		&Payload{}, &PayloadList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
