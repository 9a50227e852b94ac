package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/viking"
)

// originPermission marks faults that lie in what the requester may do, not in
// what they wrote.
const originPermission = "permission"

// ValidateCompileTask lists every fault of a task that its schema and CEL rules
// can't see, each with its field's path.
//
// With old nil the task is new: its name must not be one of the REST API's, its
// URIs must be what compile-api.md B.2 and G allow the caller, with path variables
// as they are at the task's creation time, its args within their bounds and free of
// secrets, its instruction at most 64 KiB, and its whole request at most 512 KiB as
// stored. Otherwise only args are looked at, and must not have changed; the rest is
// immutable by CEL, so an old fault passes unchanged and can't hold up an update.
func ValidateCompileTask(task, old *v1alpha1.CompileTask, caller viking.Caller) field.ErrorList {
	spec := field.NewPath("spec")
	if old != nil {
		return validateArgsUnchanged(task.Spec.Args, old.Spec.Args, spec.Child("args"))
	}
	faults := validateName(task.Name, field.NewPath("metadata", "name"))
	faults = append(faults, validateURIs(task, caller, spec)...)
	faults = append(faults, validateInstruction(task.Spec.Instruction, spec.Child("instruction"))...)
	faults = append(faults, validateArgs(task.Spec.Args, spec.Child("args"))...)
	return append(faults, validateRequestSize(&task.Spec, spec)...)
}

// validateName refuses names that give a task its id, and so its executor's
// Idempotency-Key. Their user would choose the identity: two tasks could have the
// same one, and be given one session. They are for the REST API, which will put a
// mark on what it makes that only it can make; until then nobody may use them.
// config/policies/compiletask_names.yaml holds the same without this webhook.
func validateName(name string, path *field.Path) field.ErrorList {
	// Without a uid, only such a name makes an id.
	nameOnly := v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if nameOnly.TaskID() == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name,
		"names of the form cmp-<32 hex digits> are kept for tasks made through the REST API; choose another")}
}

func validateURIs(task *v1alpha1.CompileTask, caller viking.Caller, spec *field.Path) field.ErrorList {
	request := viking.Request{From: task.Spec.From, To: task.Spec.To, Skill: task.Spec.Skill}
	_, found := viking.Canonicalize(request, caller, task.CreationTimestamp.UTC())
	faults := make(field.ErrorList, 0, len(found))
	for _, fault := range found {
		path := uriPath(spec, fault.Field)
		detail := strings.TrimPrefix(fault.Reason, fault.Field+" ")
		if fault.Code == viking.CodePermissionDenied {
			faults = append(faults, field.Forbidden(path, detail).WithOrigin(originPermission))
			continue
		}
		faults = append(faults, field.Invalid(path, fault.URI, detail))
	}
	return faults
}

// uriPath turns "from[2]" into spec.from[2].
func uriPath(spec *field.Path, name string) *field.Path {
	list, rest, indexed := strings.Cut(name, "[")
	if !indexed {
		return spec.Child(name)
	}
	index, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil {
		return spec.Child(list)
	}
	return spec.Child(list).Index(index)
}
