package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentruntime/operator/test/kill/process"
)

const (
	maxRecovery    = 5 * time.Second
	recoveryKills  = 5
	untilTheKill   = 1500 * time.Millisecond
	recoveryMargin = 30 * time.Second
)

// recovery kills the manager under load, starts it again, and measures how long it
// takes until every task that was in flight has ended.
func (l *lab) recovery(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	stop, err := l.startExecutor(ctx, "again")
	if err != nil {
		return nil, err
	}
	defer stop()
	t, err := l.track(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer t.close()
	manager, err := l.startManager(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { manager.Stop() }()
	var took []time.Duration
	for range recoveryKills {
		var recovered time.Duration
		if manager, recovered, err = l.recoverOnce(ctx, t, manager); err != nil {
			return nil, err
		}
		took = append(took, recovered)
	}
	return []result{{
		what: "recovery after a kill, max", budget: "< " + maxRecovery.String(),
		measured: ms(percentile(took, 1)), ok: percentile(took, 1) < maxRecovery,
		note: fmt.Sprintf("%d kills with %d tasks in flight; from the kill, with a start at once, until all of them have been seen to end; p50 %s; without leader election",
			recoveryKills, inFlight, ms(percentile(took, .5))),
	}}, nil
}

// recoverOnce kills the manager under load and returns the next one.
func (l *lab) recoverOnce(ctx context.Context, t *tracker, manager *process.Process) (*process.Process, time.Duration, error) {
	stopped := make(chan struct{})
	failures := make([]error, inFlight)
	var clients sync.WaitGroup
	for i := range inFlight {
		clients.Go(func() {
			for failures[i] == nil {
				_, failures[i] = l.finish(ctx, t, "again")
				select {
				case <-stopped:
					return
				default:
				}
			}
		})
	}
	select {
	case <-time.After(untilTheKill):
	case <-ctx.Done():
	}
	// From here on each client only waits for the task it has in flight.
	close(stopped)
	killed := time.Now()
	manager.Kill()
	next, err := l.startManager(ctx)
	if err != nil {
		return manager, 0, err
	}
	clients.Wait()
	return next, time.Since(killed), errors.Join(failures...)
}
