package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/test/kill/process"
)

const (
	maxResident   = 1 << 30
	baseResident  = 200 << 20
	maxIdleCPU    = 0.2
	maxGoroutines = 500
	fewRunning    = 100
	scaleTimeout  = 40 * time.Minute
	settleTime    = 15 * time.Second
	mebibyte      = 1 << 20
)

// scale measures a manager with very many tasks.
func (l *lab) scale(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	stop, err := l.startExecutor(ctx, "long", "--stages=agent=240h")
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := l.makeFinished(ctx); err != nil {
		return nil, err
	}
	manager, err := l.startManager(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { manager.Stop() }()
	t, err := l.track(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer t.close()
	few, err := l.withRunning(ctx, t, manager, fewRunning)
	if err != nil {
		return nil, err
	}
	many, err := l.withRunning(ctx, t, manager, l.running-fewRunning)
	if err != nil {
		return nil, err
	}
	// A manager that starts with all of it there has the most to hold at a time.
	manager.Kill()
	if manager, err = l.startManager(ctx); err != nil {
		return nil, err
	}
	again, err := l.measureIdle(ctx, manager)
	if err != nil {
		return nil, err
	}
	if err := l.checkHolds(ctx, manager); err != nil {
		return nil, err
	}
	if l.workDir != "" {
		_ = manager.Save(ctx, "/debug/pprof/heap", filepath.Join(l.dir, "heap.pprof"))
	}
	return l.scaleResults(few, many, again), nil
}

// state is what a manager uses when nothing changes.
type state struct {
	goroutines           int
	resident, peak, heap int64
	cpu                  float64
}

func (l *lab) scaleResults(few, many, again state) []result {
	bound, note := int64(maxResident), ""
	if l.finished < fullFinished || l.running < fullRunning {
		share := max(float64(l.finished)/fullFinished, float64(l.running)/fullRunning)
		bound = baseResident + int64(share*(maxResident-baseResident))
		note = fmt.Sprintf("; scaled: of the budget's %d running and %d finished, so the bound is %d MiB and %.0f %% of the rest of 1 GiB",
			fullRunning, fullFinished, baseResident/mebibyte, 100*share)
	}
	size := fmt.Sprintf("%d running, %d finished tasks", l.running, l.finished)
	peak := max(many.peak, again.peak)
	cpu := max(many.cpu, again.cpu)
	more := many.goroutines - few.goroutines
	return []result{
		{
			what: "resident memory, the most at any time", budget: fmt.Sprintf("<= %d MiB", bound/mebibyte),
			measured: fmt.Sprintf("%d MiB", peak/mebibyte), ok: peak <= bound,
			note: fmt.Sprintf("%s; grown: %d MiB, at most %d; started anew with all of it there: %d MiB, at most %d; heap in use %d MiB%s",
				size, many.resident/mebibyte, many.peak/mebibyte, again.resident/mebibyte, again.peak/mebibyte, again.heap/mebibyte, note),
		},
		{
			what: "CPU when nothing changes", budget: fmt.Sprintf("<= %.1f core", maxIdleCPU),
			measured: fmt.Sprintf("%.3f core", cpu), ok: cpu <= maxIdleCPU,
			note: fmt.Sprintf("%s; over %s; grown %.3f, started anew %.3f", size, l.idle, many.cpu, again.cpu),
		},
		{
			what: fmt.Sprintf("goroutines with %d running less those with %d", l.running, fewRunning), budget: fmt.Sprintf("< %d", maxGoroutines),
			measured: fmt.Sprint(more), ok: more < maxGoroutines,
			note: fmt.Sprintf("%d and %d", many.goroutines, few.goroutines),
		},
	}
}

// makeFinished makes tasks that have ended, without a manager.
func (l *lab) makeFinished(ctx context.Context) error {
	if l.finished == 0 {
		return nil
	}
	example := l.newTask(seen, "done")
	if err := l.client.Create(ctx, example); err != nil {
		return fmt.Errorf("create task %s: %w", example.Name, err)
	}
	setFinished(example, time.Now())
	if err := l.client.Status().Update(ctx, example); err != nil {
		return fmt.Errorf("write the status of %s: %w", example.Name, err)
	}
	return l.copies(ctx, example, l.finished)
}

// checkHolds makes sure that the manager measured has all the tasks in its cache.
func (l *lab) checkHolds(ctx context.Context, manager *process.Process) error {
	text, err := manager.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	for phase, want := range map[string]int{"Completed": l.finished, "Running": l.running} {
		name := fmt.Sprintf("agentruntime_compiletask_tasks{phase=%q} ", phase)
		_, rest, found := strings.Cut(string(text), "\n"+name)
		value, _, _ := strings.Cut(rest, "\n")
		got, err := strconv.ParseFloat(value, 64)
		if !found || err != nil || int(got) < want {
			return fmt.Errorf("the manager has %q tasks that are %s, want %d", value, phase, want)
		}
	}
	return nil
}

// withRunning makes more tasks and measures when all run and nothing changes.
func (l *lab) withRunning(ctx context.Context, t *tracker, manager *process.Process, n int) (state, error) {
	began := time.Now()
	_, err := loop(n, func() error {
		task := l.newTask(seen, "long")
		told := t.expect(task.Name, onRecord)
		if err := l.client.Create(ctx, task); err != nil {
			return fmt.Errorf("create task %s: %w", task.Name, err)
		}
		select {
		case <-told:
			return nil
		case <-manager.Ended():
			return errors.New("the manager ended by itself; see its log")
		case <-t.done:
			return errors.Join(errors.New("the watch of the tasks ended"), t.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return state{}, err
	}
	l.printf("  %d tasks more run after %.0f s\n", n, time.Since(began).Seconds())
	return l.measureIdle(ctx, manager)
}

// measureIdle waits until the manager has settled and measures it for a while.
func (l *lab) measureIdle(ctx context.Context, manager *process.Process) (state, error) {
	if err := l.settle(ctx, manager); err != nil {
		return state{}, err
	}
	before, err := manager.Usage()
	if err != nil {
		return state{}, err
	}
	began := time.Now()
	if err := pause(ctx, l.idle); err != nil {
		return state{}, err
	}
	after, err := manager.Usage()
	if err != nil {
		return state{}, err
	}
	cpu := (after.CPU - before.CPU).Seconds() / time.Since(began).Seconds()
	stats, err := manager.Stats(ctx, false)
	return state{
		goroutines: stats.Goroutines, resident: after.Resident, peak: after.PeakResident, heap: int64(stats.HeapInUse), cpu: cpu,
	}, err
}

// settle waits until the manager uses about as little as before in two spans of
// time in a row.
func (l *lab) settle(ctx context.Context, manager *process.Process) error {
	const spans, span, calm = 20, settleTime / 3, 0.3
	quiet := 0
	for range spans {
		before, err := manager.Usage()
		if err != nil {
			return err
		}
		if err := pause(ctx, span); err != nil {
			return err
		}
		after, err := manager.Usage()
		if err != nil {
			return err
		}
		if (after.CPU-before.CPU).Seconds()/span.Seconds() > calm {
			quiet = 0
			continue
		}
		if quiet++; quiet == 3 {
			break
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
