package middleware

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newTestLimiter(t *testing.T, limits Limits) *Limiter {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return NewLimiter(limits, metrics)
}

func TestLimiterRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, Limits{Rate: 10, Burst: 3})
		for i := range 3 {
			use, reason, _ := l.enter("ann", time.Now())
			if use == nil {
				t.Fatalf("request %d of the burst was refused: %s", i, reason)
			}
			l.leave(use, time.Now())
		}
		use, reason, wait := l.enter("ann", time.Now())
		if use != nil || reason != ReasonRate || wait != 100*time.Millisecond {
			t.Fatalf("beyond the burst: use %v, reason %q, wait %s", use, reason, wait)
		}
		if use, _, _ := l.enter("bob", time.Now()); use == nil {
			t.Fatal("another caller was refused too")
		}
		time.Sleep(100 * time.Millisecond)
		if use, reason, _ := l.enter("ann", time.Now()); use == nil {
			t.Fatalf("refused after the wait that was asked for: %s", reason)
		}
	})
}

func TestLimiterInFlight(t *testing.T) {
	l := newTestLimiter(t, Limits{InFlight: 2})
	now := time.Now()
	first, _, _ := l.enter("ann", now)
	_, _, _ = l.enter("ann", now)
	if use, reason, wait := l.enter("ann", now); use != nil || reason != ReasonInFlight || wait <= 0 {
		t.Fatalf("beyond the bound: use %v, reason %q, wait %s", use, reason, wait)
	}
	if use, _, _ := l.enter("bob", now); use == nil {
		t.Fatal("another caller was refused too")
	}
	l.leave(first, now)
	if use, reason, _ := l.enter("ann", now); use == nil {
		t.Fatalf("refused after one had left: %s", reason)
	}
}

func TestLimiterForgets(t *testing.T) {
	l := newTestLimiter(t, Limits{Rate: 10, Burst: 10, Callers: 100})
	now := time.Now()
	for i := range 1000 {
		use, reason, _ := l.enter(fmt.Sprint("user-", i), now)
		if use == nil {
			t.Fatalf("caller %d was refused: %s", i, reason)
		}
		l.leave(use, now)
	}
	if len(l.callers) != 100 || l.idle.Len() != 100 {
		t.Fatalf("%d callers and %d idle ones are kept, want 100", len(l.callers), l.idle.Len())
	}
	now = now.Add(time.Second)
	for range 50 {
		use, _, _ := l.enter("ann", now)
		l.leave(use, now)
		now = now.Add(time.Second)
	}
	if len(l.callers) > 1 {
		t.Fatalf("%d callers are kept after a long pause, want 1", len(l.callers))
	}
}

func TestLimiterKeepsCallersWithRequestsUnderWay(t *testing.T) {
	l := newTestLimiter(t, Limits{Callers: 1})
	now := time.Now()
	ann, _, _ := l.enter("ann", now)
	if use, reason, _ := l.enter("bob", now.Add(time.Hour)); use != nil || reason != ReasonCallers {
		t.Fatalf("bob took the place of a caller with a request under way: reason %q", reason)
	}
	l.leave(ann, now)
	if use, _, _ := l.enter("bob", now); use == nil {
		t.Fatal("bob was refused though ann is idle")
	}
}

func BenchmarkLimiter(b *testing.B) {
	metrics, _ := NewMetrics(prometheus.NewRegistry())
	l := NewLimiter(Limits{Rate: 1e9, Burst: 1e9}, metrics)
	for b.Loop() {
		use, _, _ := l.enter("ann", time.Now())
		l.leave(use, time.Now())
	}
}
