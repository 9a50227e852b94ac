package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
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

func TestAKeyOutlivesItsSession(t *testing.T) {
	s := newStack(t)
	h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
	id := s.create(wiki, h)
	s.end(id, alice)
	s.stop()
	// A day later, on the store's clock.
	later := func() time.Time { return time.Now().Add(25 * time.Hour) }
	store, err := session.Open(session.Options{Dir: s.dir, Now: later})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := store.Prune(); err != nil || got.Records != 1 || got.Keys != 0 {
		t.Errorf("Prune = %+v, %v", got, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	if a := s.status(id, alice); a.code != 404 {
		t.Errorf("status = %d %s", a.code, a.body)
	}
	if got := s.create(wiki, h); got != id {
		t.Errorf("replay = %s, want %s", got, id)
	}
	if _, ran := s.engine.counts(); ran != 1 {
		t.Errorf("%d runs", ran)
	}
}

func TestADiskThatTakesNoCreate(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Admitted = 1 })
	s.store.set(func(f *flakyStore) { f.failCreate = true })
	h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
	for range 3 {
		a := s.post(runtimeapi.PathTasks, taskBody(wiki), h)
		if a.code != 503 || a.errorCode() != runtimeapi.CodeUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("create = %d %s", a.code, a.body)
		}
	}
	if resp, err := s.web.Client().Get(s.web.URL + PathReady); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("ready: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if _, ran := s.engine.counts(); ran != 0 || len(s.server.manager.entries) != 0 {
		t.Errorf("%d runs, %d entries", ran, len(s.server.manager.entries))
	}
	s.store.set(func(f *flakyStore) { f.failCreate = false })
	s.end(s.create(wiki, h), alice)
}

func TestADiskThatTakesNoOutcome(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	id := s.create(wiki, user(alice))
	receive(t, g.began)
	s.store.set(func(f *flakyStore) { f.failSave = true })
	close(g.let)
	if got := s.end(id, alice); got.Status != runtimeapi.StatusCompleted {
		t.Errorf("ended as %+v", got)
	}
	if a := s.cancel(id, alice); a.code != 503 {
		t.Errorf("a cancel that can't be kept = %d %s", a.code, a.body)
	}
	s.store.set(func(f *flakyStore) { f.failSave = false })
	if a := s.cancel(id, alice); a.code != 200 || a.state().Status != runtimeapi.StatusCompleted {
		t.Errorf("cancel = %d %s", a.code, a.body)
	}
	if err := s.server.manager.flush(); err != nil {
		t.Fatal(err)
	}
	if rec, _, err := s.store.Get(id); err != nil || rec.Status != runtimeapi.StatusCompleted {
		t.Errorf("stored %+v, %v", rec, err)
	}
	if n := len(s.server.manager.live()); n != 0 {
		t.Errorf("%d sessions are still in memory", n)
	}
}

func TestACancelThatCannotBeStoredStillStops(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	id := s.create(wiki, user(alice))
	receive(t, g.began)
	s.store.set(func(f *flakyStore) { f.failSave = true })
	if a := s.cancel(id, alice); a.code != 503 {
		t.Errorf("cancel = %d %s", a.code, a.body)
	}
	if got := s.end(id, alice); got.Status != runtimeapi.StatusCancelled {
		t.Errorf("ended as %+v", got)
	}
	s.store.set(func(f *flakyStore) { f.failSave = false })
	if a := s.cancel(id, alice); a.code != 200 || a.state().Status != runtimeapi.StatusCancelled {
		t.Errorf("cancel again = %d %s", a.code, a.body)
	}
}

func TestADiskThatCannotBeRead(t *testing.T) {
	s := newStack(t)
	id := s.create(wiki, user(alice))
	s.end(id, alice)
	s.store.set(func(f *flakyStore) { f.failRead = true })
	if a := s.status(id, alice); a.code != 503 || a.errorCode() != runtimeapi.CodeUnavailable {
		t.Errorf("status = %d %s", a.code, a.body)
	}
}

func TestNoSecretIsLoggedOrStored(t *testing.T) {
	const (
		apiKey  = "sk-apikey-7f3a9c"
		bearer  = "bearer-5d1e8b"
		gateway = "gateway-2c4d6e"
		wrong   = "wrong-gateway-9a8b"
		model   = "ep-secret-model"
		idemKey = "cmp_idem_secret_1"
		instr   = "instruction-secret-3b"
	)
	s := newStack(t, func(c *Config) {
		c.ListenerLoopback = false
		c.GatewayTokens = func() []string { return []string{gateway} }
		c.AllowedModels = []string{model}
	})
	s.engine.run = func(_ context.Context, task runtime.Task, _ runtime.Progress) (runtime.Outcome, error) {
		switch {
		case strings.HasSuffix(task.To, "fail"):
			return runtime.Outcome{}, errors.New("disk on fire")
		case strings.HasSuffix(task.To, "panic"):
			panic(task)
		}
		return okOutcome(), nil
	}
	for _, to := range []string{"ok", "fail", "panic"} {
		body := `{"task_type":"compile","payload":{"from":["viking://resources/a"],"to":"viking://resources/` + to +
			`","skill":"s","instruction":"` + instr + `","args":{"model_name":"` + model + `"}}}`
		for _, h := range []headers{user(apiKey), {"Authorization", "Bearer " + bearer}} {
			h = append(h, runtimeapi.HeaderGatewayToken, gateway)
			a := s.post(runtimeapi.PathTasks, body, append(h, runtimeapi.HeaderIdempotencyKey, idemKey+to))
			if a.code != 202 {
				t.Fatalf("create = %d %s", a.code, a.body)
			}
			s.post(runtimeapi.PathStatus, sessionBody(a.session()), append(h, runtimeapi.HeaderPrefer, "wait=20"))
			s.post(runtimeapi.PathCancel, sessionBody(a.session()), h)
		}
	}
	s.post(runtimeapi.PathTasks, `{"x":"`+apiKey+`"}`, user(apiKey, runtimeapi.HeaderGatewayToken, wrong, runtimeapi.HeaderLogID, "bad id "+apiKey))
	s.stop()

	stored, err := os.ReadFile(filepath.Join(s.dir, session.FileName))
	if err != nil {
		t.Fatal(err)
	}
	logged := s.log.String()
	if !strings.Contains(logged, "Session ended") || !bytes.Contains(stored, []byte("ses_")) {
		t.Fatal("nothing to search")
	}
	for _, secret := range []string{apiKey, bearer, gateway, wrong, model, idemKey, instr} {
		if strings.Contains(logged, secret) {
			t.Errorf("%s is in the log", secret)
		}
		if bytes.Contains(stored, []byte(secret)) {
			t.Errorf("%s is in the store", secret)
		}
	}
}
