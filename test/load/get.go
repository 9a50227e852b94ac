package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
)

const (
	maxGet = time.Millisecond
	// getsEach stays within a caller's burst.
	getsEach  = 75
	getRounds = 3
	// cacheLife is how long the facade remembers keys and rights.
	cacheLife = 5 * time.Second
)

// get reads finished tasks one at a time, and counts what the API server was asked
// for meanwhile.
func (b *bench) get(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	ids := make([]string, len(b.callers))
	for i, c := range b.callers {
		var err error
		if ids[i], err = b.finishedTask(ctx, c); err != nil {
			return nil, err
		}
	}
	// What the API server is asked for from time to time, for a key ring or a
	// certificate, may fall into one round; what a GET asks for would be in each.
	var took []time.Duration
	var least getRound
	for range getRounds {
		round, err := b.getRound(ctx, ids)
		if err != nil {
			return nil, err
		}
		took = append(took, round.took...)
		if least.took == nil || round.asked.all() < least.asked.all() {
			least = round
		}
		if least.asked.all() == 0 {
			break
		}
	}
	return getResults(took, least), nil
}

// getRound is many GETs within the life of the facade's caches.
type getRound struct {
	took []time.Duration
	// asked is what the API server answered meanwhile, within the time since the
	// caches were filled.
	asked  asked
	within time.Duration
}

func (b *bench) getRound(ctx context.Context, ids []string) (getRound, error) {
	var round getRound
	// The callers have their whole bursts again, the facade's watch has told it of
	// all ends, and its caches forget what they knew.
	if err := pause(ctx, cacheLife); err != nil {
		return round, err
	}
	began := time.Now()
	// Once each, which fills the facade's caches.
	if _, err := b.getAll(ctx, ids, 1); err != nil {
		return round, err
	}
	before, err := b.asked(ctx)
	if err != nil {
		return round, err
	}
	if round.took, err = b.getAll(ctx, ids, getsEach); err != nil {
		return round, err
	}
	round.within = time.Since(began)
	after, err := b.asked(ctx)
	round.asked = after.minus(before)
	return round, err
}

func getResults(took []time.Duration, least getRound) []result {
	asked, within := least.asked, least.within
	return []result{
		{
			what: "facade GET of a cached task, p50", budget: "<= " + ms(maxGet),
			measured: ms(percentile(took, .5)), ok: percentile(took, .5) <= maxGet,
			note: fmt.Sprintf("%d GETs of %d callers, one at a time; p99 %s", len(took), goodCallers, ms(percentile(took, .99))),
		},
		{
			what: "API server's requests for those GETs", budget: "0",
			measured: fmt.Sprint(asked.all()), ok: asked.all() == 0 && within < cacheLife,
			note: fmt.Sprintf("counted by itself, all verbs but watches, of %s: %v, in the best of the rounds; it took %s from the first GETs, which filled the caches, whose answers last %s",
				strings.Join(askedResources(), ", "), asked, ms(within), cacheLife),
		},
	}
}

// finishedTask makes a task that has ended.
func (b *bench) finishedTask(ctx context.Context, c *caller) (string, error) {
	id, err := c.create(ctx)
	if err != nil {
		return "", err
	}
	task := &v1alpha1.CompileTask{}
	if err := b.stack.Client.Get(ctx, nameOf(id), task); err != nil {
		return "", fmt.Errorf("get task %s: %w", id, err)
	}
	setFinished(task, time.Now())
	if err := b.stack.Client.Status().Update(ctx, task); err != nil {
		return "", fmt.Errorf("end task %s: %w", id, err)
	}
	return id, nil
}

// getAll has every caller read their task n times, in turns.
func (b *bench) getAll(ctx context.Context, ids []string, n int) ([]time.Duration, error) {
	var took []time.Duration
	for range n {
		for i, c := range b.callers {
			began := time.Now()
			if err := c.get(ctx, ids[i]); err != nil {
				return nil, err
			}
			took = append(took, time.Since(began))
		}
	}
	return took, nil
}

// asked is how many requests the API server has answered, by resource.
type asked map[string]int

// askedResources are those that a GET could have the facade ask for.
func askedResources() []string {
	return []string{
		"compiletasks", "payloads", "agentruntimes", "subjectaccessreviews", "selfsubjectaccessreviews", "tokenreviews", "secrets",
	}
}

func (a asked) all() int {
	sum := 0
	for _, n := range a {
		sum += n
	}
	return sum
}

func (a asked) minus(b asked) asked {
	out := asked{}
	for name, n := range a {
		if n -= b[name]; n != 0 {
			out[name] = n
		}
	}
	return out
}

// String implements fmt.Stringer.
func (a asked) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, fmt.Sprintf("%d %s", a[name], name))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// asked reads the API server's counts. A watch is counted when it ends, which comes
// with time.
func (b *bench) asked(ctx context.Context) (asked, error) {
	counts, err := requestCounts(ctx, b.clients)
	if err != nil {
		return nil, err
	}
	out := asked{}
	for _, metric := range counts {
		if resource := label(metric, "resource"); slices.Contains(askedResources(), resource) && label(metric, "verb") != "WATCH" {
			out[resource] += int(metric.GetCounter().GetValue())
		}
	}
	return out, nil
}
