package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// stepper is a run whose stages a test sets.
type stepper struct {
	stage chan string
	done  chan struct{}
}

func newStepper() *stepper { return &stepper{stage: make(chan string), done: make(chan struct{})} }

func (s *stepper) run(ctx context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
	for {
		select {
		case name, more := <-s.stage:
			if !more {
				return okOutcome(), nil
			}
			progress(name)
			s.done <- struct{}{}
		case <-ctx.Done():
			return runtime.Outcome{}, ctx.Err()
		}
	}
}

func (s *stepper) step(name string) {
	s.stage <- name
	<-s.done
}

// asyncStatus polls in the background, as alice.
func (s *stack) asyncStatus(id string, more ...string) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- s.post(runtimeapi.PathStatus, sessionBody(id), user(alice, more...)) }()
	return c
}

// awaitHeld returns once n polls are held.
func (s *stack) awaitHeld(n int) {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for s.server.manager.heldPolls() != n {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d polls are held, want %d", s.server.manager.heldPolls(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAPollWithoutATagIsHeldToTheEnd(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	id := s.create(wiki, user(alice))
	st.step("agent")
	poll := s.asyncStatus(id, runtimeapi.HeaderPrefer, "wait=30")
	s.awaitHeld(1)
	st.step("writing")
	st.step("refreshing")
	select {
	case a := <-poll:
		t.Fatalf("answered before the end: %s", a.body)
	default:
	}
	close(st.stage)
	a := receive(t, poll)
	if a.state().Status != runtimeapi.StatusCompleted || a.header.Get("Preference-Applied") != "wait=30" {
		t.Errorf("answer %s %v", a.body, a.header)
	}
	dur, ok := strings.CutPrefix(a.header.Get("Server-Timing"), "state;dur=")
	if ms, err := strconv.ParseFloat(dur, 64); !ok || err != nil || ms < 0 || ms > 20000 {
		t.Errorf("Server-Timing %q", a.header.Get("Server-Timing"))
	}
	s.awaitHeld(0)
}

func TestAPollWithATagIsHeldToTheNextChange(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	id := s.create(wiki, user(alice))
	tag := s.status(id, alice).header.Get("ETag")
	for _, stage := range []string{"collecting_context", "agent"} {
		poll := s.asyncStatus(id, runtimeapi.HeaderPrefer, "wait=30", "If-None-Match", tag)
		s.awaitHeld(1)
		st.step(stage)
		a := receive(t, poll)
		if a.state().Stage != "compile: "+stage || a.header.Get("ETag") == tag {
			t.Errorf("answer %s, tag %s", a.body, a.header.Get("ETag"))
		}
		tag = a.header.Get("ETag")
	}
	t.Run("an old tag is answered at once", func(t *testing.T) {
		a := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=30", "If-None-Match", `"old", W/"older"`)
		if a.header.Get("ETag") != tag {
			t.Errorf("answer %s", a.body)
		}
	})
	t.Run("a cancel is a change", func(t *testing.T) {
		poll := s.asyncStatus(id, runtimeapi.HeaderPrefer, "wait=30", "If-None-Match", `"x", W/`+tag)
		s.awaitHeld(1)
		s.cancel(id, alice)
		if a := receive(t, poll); !strings.HasPrefix(string(a.state().Status), "cancel") {
			t.Errorf("answer %s", a.body)
		}
	})
	end := s.end(id, alice)
	t.Run("a session that ended never changes again", func(t *testing.T) {
		a := s.status(id, alice)
		b := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=30", "If-None-Match", a.header.Get("ETag"))
		if diff := cmp.Diff(end, b.state()); diff != "" || b.header.Get("ETag") != a.header.Get("ETag") {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	})
}

func TestTheTagIsTheSameAfterARestart(t *testing.T) {
	s := newStack(t)
	s.engine.run = func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
		return runtime.Outcome{Result: json.RawMessage(" {\"a\" : \"<é>\u2028\", \"n\": 1.0 } ")}, nil
	}
	id := s.create(wiki, user(alice))
	s.end(id, alice)
	before := s.status(id, alice)
	s.crash(func() {})
	after := s.status(id, alice)
	if after.header.Get("ETag") != before.header.Get("ETag") || string(after.body) != string(before.body) {
		t.Errorf("before %s, after %s", before.body, after.body)
	}
}

func TestAHeldPollEndsWithItsTime(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	id := s.create(wiki, user(alice))
	start := time.Now()
	a := s.status(id, alice, runtimeapi.HeaderPrefer, "respond-async, wait=1; x=y")
	if a.state().Status.Terminal() || time.Since(start) < time.Second || a.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("answer after %s: %s %v", time.Since(start), a.body, a.header)
	}
	close(st.stage)
}

