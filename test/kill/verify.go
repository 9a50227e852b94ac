package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// findings is what a comparison of the executor's report with the tasks showed.
type findings struct {
	tasks, cancelled         int
	completed, lost          int
	executions, creates      int
	secondKeys, secondRuns   []string
	neverRun, wrongEnd       []string
	runsOn                   []string
	overlaps, unknown, stuck []string
}

// examine compares what the executor saw with what became of the tasks.
func examine(all []*made, latest map[types.UID]*v1alpha1.CompileTask, report fakeruntime.Report) findings {
	f := findings{tasks: len(all), executions: report.Executions, creates: report.Creates}
	known := make(map[string]bool, len(all))
	targets := map[string][]execution{}
	for _, m := range all {
		id := m.task.TaskID()
		known[id] = true
		now := latest[m.task.UID]
		if now == nil {
			f.lost++
			continue
		}
		f.examineTask(m, now, report)
		target := now.Namespace + " " + m.task.Spec.To
		for _, r := range report.Keys[id].Runs {
			targets[target] = append(targets[target], execution{task: now.Name, began: r.Began, ended: r.Ended})
		}
	}
	for key := range report.Keys {
		if !known[key] {
			f.unknown = append(f.unknown, key)
		}
	}
	for target, runs := range targets {
		f.overlaps = append(f.overlaps, overlaps(target, runs)...)
	}
	return f
}

// examineTask looks at one task.
func (f *findings) examineTask(m *made, now *v1alpha1.CompileTask, report fakeruntime.Report) {
	name := now.Namespace + "/" + now.Name
	entry := report.Keys[now.TaskID()]
	phase := now.DerivePhase()
	wasCancelled := m.kind == kindCancelled || m.kind == kindStubborn
	if m.kind != kindShared {
		if keys := report.Tasks[m.task.Spec.To].Keys; len(keys) > 1 {
			f.secondKeys = append(f.secondKeys, fmt.Sprintf("%s: %v", name, keys))
		}
	}
	if entry.Executions > 1 {
		f.secondRuns = append(f.secondRuns, fmt.Sprintf("%s: %d", name, entry.Executions))
	}
	if !now.Terminal() {
		f.lost++
		return
	}
	if len(now.Finalizers) > 0 {
		f.stuck = append(f.stuck, name)
	}
	if wasCancelled {
		f.cancelled++
	}
	if phase == v1alpha1.CompileTaskCompleted {
		f.completed++
	}
	switch {
	case entry.Executions == 0 && !wasCancelled:
		f.neverRun = append(f.neverRun, name)
	case wasCancelled && phase != v1alpha1.CompileTaskCancelled,
		now.Status.SessionID != "" && !slices.Contains(entry.Sessions, now.Status.SessionID),
		phase == v1alpha1.CompileTaskCompleted && entry.Status != "completed":
		f.wrongEnd = append(f.wrongEnd, fmt.Sprintf("%s: %s with session %q; executor: %s %v",
			name, phase, now.Status.SessionID, entry.Status, entry.Sessions))
	case wasCancelled && entry.Executions > 0 && !entry.Status.Terminal():
		f.runsOn = append(f.runsOn, fmt.Sprintf("%s: session %v", name, entry.Sessions))
	}
}

// execution is one run of a task.
type execution struct {
	task         string
	began, ended time.Time
}

// overlaps lists pairs of executions that went on at one time. One that has not
// ended overlaps every later one.
func overlaps(target string, runs []execution) []string {
	slices.SortFunc(runs, func(a, b execution) int { return a.began.Compare(b.began) })
	var found []string
	var last execution
	for _, r := range runs {
		if last.task != "" && (last.ended.IsZero() || r.began.Before(last.ended)) {
			found = append(found, fmt.Sprintf("%s: %s began %v before %s ended", target, r.task, last.ended.Sub(r.began).Round(time.Millisecond), last.task))
		}
		if last.task == "" || last.ended.IsZero() || r.ended.After(last.ended) {
			last = r
		}
	}
	return found
}

// percentile is the p-th part of the durations, which it sorts; 0 for none.
func percentile(durations []time.Duration, p float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.SortFunc(durations, cmp.Compare)
	return durations[min(int(p*float64(len(durations))), len(durations)-1)]
}
