package v1alpha1

import (
	"strconv"
	"strings"

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
// With old nil the task is new: it must not pretend to come from the REST API, its
// URIs must be what compile-api.md B.2 and G allow the caller, with path variables
// as they are at the task's creation time, its args within their bounds and free of
// secrets, its instruction at most 64 KiB, and its whole request at most 512 KiB as
// stored. Otherwise only args are looked at, and must not have changed; the rest is
// immutable by CEL, so an old fault passes unchanged and can't hold up an update.
//
// marked tells that the task's mark is the REST API's, for this task and this
// caller; it counts for new tasks only.
func ValidateCompileTask(task, old *v1alpha1.CompileTask, caller viking.Caller, marked bool) field.ErrorList {
	spec := field.NewPath("spec")
	if old != nil {
		return validateArgsUnchanged(task.Spec.Args, old.Spec.Args, spec.Child("args"))
	}
	faults := validateOrigin(task, marked, spec)
	faults = append(faults, validateURIs(task, caller, spec)...)
	faults = append(faults, validateInstruction(task.Spec.Instruction, spec.Child("instruction"))...)
	faults = append(faults, validateArgs(task.Spec.Args, spec.Child("args"))...)
	return append(faults, validateRequestSize(&task.Spec, spec)...)
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
