package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	minRatio = 0.8
	warmUp   = 128
)

// throughput runs closed loops, by turns raw and with the operator.
func (l *lab) throughput(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	stop, err := l.startExecutor(ctx, "fast")
	if err != nil {
		return nil, err
	}
	defer stop()
	manager, err := l.startManager(ctx)
	if err != nil {
		return nil, err
	}
	defer manager.Stop()
	t, err := l.track(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer t.close()
	example, err := l.finish(ctx, t, "fast")
	if err != nil {
		return nil, err
	}
	raw := func() error { return l.writeRaw(ctx, example) }
	operated := func() error { _, err := l.finish(ctx, t, "fast"); return err }
	if err := errors.Join(second(loop(warmUp, raw)), second(loop(warmUp, operated))); err != nil {
		return nil, err
	}
	before, _ := manager.Usage()
	var rawTime, operatedTime time.Duration
	var rounds []string
	for range l.rounds {
		rawTook, err := loop(l.tasks, raw)
		if err != nil {
			return nil, err
		}
		operatedTook, err := loop(l.tasks, operated)
		if err != nil {
			return nil, err
		}
		rawTime, operatedTime = rawTime+rawTook, operatedTime+operatedTook
		rounds = append(rounds, fmt.Sprintf("%.0f:%.0f", perSecond(l.tasks, rawTook), perSecond(l.tasks, operatedTook)))
	}
	after, _ := manager.Usage()
	ratio := rawTime.Seconds() / operatedTime.Seconds()
	total := l.rounds * l.tasks
	return []result{{
		what: fmt.Sprintf("quick tasks/s, %d in flight, of raw client-go", inFlight), budget: fmt.Sprintf(">= %.0f %%", 100*minRatio),
		measured: fmt.Sprintf("%.0f %% (%.0f/s of %.0f/s)", 100*ratio, perSecond(total, operatedTime), perSecond(total, rawTime)),
		ok:       ratio >= minRatio,
		note: fmt.Sprintf("%d rounds of %d tasks, raw:operator per second %s; raw is create + status update and watches nothing, a task of the operator counts when the client's watch shows its end; manager's CPU a task %.2f ms",
			l.rounds, l.tasks, strings.Join(rounds, " "), float64((after.CPU-before.CPU).Microseconds())/1000/float64(total)),
	}}, nil
}

func second(_ time.Duration, err error) error { return err }

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// writeRaw makes the two writes of a quick task, with the same content.
func (l *lab) writeRaw(ctx context.Context, example *v1alpha1.CompileTask) error {
	task := l.newTask(unseen, "fast")
	if err := l.client.Create(ctx, task); err != nil {
		return fmt.Errorf("create task %s: %w", task.Name, err)
	}
	example.Status.DeepCopyInto(&task.Status)
	if err := l.client.Status().Update(ctx, task); err != nil {
		return fmt.Errorf("write the status of %s: %w", task.Name, err)
	}
	return nil
}

// loop does something n times, with a bounded number under way, and returns how
// long it took. The first failure ends it.
func loop(n int, do func() error) (time.Duration, error) {
	began := time.Now()
	var taken atomic.Int64
	var workers sync.WaitGroup
	failures := make([]error, inFlight)
	for worker := range inFlight {
		workers.Go(func() {
			for failures[worker] == nil && taken.Add(1) <= int64(n) {
				failures[worker] = do()
			}
		})
	}
	workers.Wait()
	return time.Since(began), errors.Join(failures...)
}
