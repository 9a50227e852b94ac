package compileapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/facade/tasks"
)

const (
	taskType = "compile"
	// stagePrefix is what executors put before their stages; it is dropped from the
	// stage of an ended task (H.7, Q1).
	stagePrefix = "compile: "
	// sourceSeparator joins several sources in resource_id (B.4).
	sourceSeparator = ", "
	// isoLayout is UTC in ISO 8601 to the microsecond.
	isoLayout = "2006-01-02T15:04:05.000000Z"
	// metaRequest is the member of meta that is the request, whatever an executor
	// reports under that name.
	metaRequest = "request"
	// metaResultLost and metaArgsLost are true where a result or args can't be read
	// any more, so that null is not taken for "none".
	metaResultLost = "result_unavailable"
	metaArgsLost   = "args_unavailable"
)

// The words of C.2.
const (
	statusPending    = "pending"
	statusRunning    = "running"
	statusCancelling = "cancelling"
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// record is the TaskRecord of C.1. Nothing of it is left out when it is empty.
type record struct {
	TaskID     string  `json:"task_id"`
	TaskType   string  `json:"task_type"`
	Status     string  `json:"status"`
	Stage      string  `json:"stage"`
	ResourceID string  `json:"resource_id"`
	CreatedAt  seconds `json:"created_at"`
	UpdatedAt  seconds `json:"updated_at"`
	CreatedISO string  `json:"created_at_iso"`
	UpdatedISO string  `json:"updated_at_iso"`
	// Result, Error and ProcessingSeconds are null where there is none.
	Result            json.RawMessage            `json:"result"`
	Error             *string                    `json:"error"`
	Meta              map[string]json.RawMessage `json:"meta"`
	ProcessingSeconds *seconds                   `json:"processing_seconds"`
}

// seconds is a number of microseconds that encodes as seconds with six digits
// behind the point, which no float can blur.
type seconds int64

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) {
	const perSecond = int64(time.Second / time.Microsecond)
	micros := max(int64(s), 0)
	return fmt.Appendf(nil, "%d.%06d", micros/perSecond, micros%perSecond), nil
}

// updatedAt is when the record last changed. An accepted cancel changes it before
// any controller has seen it: at the time that was noted, or, where none was or a clock
// was behind, right after the change before it.
func updatedAt(task *v1alpha1.CompileTask) time.Time {
	at := tasks.CreatedAt(task)
	if update := task.Status.UpdateTime; update != nil && update.After(at) {
		at = update.UTC()
	}
	if !task.Spec.Cancel {
		return at
	}
	asked, err := time.Parse(time.RFC3339Nano, task.Annotations[v1alpha1.AnnotationCancelRequestedAt])
	switch {
	case err == nil && asked.After(at):
		return asked.UTC()
	case task.DerivePhase() == v1alpha1.CompileTaskCancelling && task.Status.Phase != v1alpha1.CompileTaskCancelling:
		return at.Add(time.Microsecond)
	}
	return at
}

// record makes the task's record. A result or args that can't be read now are an
// error; those that are lost for good are left out, and meta says so, for one lost
// body must not hide a whole list.
func (a *API) record(ctx context.Context, task *v1alpha1.CompileTask) (record, error) {
	created, updated := tasks.CreatedAt(task), updatedAt(task)
	from, to, skill := canonicalOf(task)
	out := record{
		TaskID: task.TaskID(), TaskType: taskType, Status: statusOfTask(task), Stage: stageOf(task),
		ResourceID: strings.Join(from, sourceSeparator),
		CreatedAt:  seconds(created.UnixMicro()), UpdatedAt: seconds(updated.UnixMicro()),
		CreatedISO: created.Format(isoLayout), UpdatedISO: updated.Format(isoLayout),
		Error: errorOf(task), ProcessingSeconds: processingTime(task),
	}
	var err error
	if out.Meta, err = executorMeta(task); err != nil {
		return record{}, err
	}
	if err = a.addRequest(ctx, task, out.Meta, requestView{From: from, To: to, Skill: skill}); err != nil {
		return record{}, err
	}
	if out.Status == statusCompleted {
		if out.Result, err = a.publicBody(ctx, task, a.tasks.Result, out.Meta, metaResultLost); err != nil {
			return record{}, err
		}
	}
	return out, nil
}

func canonicalOf(task *v1alpha1.CompileTask) (from []string, to, skill string) {
	if canonical := task.Status.Canonical; canonical != nil {
		return canonical.From, canonical.To, canonical.Skill
	}
	return task.Spec.From, task.Spec.To, task.Spec.Skill
}

