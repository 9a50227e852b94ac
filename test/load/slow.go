package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/test/kill/process"
)

const (
	maxSlowMemory = 256 << 20
	// fixedMemory of it is for what does not come with the number of slow clients:
	// the bad bodies, and the tasks that the facade learns of meanwhile.
	fixedMemory  = 64 << 20
	maxSlowRatio = 2
	// goodPause is between two pairs of the good client: with the flood the machine
	// has something to do, and a closed loop would measure how much of it is left.
	goodPause = 10 * time.Millisecond
	// minStanding of the slow clients are there at any time; the rest come again.
	minStanding = 0.9
)

// slowClients measures a good client by turns alone and beside slow clients and a
// flood of bad bodies, and the facade's memory over all of it.
func (b *bench) slowClients(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	if err := b.restartFacade(ctx); err != nil {
		return nil, err
	}
	idle, err := b.idleMemory()
	if err != nil {
		return nil, err
	}
	order, err := b.crowdOrder(ctx)
	if err != nil {
		return nil, err
	}
	all := slowRound{saw: sighting{Least: int64(b.slow), Answers: map[int]int{}}}
	for range b.slowRounds {
		round, err := b.slowRound(ctx, order)
		if err != nil {
			return nil, err
		}
		all.add(round)
	}
	usage, err := process.UsageOf(b.stack.PID("facade"))
	if err != nil {
		return nil, err
	}
	return b.slowResults(all, usage.PeakResident-idle, idle), nil
}

// slowRound is the good client's time for a pair of requests, half of what is alone
// before and half after what is beside the others.
type slowRound struct {
	alone, beside []time.Duration
	saw           sighting
	// ratios has p99 beside, of alone, for each round.
	ratios []string
}

func (b *bench) slowRound(ctx context.Context, order crowdOrder) (slowRound, error) {
	var round slowRound
	before, err := b.goodClient(ctx, b.slowSpan/2)
	if err != nil {
		return round, err
	}
	if round.beside, round.saw, err = b.besideCrowd(ctx, order); err != nil {
		return round, err
	}
	after, err := b.goodClient(ctx, b.slowSpan/2)
	round.alone = slices.Concat(before, after)
	return round, err
}

func (r *slowRound) add(round slowRound) {
	r.ratios = append(r.ratios, ms(percentile(round.beside, .99))+":"+ms(percentile(round.alone, .99)))
	r.alone, r.beside = append(r.alone, round.alone...), append(r.beside, round.beside...)
	r.saw.add(round.saw)
}

// restartFacade has the facade begin anew, so that its memory is this row's.
func (b *bench) restartFacade(ctx context.Context) error {
	if err := b.stack.StopProcess("facade"); err != nil {
		return err
	}
	if err := b.stack.StartFacade(ctx); err != nil {
		return err
	}
	return pause(ctx, eventsSettled)
}

// idleMemory is the resident memory of the facade as it is, from which on its peak
// is counted.
func (b *bench) idleMemory() (int64, error) {
	pid := b.stack.PID("facade")
	const resetPeak = "5"
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(resetPeak), 0); err != nil {
		return 0, fmt.Errorf("reset the peak of the facade's memory: %w", err)
	}
	usage, err := process.UsageOf(pid)
	return usage.Resident, err
}

// goodClient creates and reads tasks one at a time, and returns how long each pair
// of the two took.
func (b *bench) goodClient(ctx context.Context, span time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(span); time.Now().Before(end); {
		c := b.callers[len(took)%len(b.callers)]
		began := time.Now()
		id, err := c.create(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.get(ctx, id); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		if err := pause(ctx, goodPause); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// besideCrowd measures the good client beside all others, and returns what those saw.
func (b *bench) besideCrowd(ctx context.Context, order crowdOrder) ([]time.Duration, sighting, error) {
	c, err := gather(ctx, order)
	if err != nil {
		return nil, sighting{}, err
	}
	took, err := b.goodClient(ctx, b.slowSpan)
	saw, closeErr := c.close()
	return took, saw, errors.Join(err, closeErr)
}

func (b *bench) slowResults(all slowRound, grown, idle int64) []result {
	alone, beside, saw := all.alone, all.beside, all.saw
	ratio := percentile(beside, .99).Seconds() / percentile(alone, .99).Seconds()
	bound := fixedMemory + int64(maxSlowMemory-fixedMemory)*int64(b.slow)/fullSlow
	stood := float64(saw.Least) >= minStanding*float64(b.slow)
	crowd := fmt.Sprintf("beside %d slow clients", b.slow)
	return []result{
		{
			what: "facade's peak memory above idle, " + crowd, budget: fmt.Sprintf("<= %d MiB", bound>>20),
			measured: fmt.Sprintf("%d MiB", grown>>20), ok: grown <= bound && stood,
			note: fmt.Sprintf("idle %d MiB; at least %d slow clients stood at any time, %d were cut off and came again; bad bodies were answered %v",
				idle>>20, saw.Least, saw.Cut, saw),
		},
		{
			what: "good client's p99 of POST + GET, " + crowd, budget: fmt.Sprintf("<= %d x alone", maxSlowRatio),
			measured: fmt.Sprintf("%.2f x (%s of %s)", ratio, ms(percentile(beside, .99)), ms(percentile(alone, .99))),
			ok:       ratio <= maxSlowRatio && saw.accepted() == 0,
			note: fmt.Sprintf("%d pairs beside them, p50 %s; %d alone, half before and half after, p50 %s; p99 of the rounds, beside:alone, %s",
				len(beside), ms(percentile(beside, .5)), len(alone), ms(percentile(alone, .5)), strings.Join(all.ratios, " ")),
		},
	}
}
