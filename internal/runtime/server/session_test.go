package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestStatusTellsTheWholeStory(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Running = 1 })
	stage, step := make(chan string), make(chan struct{})
	s.engine.run = func(_ context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
		for name := range stage {
			progress(name)
			step <- struct{}{}
		}
		return okOutcome(), nil
	}
	id := s.create(wiki, user(alice))
	queued := s.create("viking://resources/later", user(alice))

	want := runtimeapi.TaskStatus{Status: "running", Stage: "compile: loading_skill", Meta: json.RawMessage(`{}`), Result: json.RawMessage(`null`)}
	check := func(id string) {
		t.Helper()
		a := s.status(id, alice)
		if diff := cmp.Diff(want, a.state()); a.code != http.StatusOK || diff != "" {
			t.Errorf("status %d (-want +got):\n%s", a.code, diff)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(a.body, &members); err != nil || len(members) != 5 {
			t.Errorf("members of %s, %v", a.body, err)
		}
	}
	check(id)
	for _, name := range []string{"collecting_context", "agent", "compile: writing"} {
		stage <- name
		<-step
		want.Stage = "compile: " + strings.TrimPrefix(name, "compile: ")
		check(id)
	}
	want.Status, want.Stage = "pending", "compile: queued"
	check(queued)
	close(stage)
	s.end(id, alice)
	want = runtimeapi.TaskStatus{
		Status: "completed", Stage: "compile: completed",
		Meta: json.RawMessage(`{"token_usage":{"total_tokens":0}}`), Result: json.RawMessage(`{"page_count":1}`),
	}
	check(id)
	s.end(queued, alice)
}

func TestWhatARunLeavesBehind(t *testing.T) {
	cases := map[string]struct {
		run         func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error)
		status      runtimeapi.Status
		stage, code string
	}{
		"a salvaged result": {func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			return runtime.Outcome{Stage: "salvaged", Result: json.RawMessage(`{}`)}, nil
		}, "completed", "compile: salvaged", ""},
		"a result without a stage": {func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			return runtime.Outcome{Result: json.RawMessage(`{}`), Meta: json.RawMessage(`[]`)}, nil
		}, "completed", "compile: completed", ""},
		"no result": {func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			return runtime.Outcome{Stage: "completed"}, nil
		}, "failed", "compile: loading_skill", "INTERNAL"},
		"a result that is no object": {func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			return runtime.Outcome{Stage: "completed", Result: json.RawMessage(`[1]`)}, nil
		}, "failed", "compile: loading_skill", "INTERNAL"},
		"a failure with a code": {func(_ context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
			progress("writing")
			return runtime.Outcome{}, fmt.Errorf("write: %w", &runtimeapi.Error{Code: runtimeapi.CodeWriteFailed, Message: "m"})
		}, "failed", "compile: writing", runtimeapi.CodeWriteFailed},
		"a failure without one": {func(_ context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
			progress("agent")
			return runtime.Outcome{}, errors.New("private detail")
		}, "failed", "compile: agent", "INTERNAL"},
		"a panic": {func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			panic("private detail")
		}, "failed", "compile: loading_skill", "INTERNAL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			s.engine.run = tc.run
			id := s.create(wiki, user(alice))
			got := s.end(id, alice)
			code := ""
			if got.Error != nil {
				code = got.Error.Code
			}
			if got.Status != tc.status || got.Stage != tc.stage || code != tc.code {
				t.Errorf("status %+v, error %v", got, got.Error)
			}
			if body := s.status(id, alice).body; bytes.Contains(body, []byte("private")) {
				t.Errorf("status tells %s", body)
			}
			if string(got.Meta) != "{}" {
				t.Errorf("meta %s", got.Meta)
			}
			// The slot and the target are free again.
			s.engine.run = nil
			s.end(s.create(wiki, user(alice)), alice)
		})
	}
}

func TestOnlyTheOwnerFindsASession(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	live := s.create(wiki, user(alice))
	receive(t, g.began)
	for _, path := range []string{runtimeapi.PathStatus, runtimeapi.PathCancel} {
		unknown := s.post(path, sessionBody("ses_unknown"), user(alice))
		foreign := s.post(path, sessionBody(live), user(bob))
		if unknown.code != 404 || unknown.message() != "Compile session not found" || unknown.errorCode() != "NOT_FOUND" {
			t.Errorf("unknown: %d %s", unknown.code, unknown.body)
		}
		if foreign.code != unknown.code || !bytes.Equal(foreign.body, unknown.body) {
			t.Errorf("foreign: %d %s", foreign.code, foreign.body)
		}
	}
	if a := s.status(live, alice); a.state().Status != runtimeapi.StatusRunning {
		t.Errorf("a stranger's cancel did something: %s", a.body)
	}
	close(g.let)
	s.end(live, alice)
	for _, path := range []string{runtimeapi.PathStatus, runtimeapi.PathCancel} {
		if a := s.post(path, sessionBody(live), user(bob)); a.code != 404 {
			t.Errorf("foreign, ended: %d %s", a.code, a.body)
		}
	}
}

