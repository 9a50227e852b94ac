package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Sizes of the row.
const (
	countedQuick = 50
	countedSlow  = 20
	// stages is how many stages a slow task goes through, each longer than the time
	// in which changes of stage are put together.
	slowStages    = "--stages=agent=1500ms,planning=1500ms,writing=1500ms"
	rowTimeout    = 5 * time.Minute
	eventsSettled = 2 * time.Second
)

// writes counts what a task costs the API server, from its own request counts.
func (l *lab) writes(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	stopQuick, err := l.startExecutor(ctx, "instant")
	if err != nil {
		return nil, err
	}
	defer stopQuick()
	stopSlow, err := l.startExecutor(ctx, "slow", slowStages)
	if err != nil {
		return nil, err
	}
	defer stopSlow()
	manager, err := l.startManager(ctx)
	if err != nil {
		return nil, err
	}
	defer manager.Stop()
	changes := &stageChanges{latest: map[string]*v1alpha1.CompileTask{}}
	t, err := l.track(ctx, changes.see)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if _, err := l.finish(ctx, t, "instant"); err != nil {
		return nil, err
	}
	// The runtimes' own first events come meanwhile.
	if err := pause(ctx, eventsSettled); err != nil {
		return nil, err
	}
	quick, err := l.cost(ctx, t, "instant", countedQuick)
	if err != nil {
		return nil, err
	}
	before := changes.count()
	slow, err := l.cost(ctx, t, "slow", countedSlow)
	if err != nil {
		return nil, err
	}
	seen := changes.count() - before
	return writeResults(quick, slow, seen), nil
}

func writeResults(quick, slow spent, changes int) []result {
	taskBound, eventBound := 5*countedSlow+changes, 2*countedSlow+changes
	return []result{
		{
			what: "writes of a quick task, events included", budget: "2",
			measured: fmt.Sprintf("%.2f", quick.all()/countedQuick), ok: quick.all() <= 2*countedQuick,
			note: fmt.Sprintf("%d tasks; %v", countedQuick, quick),
		},
		{
			what: "writes of a longer task", budget: fmt.Sprintf("5 + %.1f stage changes", float64(changes)/countedSlow),
			measured: fmt.Sprintf("%.2f", slow.tasks/countedSlow), ok: slow.tasks <= float64(taskBound),
			note: fmt.Sprintf("%d tasks with %d stage changes seen; %v", countedSlow, changes, slow),
		},
		{
			what: "events of a longer task", budget: "2 + stage changes",
			measured: fmt.Sprintf("%.2f", slow.events/countedSlow), ok: slow.events <= float64(eventBound),
		},
	}
}

// cost runs tasks at one time and returns what they cost in all.
func (l *lab) cost(ctx context.Context, t *tracker, runtime string, n int) (spent, error) {
	before, err := l.spent(ctx)
	if err != nil {
		return spent{}, err
	}
	failures := make(chan error, n)
	for range n {
		go func() {
			task := l.newTask(seen, runtime)
			// An ended task without its finalizer has nothing left to be written.
			told := t.expect(task.Name, func(task *v1alpha1.CompileTask) bool {
				return task.Terminal() && len(task.Finalizers) == 0
			})
			err := l.client.Create(ctx, task)
			if err == nil {
				_, err = t.receive(ctx, told)
			}
			failures <- err
		}()
	}
	for range n {
		if err := <-failures; err != nil {
			return spent{}, err
		}
	}
	// Events are written behind the controller's back.
	if err := pause(ctx, eventsSettled); err != nil {
		return spent{}, err
	}
	after, err := l.spent(ctx)
	return after.minus(before), err
}

// spent is how many writes the API server has answered.
type spent struct {
	tasks, events, others float64
	// refused is how many of them were answered with an error.
	refused float64
}

func (s spent) all() float64 { return s.tasks + s.events + s.others }

func (s spent) minus(o spent) spent {
	return spent{s.tasks - o.tasks, s.events - o.events, s.others - o.others, s.refused - o.refused}
}

// String implements fmt.Stringer.
func (s spent) String() string {
	return fmt.Sprintf("%.0f writes of tasks, %.0f of events, %.0f of Payloads and Secrets; %.0f of them refused",
		s.tasks, s.events, s.others, s.refused)
}

// spent reads the API server's request counts. Refused writes count too. Status
// writes of AgentRuntimes and the API server's own Lease, which come with time and
// not with tasks, do not.
func (l *lab) spent(ctx context.Context) (spent, error) {
	counts, err := requestCounts(ctx, l.clientset)
	if err != nil {
		return spent{}, err
	}
	var s spent
	for _, metric := range counts {
		verb, resource := label(metric, "verb"), label(metric, "resource")
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		default:
			continue
		}
		count := metric.GetCounter().GetValue()
		switch resource {
		case "compiletasks":
			s.tasks += count
		case "events":
			s.events += count
		case "payloads", "secrets":
			s.others += count
		default:
			continue
		}
		if code := label(metric, "code"); code != "" && code[0] != '2' {
			s.refused += count
		}
	}
	return s, nil
}

// stageChanges counts how often a running task was seen to change its stage.
type stageChanges struct {
	mu     sync.Mutex
	latest map[string]*v1alpha1.CompileTask
	seen   int
}

func (c *stageChanges) see(task *v1alpha1.CompileTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.latest[task.Name]
	c.latest[task.Name] = task
	if before != nil && onRecord(before) && !task.Terminal() && before.Status.Stage != task.Status.Stage {
		c.seen++
	}
}

func (c *stageChanges) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}
