package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

const (
	oneAtATime   = 300
	maxLatency   = 10 * time.Millisecond
	endTasks     = 200
	endRounds    = 2
	endGap       = 50 * time.Millisecond
	endSettle    = 3 * time.Second
	maxEndNotice = 50 * time.Millisecond
)

// latency runs quick tasks one at a time, each beside the same writes done raw.
func (l *lab) latency(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	stop, err := l.startExecutor(ctx, "prompt")
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
	example, err := l.finish(ctx, t, "prompt")
	if err != nil {
		return nil, err
	}
	var operated, raw []time.Duration
	for range oneAtATime {
		began := time.Now()
		if _, err := l.finish(ctx, t, "prompt"); err != nil {
			return nil, err
		}
		operated = append(operated, time.Since(began))
		began = time.Now()
		if err := l.writeRaw(ctx, example); err != nil {
			return nil, err
		}
		raw = append(raw, time.Since(began))
	}
	return []result{{
		what: "one at a time, create to end seen, p50", budget: "<= " + ms(maxLatency),
		measured: ms(percentile(operated, .5)), ok: percentile(operated, .5) <= maxLatency,
		note: fmt.Sprintf("%d tasks; p99 %s; the same two writes raw p50 %s, p99 %s",
			oneAtATime, ms(percentile(operated, .99)), ms(percentile(raw, .5)), ms(percentile(raw, .99))),
	}}, nil
}

// end measures the time from a task's end at the executor to the client's watch
// showing it, for running tasks whose polls are held.
func (l *lab) end(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	fake, err := fakeruntime.Listen(fakeruntime.Options{Durable: true, MaxCalls: -1, Default: fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
	}})
	if err != nil {
		return nil, err
	}
	defer fake.Close()
	remove, err := l.addRuntime(ctx, "held", fake.URL)
	if err != nil {
		return nil, err
	}
	defer remove()
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
	var noticed []time.Duration
	for range endRounds {
		more, err := l.endRound(ctx, t, fake)
		if err != nil {
			return nil, err
		}
		noticed = append(noticed, more...)
	}
	return []result{{
		what: "end at the executor to end seen, p99", budget: "<= " + ms(maxEndNotice),
		measured: ms(percentile(noticed, .99)), ok: percentile(noticed, .99) <= maxEndNotice,
		note: fmt.Sprintf("%d tasks, %d running at a time with held polls, one ended every %s; p50 %s, max %s; the terminal write and its way to the client's watch are included",
			len(noticed), endTasks, ms(endGap), ms(percentile(noticed, .5)), ms(percentile(noticed, 1))),
	}}, nil
}

// endRound has tasks running and ends them one after the other.
func (l *lab) endRound(ctx context.Context, t *tracker, fake *fakeruntime.Server) ([]time.Duration, error) {
	tasks := make([]*v1alpha1.CompileTask, endTasks)
	running := make([]<-chan *v1alpha1.CompileTask, endTasks)
	for i := range tasks {
		tasks[i] = l.newTask(seen, "held")
		running[i] = t.expect(tasks[i].Name, onRecord)
		if err := l.client.Create(ctx, tasks[i]); err != nil {
			return nil, fmt.Errorf("create task %s: %w", tasks[i].Name, err)
		}
	}
	for i := range running {
		if _, err := t.receive(ctx, running[i]); err != nil {
			return nil, err
		}
	}
	// What the start has left to be written, such as events, is not part of the end.
	if err := pause(ctx, endSettle); err != nil {
		return nil, err
	}
	noticed := make([]time.Duration, endTasks)
	failures := make([]error, endTasks)
	var waiting sync.WaitGroup
	ticker := time.NewTicker(endGap)
	defer ticker.Stop()
	for i, task := range tasks {
		<-ticker.C
		told := t.expect(task.Name, terminal)
		ended := time.Now()
		if err := fake.Advance(task.TaskID()); err != nil {
			return nil, fmt.Errorf("end task %s: %w", task.Name, err)
		}
		waiting.Go(func() {
			_, failures[i] = t.receive(ctx, told)
			noticed[i] = time.Since(ended)
		})
	}
	waiting.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return noticed, nil
}