func TestSessionBodies(t *testing.T) {
	s := newStack(t)
	id := s.create(wiki, user(alice))
	s.end(id, alice)
	for name, tc := range map[string]struct {
		body string
		h    headers
		code int
	}{
		"args beside the id are ignored": {`{"session_id":"` + id + `","args":{"x":[1]}}`, user(alice), 200},
		"another key is refused":         {`{"session_id":"` + id + `","force":true}`, user(alice), 422},
		"no id":                          {`{}`, user(alice), 422},
		"an empty id":                    {`{"session_id":""}`, user(alice), 422},
		"an id that is a number":         {`{"session_id":5}`, user(alice), 422},
		"an id that is too long":         {`{"session_id":"` + strings.Repeat("x", 257) + `"}`, user(alice), 422},
		"no JSON":                        {`session`, user(alice), 400},
		"nobody":                         {sessionBody(id), nil, 401},
	} {
		for _, path := range []string{runtimeapi.PathStatus, runtimeapi.PathCancel} {
			t.Run(name+path, func(t *testing.T) {
				a := s.post(path, tc.body, tc.h)
				if a.code != tc.code {
					t.Errorf("answer = %d %s", a.code, a.body)
				}
				if applied := a.header.Get("Preference-Applied"); (applied == "wait") != (path == runtimeapi.PathStatus) {
					t.Errorf("Preference-Applied %q", applied)
				}
			})
		}
	}
}

func TestCancelOfARunningTask(t *testing.T) {
	s := newStack(t)
	stopped, cleaned := make(chan struct{}), make(chan struct{})
	s.engine.run = func(ctx context.Context, _ runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
		progress("agent")
		<-ctx.Done()
		progress("too late")
		close(stopped)
		<-cleaned
		return okOutcome(), nil // A completion that races the cancel does not count.
	}
	id := s.create(wiki, user(alice))
	for s.status(id, alice, runtimeapi.HeaderPrefer, "wait=5", "If-None-Match", `"none"`).state().Stage != "compile: agent" {
	}
	for range 3 { // Repeatable.
		got := s.cancel(id, alice)
		want := runtimeapi.TaskStatus{Status: "cancelling", Stage: "compile: agent", Meta: json.RawMessage(`{}`), Result: json.RawMessage(`null`)}
		if diff := cmp.Diff(want, got.state()); got.code != 200 || diff != "" {
			t.Errorf("cancel %d (-want +got):\n%s", got.code, diff)
		}
	}
	receive(t, stopped)
	if rec, _, err := s.store.Get(id); err != nil || rec.Status != runtimeapi.StatusCancelling {
		t.Errorf("stored %s, %v", rec.Status, err)
	}
	if got := s.status(id, alice).state(); got.Status != runtimeapi.StatusCancelling {
		t.Errorf("before the cleanup ended: %+v", got)
	}
	close(cleaned)
	want := runtimeapi.TaskStatus{Status: "cancelled", Stage: "cancelled", Meta: json.RawMessage(`{}`), Result: json.RawMessage(`null`)}
	if diff := cmp.Diff(want, s.end(id, alice)); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	for range 2 {
		if diff := cmp.Diff(want, s.cancel(id, alice).state()); diff != "" {
			t.Errorf("cancel again (-want +got):\n%s", diff)
		}
	}
}

func TestCancelOfAQueuedTaskMeansItNeverStarts(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	first := s.create(wiki, user(alice))
	receive(t, g.began)
	queued := s.create(wiki, user(alice))
	for range 2 {
		if got := s.cancel(queued, alice); got.code != 200 || got.state().Status != runtimeapi.StatusCancelled {
			t.Errorf("cancel = %d %s", got.code, got.body)
		}
	}
	close(g.let)
	s.end(first, alice)
	s.end(s.create(wiki, user(alice)), alice)
	if _, ran := s.engine.counts(); ran != 2 {
		t.Errorf("%d runs, want 2", ran)
	}
}