func statusOfTask(task *v1alpha1.CompileTask) string {
	return strings.ToLower(string(task.DerivePhase()))
}

// stageOf applies C.3 and H.7 Q1 to Q3.
func stageOf(task *v1alpha1.CompileTask) string {
	stage := task.Status.Stage
	switch task.DerivePhase() {
	case v1alpha1.CompileTaskCompleted:
		return completedStage(task)
	case v1alpha1.CompileTaskCancelled:
		return v1alpha1.StageCancelled
	case v1alpha1.CompileTaskFailed:
		stage = strings.TrimPrefix(stage, stagePrefix)
	case v1alpha1.CompileTaskRunning:
		if stage == "" || stage == v1alpha1.StageQueued {
			return v1alpha1.StageSubmitting
		}
	case v1alpha1.CompileTaskPending:
		return v1alpha1.StageQueued
	case v1alpha1.CompileTaskCancelling:
		// The last stage that is known.
	}
	if stage == "" {
		return v1alpha1.StageQueued
	}
	return stage
}

// completedStage is completed or salvaged, and nothing else (C.3).
func completedStage(task *v1alpha1.CompileTask) string {
	complete := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionComplete)
	if complete != nil && complete.Reason == v1alpha1.ReasonSalvaged ||
		strings.TrimPrefix(task.Status.Stage, stagePrefix) == v1alpha1.StageSalvaged {
		return v1alpha1.StageSalvaged
	}
	return v1alpha1.StageCompleted
}

// errorOf is "CODE: message", sanitised again for what was written to the status
// otherwise than by the operator (C.8).
func errorOf(task *v1alpha1.CompileTask) *string {
	fault := task.Status.Error
	if fault == nil || task.DerivePhase() != v1alpha1.CompileTaskFailed {
		return nil
	}
	text := fault.Code + ": " + executor.Redact(fault.Message)
	return &text
}

func processingTime(task *v1alpha1.CompileTask) *seconds {
	start, end := task.Status.StartTime, task.Status.CompletionTime
	if start == nil || end == nil || !task.Terminal() {
		return nil
	}
	took := seconds(microsBetween(*start, *end))
	return &took
}

func microsBetween(start, end metav1.MicroTime) int64 { return end.UnixMicro() - start.UnixMicro() }

// publicBody reads what may stand apart from the task, without its secret members. It
// notes in members where that is lost.
func (a *API) publicBody(ctx context.Context, task *v1alpha1.CompileTask, read bodyReader, members map[string]json.RawMessage, mark string) (json.RawMessage, error) {
	body, err := read(ctx, task)
	switch {
	case err != nil && lost(err):
		members[mark] = json.RawMessage("true")
		return nil, nil
	case err != nil:
		return nil, storeError("read a body of the task", err)
	case len(body) == 0:
		return nil, nil
	}
	public, _, err := withoutSecrets(body)
	if err != nil {
		return nil, fmt.Errorf("read a body of the task: %w", err)
	}
	return public, nil
}

type bodyReader func(context.Context, *v1alpha1.CompileTask) (json.RawMessage, error)

// requestView is meta.request (B.4).
type requestView struct {
	From        []string        `json:"from"`
	To          string          `json:"to"`
	Skill       string          `json:"skill"`
	Instruction string          `json:"instruction,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"`
}

// addRequest puts the request into meta, where the executor can't replace it.
func (a *API) addRequest(ctx context.Context, task *v1alpha1.CompileTask, members map[string]json.RawMessage, request requestView) error {
	var err error
	if request.Args, err = a.publicBody(ctx, task, a.tasks.Args, members, metaArgsLost); err != nil {
		return err
	}
	request.Instruction = task.Spec.Instruction
	if members[metaRequest], err = json.Marshal(request); err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return nil
}

// executorMeta is what the executor reports, without secret members; never nil.
func executorMeta(task *v1alpha1.CompileTask) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	reported := task.Status.Meta
	if reported == nil || len(reported.Raw) == 0 {
		return members, nil
	}
	public, _, err := withoutSecrets(reported.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the executor's meta: %w", err)
	}
	if err := json.Unmarshal(public, &members); err != nil {
		return nil, fmt.Errorf("read the executor's meta: %w", err)
	}
	if members == nil {
		return nil, errors.New("read the executor's meta: it is null")
	}
	return members, nil
}
