package tasks

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// CacheOptions are how the cache must keep CompileTasks: without what the REST API
// never shows. Nothing of it may be written back.
func CacheOptions() cache.ByObject {
	return cache.ByObject{Transform: func(object any) (any, error) {
		if task, ok := object.(*v1alpha1.CompileTask); ok {
			trim(task)
		}
		return object, nil
	}}
}

// trim drops, in place, what the REST API never shows. Repeated trimming changes
// nothing more.
func trim(task *v1alpha1.CompileTask) {
	task.TypeMeta = metav1.TypeMeta{}
	trimMeta(&task.ObjectMeta)
	// Strings that many tasks share are kept once.
	task.Namespace = shared(task.Namespace)
	task.Spec.RuntimeName = shared(task.Spec.RuntimeName)
	task.Spec.Requester = v1alpha1.Requester{Username: shared(task.Spec.Requester.Username)}
	if body := task.Spec.SealedCredentials; body != nil {
		// That there are some may matter, not what is in them.
		task.Spec.SealedCredentials = &v1alpha1.SealedBody{Size: body.Size}
	}
	task.Status.CredentialFingerprint = ""
	for i := range task.Status.Conditions {
		task.Status.Conditions[i].Message = ""
	}
}

func trimMeta(meta *metav1.ObjectMeta) {
	meta.ManagedFields, meta.OwnerReferences, meta.Finalizers, meta.Labels = nil, nil, nil, nil
	meta.GenerateName = ""
	var kept map[string]string
	for _, name := range []string{v1alpha1.AnnotationCancelRequestedAt, v1alpha1.AnnotationRequestID} {
		if value, ok := meta.Annotations[name]; ok {
			if kept == nil {
				kept = make(map[string]string, 1)
			}
			kept[name] = value
		}
	}
	meta.Annotations = kept
}

func shared(text string) string { return unique.Make(text).Value() }

// keyOf names a task.
func keyOf(task *v1alpha1.CompileTask) client.ObjectKey {
	return client.ObjectKey{Namespace: task.Namespace, Name: task.Name}
}