func TestAHeldPollOutlivesTheServersReadTimeout(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	short := &http.Server{Handler: s.server, ReadTimeout: 50 * time.Millisecond, WriteTimeout: 50 * time.Millisecond, ReadHeaderTimeout: time.Second}
	s.web.Close()
	s.web = newWeb(t, short)
	id := s.create(wiki, user(alice))
	a := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=1")
	if a.code != http.StatusOK || a.state().Status != runtimeapi.StatusRunning {
		t.Errorf("answer %d %s", a.code, a.body)
	}
	close(st.stage)
}

func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	id := s.create(wiki, user(alice))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.request(ctx, runtimeapi.PathStatus, sessionBody(id), user(alice, runtimeapi.HeaderPrefer, "wait=60"))
		done <- err
	}()
	s.awaitHeld(1)
	cancel()
	if receive(t, done) == nil {
		t.Error("an answer came")
	}
	s.awaitHeld(0)
	close(st.stage)
}

func TestHeldPollsAreBounded(t *testing.T) {
	for name, limit := range map[string]int{"by the server": 3, "by the session": 1024} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(c *Config) { c.Limits.HeldPolls = limit })
			st := newStepper()
			s.engine.run = st.run
			id := s.create(wiki, user(alice))
			n := min(limit, holdsPerSession)
			var polls sync.WaitGroup
			for range n {
				polls.Go(func() {
					s.post(runtimeapi.PathStatus, sessionBody(id), user(alice, runtimeapi.HeaderPrefer, "wait=60"))
				})
			}
			s.awaitHeld(n)
			a := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=60")
			if a.code != 200 || a.state().Status != runtimeapi.StatusRunning {
				t.Errorf("one too many = %d %s", a.code, a.body)
			}
			if applied, found := a.header["Preference-Applied"]; found {
				t.Errorf("Preference-Applied %q for a poll that was not held", applied)
			}
			close(st.stage)
			polls.Wait()
			s.awaitHeld(0)
		})
	}
}

func TestShutdownAnswersHeldPolls(t *testing.T) {
	s := newStack(t)
	st := newStepper()
	s.engine.run = st.run
	id := s.create(wiki, user(alice))
	poll := s.asyncStatus(id, runtimeapi.HeaderPrefer, "wait=60")
	s.awaitHeld(1)
	s.server.Drain()
	a := receive(t, poll)
	if a.code != 200 || a.state().Status != runtimeapi.StatusRunning || a.header.Get("Preference-Applied") != "" {
		t.Errorf("answer = %d %s %v", a.code, a.body, a.header)
	}
	if a := s.status(id, alice, runtimeapi.HeaderPrefer, "wait=60"); a.code != 200 {
		t.Errorf("a poll while draining = %d %s", a.code, a.body)
	}
}

func TestAnUnknownSessionIsNotHeld(t *testing.T) {
	s := newStack(t)
	a := s.status("ses_unknown", alice, runtimeapi.HeaderPrefer, "wait=60")
	if a.code != 404 || a.header.Get("Preference-Applied") != "wait=60" {
		t.Errorf("answer = %d %s %v", a.code, a.body, a.header)
	}
}

func TestPreferredWait(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"":                       0,
		"wait=5":                 5 * time.Second,
		"Wait = 5":               5 * time.Second,
		`wait="7"`:               7 * time.Second,
		"return=minimal, wait=3": 3 * time.Second,
		"wait=3, wait=9":         3 * time.Second,
		"wait=999999":            60 * time.Second,
		"wait=-1":                0,
		"wait":                   0,
		"wait=x":                 0,
		"waiting=5":              0,
		"wait=5;q=1":             5 * time.Second,
	} {
		h := http.Header{}
		h.Set("Prefer", line)
		if got := preferredWait(h); got != want {
			t.Errorf("%q = %s, want %s", line, got, want)
		}
	}
}

func TestIfNoneMatch(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, `"a"`: true, `W/"a"`: true, `"b", "a"`: true, `"b"`: false, "*": true, "a": false,
	} {
		h := http.Header{}
		h.Set("If-None-Match", line)
		if got := ifNoneMatch(h).match(`"a"`); got != want {
			t.Errorf("%q matches: %v, want %v", line, got, want)
		}
	}
	if fmt.Sprint(ifNoneMatch(http.Header{})) != "[]" {
		t.Error("no header, but tags")
	}
}
