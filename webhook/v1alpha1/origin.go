package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

// maxMarkAge is how far from now the request of a new task may have come in: a create
// that is long under way, and clocks that differ.
const maxMarkAge = 5 * time.Minute

// markFits reports whether the REST API has just made the task for this user in this
// namespace. Without a ring it has made none.
func markFits(ring *sealed.KeyRing, task *v1alpha1.CompileTask, namespace, username string, now time.Time) bool {
	if ring == nil || !resttask.MarkedFor(ring, task, namespace, username) {
		return false
	}
	return now.Sub(resttask.OriginOf(task).Received).Abs() <= maxMarkAge
}

// validateOrigin keeps for the REST API what is its own. A name of the form
// cmp-<32 hex digits> gives a task its id, and so its executor's Idempotency-Key:
// with it a user would choose the identity, two tasks could have the same one, and be
// given one session. Such a name needs a restRequest whose mark fits, and only such a
// task has a restRequest, or bodies that the REST API has sealed.
//
// Within maxMarkAge a user may take the mark of an own task, once that is deleted, for
// another task of the same name: it stays their own, and the executor takes it for the
// first one. Later the mark fits nothing, and neither do the bodies sealed with it.
//
// config/policies/compiletask_names.yaml holds the same without this webhook, but
// for the mark, which needs the key ring.
func validateOrigin(task *v1alpha1.CompileTask, marked bool, spec *field.Path) field.ErrorList {
	named, request := resttask.IsName(task.Name), task.Spec.RESTRequest
	var faults field.ErrorList
	switch {
	case request == nil && named:
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), task.Name,
			"names of the form cmp-<32 hex digits> are kept for tasks made through the REST API; choose another"))
	case request != nil && (!named || !marked):
		faults = append(faults, field.Forbidden(spec.Child("restRequest"),
			"only the operator's REST API can make this, for one task of one user; leave it out"))
	}
	if request == nil && task.Spec.SealedArgs != nil {
		faults = append(faults, field.Forbidden(spec.Child("sealedArgs"), "only the operator's REST API writes this; use args"))
	}
	if request == nil && task.Spec.SealedCredentials != nil {
		faults = append(faults, field.Forbidden(spec.Child("sealedCredentials"),
			"only the operator's REST API writes this; use credentialsSecretName"))
	}
	return faults
}