func TestCancelOfAFinishedTaskKeepsItsState(t *testing.T) {
	for name, run := range map[string]func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error){
		"completed": nil,
		"failed": func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
			return runtime.Outcome{}, &runtimeapi.Error{Code: runtimeapi.CodeSkillInvalid, Message: "no"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			s.engine.run = run
			id := s.create(wiki, user(alice))
			want := s.end(id, alice)
			if string(want.Status) != name {
				t.Fatalf("ended as %s", want.Status)
			}
			for range 2 {
				a := s.cancel(id, alice)
				if diff := cmp.Diff(want, a.state()); a.code != 200 || diff != "" {
					t.Errorf("cancel %d (-want +got):\n%s", a.code, diff)
				}
			}
		})
	}
}

func TestRestart(t *testing.T) {
	s := newStack(t)
	cleaned := make(chan struct{})
	s.engine.run = func(ctx context.Context, task runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
		if strings.HasSuffix(task.To, "done") {
			return okOutcome(), nil
		}
		progress("agent")
		<-ctx.Done()
		if strings.HasSuffix(task.To, "cancelling") {
			<-cleaned
		}
		return runtime.Outcome{}, ctx.Err()
	}
	key := func(k string) headers { return user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_"+k) }
	ids := map[string]string{}
	for _, k := range []string{"done", "running", "cancelling"} {
		ids[k] = s.create("viking://resources/"+k, key(k))
	}
	ids["queued"] = s.create("viking://resources/running", key("queued"))
	s.end(ids["done"], alice)
	if got := s.cancel(ids["cancelling"], alice).state().Status; got != runtimeapi.StatusCancelling {
		t.Fatalf("cancel = %s", got)
	}
	// Stages are written a second late; the restart must find this one.
	if err := s.server.manager.flush(); err != nil {
		t.Fatal(err)
	}
	s.crash(func() { close(cleaned) })
	for k, want := range map[string][3]string{
		"done":       {"completed", "compile: completed", ""},
		"running":    {"failed", "compile: agent", "BOT_RESTARTED"},
		"cancelling": {"cancelled", "cancelled", ""},
		"queued":     {"failed", "compile: queued", "BOT_RESTARTED"},
	} {
		if got := s.create("viking://resources/"+k, key(k)); got != ids[k] {
			t.Errorf("%s: replay = %s, want %s", k, got, ids[k])
		}
		st := s.status(ids[k], alice).state()
		code := ""
		if st.Error != nil {
			code = st.Error.Code
		}
		if got := [3]string{string(st.Status), st.Stage, code}; got != want {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	if _, ran := s.engine.counts(); ran != 3 {
		t.Errorf("%d runs, want 3: a replay after a restart must not run", ran)
	}
}

func TestShutdownEndsWhatIsUnfinished(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	running := s.create(wiki, user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1"))
	receive(t, g.began)
	queued := s.create(wiki, user(alice))

	s.server.Drain()
	if a := s.post(runtimeapi.PathTasks, taskBody(wiki), user(alice)); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("create while draining = %d %s", a.code, a.body)
	}
	if got := s.create(wiki, user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")); got != running {
		t.Errorf("replay while draining = %s", got)
	}
	if resp, err := s.web.Client().Get(s.web.URL + PathReady); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("ready while draining: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if err := s.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{running, queued} {
		rec, found, err := s.store.Get(id)
		if err != nil || !found || rec.Status != runtimeapi.StatusFailed || rec.Error.Code != runtimeapi.CodeBotRestarted {
			t.Errorf("stored %+v, %v", rec, err)
		}
	}
}

func TestShutdownDoesNotWaitForARunThatWontStop(t *testing.T) {
	s := newStack(t)
	began, let := make(chan struct{}), make(chan struct{})
	s.engine.run = func(context.Context, runtime.Task, runtime.Progress) (runtime.Outcome, error) {
		close(began)
		<-let
		return okOutcome(), nil
	}
	id := s.create(wiki, user(alice))
	receive(t, began)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Shutdown(ctx); err == nil {
		t.Error("shutdown says that all runs stopped")
	}
	if rec, _, err := s.store.Get(id); err != nil || rec.Status != runtimeapi.StatusFailed {
		t.Errorf("stored %+v, %v", rec, err)
	}
	close(let)
	s.server.manager.runs.Wait()
	if rec, _, err := s.store.Get(id); err != nil || rec.Status != runtimeapi.StatusFailed {
		t.Errorf("a late outcome was stored: %+v, %v", rec, err)
	}
}
