package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/kill/crash"
)

const (
	minCompleted = 0.95
	maxRecovery  = 5 * time.Second
	maxListed    = 10
)

// row is one line of the table. One that is only told does not make the run fall
// short.
type row struct {
	what, want, got string
	ok              bool
	details         []string
	told            bool
}

// judge prints the figures and returns what falls short.
func (p *phase) judge(ctx context.Context, lost error, killing, settling time.Duration) error {
	latest, anomalies, writes := p.observer.snapshot()
	report := p.fake.Report()
	f := examine(p.work.tasks, latest, report)
	broken := p.checkResults(ctx, latest)
	killed := 0
	for _, n := range p.kills {
		killed += n
	}
	wanted := f.tasks - f.cancelled
	none := func(what string, found []string) row {
		slices.Sort(found)
		return row{what: what, want: "0", got: fmt.Sprint(len(found)), ok: len(found) == 0, details: found}
	}
	// What only one manager at a time can promise: it needs leader election.
	exclusive := func(r row) row {
		r.told = p.managers > 1
		return r
	}
	points := min(len(crash.Points()), p.options.kills)
	rows := []row{
		{what: "kills with SIGKILL at named points", want: fmt.Sprintf(">= %d", p.options.kills), got: fmt.Sprint(killed), ok: killed >= p.options.kills},
		{what: "points reached", want: fmt.Sprint(points), got: fmt.Sprint(len(p.kills)), ok: len(p.kills) >= points},
		{what: "tasks made", want: fmt.Sprintf(">= %d", p.tasks), got: fmt.Sprint(f.tasks), ok: f.tasks >= p.tasks},
		{what: "tasks lost or not ended", want: "0", got: fmt.Sprint(f.lost), ok: f.lost == 0 && lost == nil, details: errorLines(lost)},
		none("tasks under a second key", f.secondKeys),
		none("keys of no task", f.unknown),
		none("tasks executed a second time", f.secondRuns),
		none("tasks not cancelled and never executed", f.neverRun),
		{
			what: "not cancelled and Completed", want: fmt.Sprintf(">= %.0f %%", 100*minCompleted), got: share(f.completed, wanted),
			ok: float64(f.completed) >= minCompleted*float64(wanted), details: notCompleted(p.work.tasks, latest),
		},
		none("ends that the executor's do not match", f.wrongEnd),
		exclusive(none("cancelled tasks that run on at the executor", f.runsOn)),
		exclusive(none("two tasks of a target executed at once", f.overlaps)),
		none("writes that went back to an older state", anomalies),
		none("finalizers left on ended tasks", f.stuck),
		none("large results missing or unreadable", broken),
		none("other problems", p.problems),
		exclusive(row{
			what: "start to first waiting task ended, p50 / max", want: fmt.Sprintf("max < %v", maxRecovery),
			got: fmt.Sprintf("%v / %v (%d)", ms(percentile(p.recoveries, .5)), ms(percentile(p.recoveries, 1)), len(p.recoveries)),
			ok:  len(p.recoveries) > 0 && percentile(p.recoveries, 1) < maxRecovery,
		}),
	}
	p.print(rows, fmt.Sprintf("%d executions of %d creates that reached the executor, %d task writes seen; %v of kills, %v until all had ended",
		f.executions, f.creates, writes, ms(killing), ms(settling)))
	return shortOf(rows)
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func share(part, whole int) string {
	return fmt.Sprintf("%d of %d (%.1f %%)", part, whole, 100*float64(part)/float64(max(whole, 1)))
}

func errorLines(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// notCompleted says how the tasks ended that should have completed and did not.
func notCompleted(all []*made, latest map[types.UID]*v1alpha1.CompileTask) []string {
	var found []string
	for _, m := range all {
		now := latest[m.task.UID]
		if m.kind == kindCancelled || m.kind == kindStubborn || now == nil || now.DerivePhase() == v1alpha1.CompileTaskCompleted {
			continue
		}
		text, _ := json.Marshal(now.Status)
		found = append(found, fmt.Sprintf("%s/%s: %s", now.Namespace, now.Name, text))
	}
	return found
}

func (p *phase) print(rows []row, summary string) {
	p.printf("\n%s\n\n", p.title)
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "figure\twanted\tmeasured\tverdict")
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.what, r.want, r.got, r.verdict())
	}
	_ = table.Flush()
	p.printf("\n%s\n", summary)
	for _, r := range rows {
		for i, detail := range r.details {
			if i == maxListed {
				p.printf("  ... and %d more\n", len(r.details)-i)
				break
			}
			p.printf("  %s: %s\n", r.what, detail)
		}
	}
	var points []string
	for _, point := range crash.Points() {
		points = append(points, fmt.Sprintf("%s %d", point, p.kills[point]))
	}
	p.printf("kills by point: %s\n", strings.Join(points, ", "))
}

func (r row) verdict() string {
	switch {
	case r.told:
		return "told only"
	case r.ok:
		return "ok"
	}
	return "SHORT"
}

func shortOf(rows []row) error {
	var short []error
	for _, r := range rows {
		if !r.ok && !r.told {
			short = append(short, fmt.Errorf("%s: %s, wanted %s", r.what, r.got, r.want))
		}
	}
	return errors.Join(short...)
}

// checkResults opens the sealed results.
func (p *phase) checkResults(ctx context.Context, latest map[types.UID]*v1alpha1.CompileTask) []string {
	var broken []string
	want := []byte(largeResult())
	for _, m := range p.work.tasks {
		now := latest[m.task.UID]
		if m.kind != kindLarge || now == nil || now.DerivePhase() != v1alpha1.CompileTaskCompleted {
			continue
		}
		if err := p.checkResult(ctx, now, want); err != nil {
			broken = append(broken, fmt.Sprintf("%s/%s: %v", now.Namespace, now.Name, err))
		}
	}
	return broken
}

func (p *phase) checkResult(ctx context.Context, task *v1alpha1.CompileTask, want []byte) error {
	var payload v1alpha1.Payload
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Status.ResultPayloadName}
	if err := p.client.Get(ctx, key, &payload); err != nil {
		return fmt.Errorf("get Payload: %w", err)
	}
	if payload.Spec.Data == nil {
		return errors.New("the Payload is empty")
	}
	box, err := sealed.Unmarshal(payload.Spec.Data.Sealed)
	if err != nil {
		return fmt.Errorf("decode Payload: %w", err)
	}
	got, err := p.ring.Open(box, resttask.ResultBinding(task))
	if err != nil {
		return fmt.Errorf("open Payload: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the result has %d bytes that are not the executor's %d", len(got), len(want))
	}
	return nil
}
