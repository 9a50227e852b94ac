// Package memo remembers the answers of a slow question for a short time. It asks
// once for those who want to know the same at the same time, and bounds how many
// questions are open at once.
package memo

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// Options are the bounds of a Memo. All of them are required.
type Options struct {
	// TTL is how long an answer counts.
	TTL time.Duration
	// Size bounds the good answers, and again the bad ones: so a flood of bad
	// questions can't push out what is known of good ones.
	Size int
	// Open bounds the questions that are open at once. Whoever comes then waits
	// within their own context. A quarter more is kept for keys that had a good
	// answer within MetTTL, so that a flood of strangers does not hold them up.
	Open int
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Answer is what was answered.
type Answer[V any] struct {
	Value V
	// Good tells which of the two bounds the answer counts against.
	Good bool
}

// MetTTL is how long a key that had a good answer is no stranger.
const MetTTL = 10 * time.Minute

// Ask is a question. It must end with its context. An error is not remembered.
type Ask[V any] func(ctx context.Context) (Answer[V], error)

// Memo remembers answers. It starts no goroutine: a question runs in the one that
// asked it first.
type Memo[V any] struct {
	ttl       time.Duration
	good, bad *cache.LRUExpireCache
	slots     chan struct{}
	// met has the keys that had a good answer lately, and reserved the slots that
	// are for them alone.
	met      *cache.LRUExpireCache
	reserved chan struct{}

	lock sync.Mutex
	// open has the questions that run or wait for a slot; it holds at most one for
	// each call of Do.
	open map[string]*question[V]
}

// question is one that is open, and then its answer.
type question[V any] struct {
	done   chan struct{}
	answer Answer[V]
	err    error
	// abandoned means that whoever asked gave up, which says nothing to the others.
	abandoned bool
}

var errAbandoned = errors.New("the question was given up")

// New returns an empty Memo.
func New[V any](options Options) *Memo[V] {
	return &Memo[V]{
		ttl:   options.TTL,
		good:  cache.NewLRUExpireCacheWithClock(options.Size, options.Clock),
		bad:   cache.NewLRUExpireCacheWithClock(options.Size, options.Clock),
		slots: make(chan struct{}, options.Open),
		open:  make(map[string]*question[V]),

		met:      cache.NewLRUExpireCacheWithClock(options.Size, options.Clock),
		reserved: make(chan struct{}, max(options.Open/4, 1)),
	}
}

// Do returns the remembered answer for the key, or asks. It ends with its context,
// whose error it returns then. A panic of ask goes to its caller alone.
func (m *Memo[V]) Do(ctx context.Context, key string, ask Ask[V]) (V, error) {
	for {
		if answer, ok := m.remembered(key); ok {
			return answer.Value, nil
		}
		asked, first := m.join(key)
		if first {
			return m.lead(ctx, key, asked, ask)
		}
		select {
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		case <-asked.done:
			if !asked.abandoned {
				return asked.answer.Value, asked.err
			}
		}
	}
}

func (m *Memo[V]) remembered(key string) (Answer[V], bool) {
	for _, answers := range []*cache.LRUExpireCache{m.good, m.bad} {
		if known, ok := answers.Get(key); ok {
			answer, ok := known.(Answer[V])
			return answer, ok
		}
	}
	return Answer[V]{}, false
}

func (m *Memo[V]) join(key string) (asked *question[V], first bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if asked, ok := m.open[key]; ok {
		return asked, false
	}
	asked = &question[V]{done: make(chan struct{}), err: errAbandoned, abandoned: true}
	m.open[key] = asked
	return asked, true
}

// lead asks for all who wait.
func (m *Memo[V]) lead(ctx context.Context, key string, asked *question[V], ask Ask[V]) (V, error) {
	defer m.leave(key, asked)
	release, err := m.slot(ctx, key)
	if err != nil {
		return asked.answer.Value, err
	}
	defer release()
	if answer, ok := m.remembered(key); ok {
		// Answered between the look and the question.
		asked.answer, asked.err, asked.abandoned = answer, nil, false
		return answer.Value, nil
	}
	answer, err := ask(ctx)
	asked.answer, asked.err = answer, err
	asked.abandoned = err != nil && ctx.Err() != nil
	if err == nil {
		m.remember(key, answer)
	}
	return answer.Value, err
}

// slot waits for a slot to ask in.
func (m *Memo[V]) slot(ctx context.Context, key string) (release func(), err error) {
	var reserved chan struct{} // nil, and so never free, for strangers
	if _, met := m.met.Get(key); met {
		reserved = m.reserved
	}
	select {
	case m.slots <- struct{}{}:
		return func() { <-m.slots }, nil
	case reserved <- struct{}{}:
		return func() { <-reserved }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *Memo[V]) remember(key string, answer Answer[V]) {
	if answer.Good {
		m.met.Add(key, nil, MetTTL)
		m.good.Add(key, answer, m.ttl)
		return
	}
	m.bad.Add(key, answer, m.ttl)
}

func (m *Memo[V]) leave(key string, asked *question[V]) {
	m.lock.Lock()
	delete(m.open, key)
	m.lock.Unlock()
	close(asked.done)
}
