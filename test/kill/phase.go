package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
	"github.com/agentruntime/operator/test/kill/crash"
	"github.com/agentruntime/operator/test/kill/process"
)

const (
	// impatience is how long a manager may live without reaching its point before
	// more tasks are made.
	impatience = 1500 * time.Millisecond
	// settleTimeout bounds the time in which every task has to end after the last
	// kill.
	settleTimeout = 45 * time.Second
	maxArmDelay   = 600 * time.Millisecond
	maxSkip       = 3
)

// phase is one run of the proof.
type phase struct {
	*lab

	name, title string
	managers    int
	late        time.Duration

	fake     *fakeruntime.Server
	observer *observer
	work     *workload

	mu         sync.Mutex
	random     *rand.Rand
	schedule   []crash.Point
	kills      map[crash.Point]int
	recoveries []time.Duration
	problems   []string
}

func (p *phase) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// run runs the phase and reports what falls short.
func (p *phase) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	p.random = rand.New(rand.NewPCG(p.seed, uint64(p.managers)))
	p.work = &workload{phase: p, random: rand.New(rand.NewPCG(p.seed, 7))}
	p.observer, p.kills = newObserver(p.name+"-"), map[crash.Point]int{}
	p.plan()
	var err error
	if p.fake, err = newFake(); err != nil {
		return err
	}
	defer p.fake.Close()
	if err := p.furnish(ctx, p.fake.URL); err != nil {
		return err
	}
	stream, err := p.client.Watch(ctx, &v1alpha1.CompileTaskList{})
	if err != nil {
		return fmt.Errorf("watch the tasks: %w", err)
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		if err := p.observer.follow(watching, stream); err != nil {
			p.problem(err.Error())
		}
	})
	defer watcher.Wait()
	defer stopWatching()
	began := time.Now()
	if err := p.destroy(ctx); err != nil {
		return err
	}
	settled := time.Now()
	lost := p.settle(ctx)
	return p.judge(ctx, lost, settled.Sub(began), time.Since(settled))
}

// plan draws the order of the kills: every point as often as every other, give or
// take one.
func (p *phase) plan() {
	points := crash.Points()
	for len(p.schedule) < p.options.kills {
		p.random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		p.schedule = append(p.schedule, points[:min(len(points), p.options.kills-len(p.schedule))]...)
	}
}

// next takes the next kill off the schedule.
func (p *phase) next() (point crash.Point, skip int, after time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.schedule) == 0 {
		return "", 0, 0, false
	}
	point = p.schedule[0]
	p.schedule = p.schedule[1:]
	if p.random.IntN(2) > 0 {
		after = time.Duration(p.random.Int64N(int64(maxArmDelay)))
	}
	return point, p.random.IntN(maxSkip), after, true
}

// destroy runs managers, each until it has ended itself, until the schedule is
// empty.
func (p *phase) destroy(ctx context.Context) error {
	failures := make([]error, p.managers)
	var slots sync.WaitGroup
	for slot := range p.managers {
		slots.Go(func() {
			for failures[slot] == nil {
				point, skip, after, ok := p.next()
				if !ok {
					return
				}
				failures[slot] = p.live(ctx, slot, point, skip, after)
			}
		})
	}
	slots.Wait()
	for p.work.count() < p.tasks && ctx.Err() == nil {
		if err := p.work.batch(ctx); err != nil {
			return err
		}
	}
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// live runs one manager until it has ended itself at its point, with tasks made
// until it gets there.
func (p *phase) live(ctx context.Context, slot int, point crash.Point, skip int, after time.Duration) error {
	probe, err := p.work.probe(ctx)
	if err != nil {
		return err
	}
	manager, err := p.start(ctx, slot, "--kill-at", string(point), "--kill-skip", fmt.Sprint(skip), "--kill-after", after.String())
	if err != nil {
		return err
	}
	defer manager.Kill()
	ticker := time.NewTicker(impatience)
	defer ticker.Stop()
	for {
		if err := p.work.batch(ctx); err != nil {
			return err
		}
		select {
		case <-manager.Ended():
			p.note(manager, point, probe)
			return nil
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for a manager to reach %s: %w", point, ctx.Err())
		}
	}
}

// start starts a manager.
func (p *phase) start(ctx context.Context, slot int, args ...string) (*process.Process, error) {
	args = append(args, "--kubeconfig", p.kubeconfig, "--key-ring", p.ringFile, "--stale", p.late.String())
	return process.Start(ctx, filepath.Join(p.dir, fmt.Sprintf("manager-%s-%d.log", p.name, slot)), p.manager, args...)
}

// note records a kill, and how long the manager took from its start until the task
// that had waited for it was seen to have ended, if it lived that long.
func (p *phase) note(manager *process.Process, point crash.Point, probe *v1alpha1.CompileTask) {
	ended := p.observer.endedAt(probe.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(manager.Lines(), func(line string) bool { return strings.HasPrefix(line, crash.KilledPrefix+string(point)) }) {
		p.problems = append(p.problems, fmt.Sprintf("a manager that was to end at %s ended by itself", point))
		return
	}
	p.kills[point]++
	if !ended.IsZero() {
		p.recoveries = append(p.recoveries, ended.Sub(manager.Started))
	}
}

// settle runs managers that are left alone until every task has ended, and returns
// why one has not.
func (p *phase) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	p.work.wg.Wait()
	probe, err := p.work.probe(ctx)
	if err != nil {
		return err
	}
	var managers []*process.Process
	for slot := range p.managers {
		manager, err := p.start(ctx, slot)
		if err != nil {
			return err
		}
		defer manager.Stop()
		managers = append(managers, manager)
	}
	if err = p.observer.await(ctx, p.work.count()); err != nil && p.workDir != "" {
		err = errors.Join(err, p.saveState(managers)) //nolint:contextcheck // The phase's context has ended.
	}
	if ended := p.observer.endedAt(probe.UID); !ended.IsZero() {
		p.recoveries = append(p.recoveries, ended.Sub(managers[0].Started))
	}
	return err
}

// stateTimeout bounds how long a manager may take to tell its state.
const stateTimeout = 10 * time.Second

// saveState keeps what the managers are doing in the work folder, for whoever
// wants to know why they do not come to an end.
func (p *phase) saveState(managers []*process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	var problems []error
	for slot, manager := range managers {
		for file, path := range map[string]string{"goroutines": "/debug/pprof/goroutine?debug=2", "metrics": "/metrics"} {
			name := filepath.Join(p.dir, fmt.Sprintf("manager-%s-%d-%s.txt", p.name, slot, file))
			problems = append(problems, manager.Save(ctx, path, name))
		}
	}
	return errors.Join(problems...)
}
