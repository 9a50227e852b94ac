package middleware

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/agentruntime/operator/internal/facade/wire"
)

// Limits are what one caller, a user name, may do. A zero field takes its default.
type Limits struct {
	// Rate is the requests a second; 50.
	Rate float64
	// Burst is the requests at once, after a pause; 100.
	Burst int
	// InFlight is the requests under way at a time, waits and streams included; 64.
	InFlight int
	// Callers bounds the callers that are told apart at a time; 10,000.
	Callers int
}

func (l Limits) withDefaults() Limits {
	const defaultRate, defaultBurst, defaultInFlight, defaultCallers = 50, 100, 64, 10_000
	if l.Rate <= 0 {
		l.Rate = defaultRate
	}
	if l.Burst <= 0 {
		l.Burst = defaultBurst
	}
	if l.InFlight <= 0 {
		l.InFlight = defaultInFlight
	}
	if l.Callers <= 0 {
		l.Callers = defaultCallers
	}
	return l
}

// inFlightRetry is when to come back when too many requests are under way.
const inFlightRetry = time.Second

// Limiter bounds what each caller asks for, so that one can't crowd out the others.
// It forgets a caller as soon as that changes nothing: when nothing of theirs is
// under way and their whole burst is theirs again.
type Limiter struct {
	limits  Limits
	metrics *Metrics
	// refill is the time in which a whole burst is regained.
	refill time.Duration

	mu      sync.Mutex
	callers map[string]*callerUse
	// idle are the callers with nothing under way, the longest idle one first.
	idle *list.List
}

// callerUse is what a caller uses.
type callerUse struct {
	name     string
	tokens   *rate.Limiter
	inFlight int
	// place is where the caller stands among the idle ones, since when; nil when
	// something is under way.
	place *list.Element
	since time.Time
}

// NewLimiter returns a Limiter with those limits.
func NewLimiter(limits Limits, metrics *Metrics) *Limiter {
	limits = limits.withDefaults()
	return &Limiter{
		limits: limits, metrics: metrics,
		refill:  time.Duration(float64(limits.Burst) / limits.Rate * float64(time.Second)),
		callers: map[string]*callerUse{}, idle: list.New(),
	}
}

// Wrap answers RESOURCE_EXHAUSTED to a caller beyond their limits. It stands after
// authentication.
func (l *Limiter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		use, reason, wait := l.enter(exchangeOf(r.Context()).info.Caller.User.Username, time.Now())
		if use == nil {
			l.metrics.Reject(reason)
			fail(w, r, exhausted(reason, wait))
			return
		}
		// Deferred, for a handler may panic.
		defer func() { l.leave(use, time.Now()) }()
		next.ServeHTTP(w, r)
	})
}

func exhausted(reason Reason, wait time.Duration) *wire.Error {
	answer := wire.Errorf(wire.CodeResourceExhausted, "too many requests: slow down and try again later")
	if reason == ReasonInFlight {
		answer.Message = "too many requests under way: let some of them end, waits and streams included"
	}
	answer.RetryAfter = wait
	return answer
}

// enter admits a request, or says why not and when to come back.
func (l *Limiter) enter(name string, now time.Time) (use *callerUse, reason Reason, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	use = l.find(name)
	switch {
	case use == nil:
		return nil, ReasonCallers, inFlightRetry
	case use.inFlight >= l.limits.InFlight:
		return nil, ReasonInFlight, inFlightRetry
	}
	ticket := use.tokens.ReserveN(now, 1)
	if wait = ticket.DelayFrom(now); wait > 0 {
		ticket.CancelAt(now)
		l.rest(use, now)
		return nil, ReasonRate, wait
	}
	use.inFlight++
	if use.place != nil {
		l.idle.Remove(use.place)
		use.place = nil
	}
	return use, "", 0
}

// leave ends a request that enter admitted.
func (l *Limiter) leave(use *callerUse, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	use.inFlight--
	l.rest(use, now)
}

// rest puts a caller with nothing under way at the end of the idle ones.
func (l *Limiter) rest(use *callerUse, now time.Time) {
	if use.inFlight > 0 {
		return
	}
	use.since = now
	if use.place == nil {
		use.place = l.idle.PushBack(use)
		return
	}
	l.idle.MoveToBack(use.place)
}

// forget drops callers whose burst is whole again, a few at a time: more than one
// comes with every request.
func (l *Limiter) forget(now time.Time) {
	const atOnce = 4
	for range atOnce {
		use := l.longestIdle()
		if use == nil || now.Sub(use.since) < l.refill {
			return
		}
		l.drop(use)
	}
}

// find returns the caller, a new one if need be in the place of the longest idle;
// nil when all places are in use.
func (l *Limiter) find(name string) *callerUse {
	if use, ok := l.callers[name]; ok {
		return use
	}
	if len(l.callers) >= l.limits.Callers {
		use := l.longestIdle()
		if use == nil {
			return nil
		}
		l.drop(use)
	}
	use := &callerUse{name: name, tokens: rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)}
	l.callers[name] = use
	return use
}

func (l *Limiter) longestIdle() *callerUse {
	front := l.idle.Front()
	if front == nil {
		return nil
	}
	use, _ := front.Value.(*callerUse)
	return use
}

func (l *Limiter) drop(use *callerUse) {
	l.idle.Remove(use.place)
	delete(l.callers, use.name)
}
