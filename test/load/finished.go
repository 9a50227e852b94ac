package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// resultBytes is about the size of a result that names a dozen pages.
const resultBytes = 1 << 10

// setFinished gives a task the status of one that has completed, with a result as
// wikis have.
func setFinished(task *v1alpha1.CompileTask, now time.Time) {
	at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message,
			ObservedGeneration: 1, LastTransitionTime: metav1.Time{Time: now},
		}
	}
	page := fmt.Sprintf("%q", "viking://resources/wiki/pages/a-page-of-the-wiki.md")
	pages := strings.Repeat(page+",", resultBytes/len(page)) + page
	task.Status = v1alpha1.CompileTaskStatus{
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionSubmitted, v1alpha1.ReasonAccepted, "The executor has accepted the task"),
			condition(v1alpha1.ConditionComplete, v1alpha1.ReasonCompleted, "The executor completed the task"),
		},
		ObservedGeneration: 1, Phase: v1alpha1.CompileTaskCompleted, Stage: v1alpha1.StageCompleted,
		TaskID: task.TaskID(), RuntimeName: task.Spec.RuntimeName, SessionID: "session-" + string(task.UID),
		Canonical: &v1alpha1.CanonicalRequest{From: task.Spec.From, To: task.Spec.To, Skill: task.Spec.Skill},
		StartTime: &at, CompletionTime: &at, UpdateTime: &at,
		Result:        &runtime.RawExtension{Raw: json.RawMessage(`{"created":[` + pages + `]}`)},
		ResultSummary: &v1alpha1.ResultSummary{Created: 20, PageCount: 20, ResultBytes: resultBytes},
	}
}
