package memo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/agentruntime/operator/internal/access/memo"
)

const ttl = 5 * time.Second

var errBroken = errors.New("broken")

func newMemo(size, open int) *memo.Memo[string] {
	return memo.New[string](memo.Options{TTL: ttl, Size: size, Open: open, Clock: clock.RealClock{}})
}

// counter answers with its count.
type counter struct {
	asked atomic.Int32
	good  bool
	err   error
}

func (c *counter) ask(context.Context) (memo.Answer[string], error) {
	return memo.Answer[string]{Value: fmt.Sprint(c.asked.Add(1)), Good: c.good}, c.err
}

func TestAnswersCountForTheirTime(t *testing.T) {
	for name, good := range map[string]bool{"a good answer": true, "a bad answer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, asked := newMemo(8, 1), &counter{good: good}
				for _, step := range []struct {
					after time.Duration
					want  string
				}{{0, "1"}, {ttl - time.Nanosecond, "1"}, {2 * time.Nanosecond, "2"}} {
					<-time.After(step.after)
					if got, err := answers.Do(t.Context(), "k", asked.ask); got != step.want || err != nil {
						t.Errorf("after %v: Do = %q, %v; want %q", step.after, got, err, step.want)
					}
				}
			})
		})
	}
}

func TestErrorsAreNotRemembered(t *testing.T) {
	answers, asked := newMemo(8, 1), &counter{err: errBroken}
	for range 2 {
		if _, err := answers.Do(t.Context(), "k", asked.ask); !errors.Is(err, errBroken) {
			t.Fatalf("Do: %v, want %v", err, errBroken)
		}
	}
	if got := asked.asked.Load(); got != 2 {
		t.Errorf("asked %d times, want 2", got)
	}
}

func TestBadAnswersPushNoGoodOnesOut(t *testing.T) {
	answers, good, bad := newMemo(4, 1), &counter{good: true}, &counter{}
	if _, err := answers.Do(t.Context(), "good", good.ask); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := answers.Do(t.Context(), fmt.Sprint(i), bad.ask); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := answers.Do(t.Context(), "good", good.ask); got != "1" {
		t.Errorf("the good answer was asked for again: %q", got)
	}
	// What was pushed out is asked for again: the bound holds.
	if _, _ = answers.Do(t.Context(), "0", bad.ask); bad.asked.Load() != 101 {
		t.Errorf("asked %d times for bad ones, want 101", bad.asked.Load())
	}
}

func TestTheSameQuestionIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, asked, release := newMemo(8, 1), &counter{good: true}, make(chan struct{})
		slow := func(ctx context.Context) (memo.Answer[string], error) {
			<-release
			return asked.ask(ctx)
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if got, err := answers.Do(t.Context(), "k", slow); got != "1" || err != nil {
					t.Errorf("Do = %q, %v; want 1", got, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		group.Wait()
	})
}

func TestAFullHouseKeepsNoRememberedAnswerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, asked := newMemo(8, 2), &counter{good: true}
		if _, err := answers.Do(t.Context(), "known", asked.ask); err != nil {
			t.Fatal(err)
		}
		release, open := make(chan struct{}), atomic.Int32{}
		slow := func(ctx context.Context) (memo.Answer[string], error) {
			open.Add(1)
			<-release
			return memo.Answer[string]{Value: "late"}, ctx.Err()
		}
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() { _, _ = answers.Do(t.Context(), fmt.Sprint("flood", i), slow) })
		}
		synctest.Wait()
		if got := open.Load(); got != 2 {
			t.Errorf("%d questions are open, want 2", got)
		}
		if got, err := answers.Do(t.Context(), "known", asked.ask); got != "1" || err != nil {
			t.Errorf("a remembered answer = %q, %v; want 1", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := answers.Do(ctx, "new", asked.ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a question without a slot: %v, want its deadline", err)
		}
		close(release)
		group.Wait()
	})
}

func TestOthersAskOnWhenTheFirstGivesUp(t *testing.T) {
	for name, end := range map[string]func(context.CancelFunc){
		"by its context": func(cancel context.CancelFunc) { cancel() },
		"by a panic":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, asked := newMemo(8, 1), &counter{good: true}
				first, cancel := context.WithCancel(t.Context())
				defer cancel()
				burst := make(chan struct{})
				go func() {
					defer func() { _ = recover() }()
					_, _ = answers.Do(first, "k", func(ctx context.Context) (memo.Answer[string], error) {
						select {
						case <-ctx.Done():
							return memo.Answer[string]{}, ctx.Err()
						case <-burst:
							panic("burst")
						}
					})
				}()
				synctest.Wait()
				got := make(chan string)
				go func() {
					answer, _ := answers.Do(t.Context(), "k", asked.ask)
					got <- answer
				}()
				synctest.Wait()
				if end != nil {
					end(cancel)
				} else {
					close(burst)
				}
				if answer := <-got; answer != "1" {
					t.Errorf("the second got %q, want 1", answer)
				}
			})
		})
	}
}

func TestAFollowerLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, release := newMemo(8, 1), make(chan struct{})
		go func() {
			_, _ = answers.Do(t.Context(), "k", func(context.Context) (memo.Answer[string], error) {
				<-release
				return memo.Answer[string]{}, nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := answers.Do(ctx, "k", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v, want its deadline", err)
		}
		close(release)
	})
}

func TestAFloodOfStrangersLeavesAWayForThoseMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const open = 4
		m := newMemo(100, open)
		regular := &counter{good: true}
		if _, err := m.Do(t.Context(), "regular", regular.ask); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl + time.Second) // the answer counts no more

		ctx, cancel := context.WithCancel(t.Context())
		var strangers sync.WaitGroup
		for i := range 10 * open {
			strangers.Go(func() {
				_, _ = m.Do(ctx, fmt.Sprintf("stranger %d", i), func(ctx context.Context) (memo.Answer[string], error) {
					<-ctx.Done()
					return memo.Answer[string]{}, ctx.Err()
				})
			})
		}
		synctest.Wait()
		got, err := m.Do(t.Context(), "regular", regular.ask)
		if err != nil || got != "2" {
			t.Errorf("Do = %q, %v; want the second answer", got, err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := m.Do(short, "one more stranger", regular.ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stranger in a full house: %v, want to wait in vain", err)
		}
		cancel()
		strangers.Wait()
	})
}
