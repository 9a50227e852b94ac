package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

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
