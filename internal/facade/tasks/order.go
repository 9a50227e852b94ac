package tasks

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Place is a task's place in a list: newest first, then by id, downwards.
type Place struct {
	// Created is when the task was created, as CreatedAt says.
	Created time.Time
	// ID is its wire id.
	ID string
}

// CreatedAt is when a task was created: when its request came in, as far as one did.
func CreatedAt(task *v1alpha1.CompileTask) time.Time {
	if rest := task.Spec.RESTRequest; rest != nil && rest.ReceivedTime != nil {
		return rest.ReceivedTime.UTC()
	}
	return task.CreationTimestamp.UTC()
}

func placeOf(task *v1alpha1.CompileTask) Place {
	return Place{Created: CreatedAt(task), ID: task.TaskID()}
}

// compare is negative when p comes before other in a list.
func (p Place) compare(other Place) int {
	return cmp.Or(other.Created.Compare(p.Created), cmp.Compare(other.ID, p.ID))
}

// newer reports whether a resource version is later than another. What can't be
// compared counts as newer when it differs, so that no change is lost.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order > 0
}
