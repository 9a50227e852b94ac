package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// TestTheOperatorsClient drives the server with the protocol's other half.
func TestTheOperatorsClient(t *testing.T) {
	s := newStack(t, func(c *Config) {
		c.ListenerLoopback = false
		c.GatewayTokens = func() []string { return []string{"gw"} }
	})
	st := newStepper()
	s.engine.run = st.run
	client, err := executor.NewHTTP(executor.HTTPConfig{BaseURL: s.web.URL, GatewayToken: executor.StaticToken("gw")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx := t.Context()
	if got, err := client.Probe(ctx); err != nil || !got.HeldPolls {
		t.Fatalf("Probe = %+v, %v", got, err)
	}
	who := executor.Identity{Account: "docs", User: "alice", APIKey: "k", LogID: "req-1"}
	submit := executor.SubmitRequest{Identity: who, Key: "cmp_1", Payload: runtimeapi.CompilePayload{
		From: []string{"viking://resources/in"}, To: wiki, Skill: "viking://agent/skills/wiki",
	}}
	made, err := client.Submit(ctx, submit)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Submit(ctx, submit); err != nil || again != made {
		t.Errorf("Submit again = %+v, %v", again, err)
	}
	poll := executor.PollRequest{Identity: who, SessionID: made.SessionID}
	now, err := client.Poll(ctx, poll)
	if err != nil || now.State != executor.StateRunning || now.ETag == "" {
		t.Fatalf("Poll = %+v, %v", now, err)
	}
	poll.Wait, poll.ETag = 20*time.Second, now.ETag
	observed := make(chan executor.Observation, 1)
	go func() {
		got, err := client.Poll(ctx, poll)
		if err != nil {
			t.Error(err)
		}
		observed <- got
	}()
	s.awaitHeld(1)
	st.step("agent")
	if got := receive(t, observed); got.Stage != "compile: agent" || !got.Held || got.EndLag < 0 {
		t.Errorf("held Poll = %+v", got)
	}
	if got, err := client.Cancel(ctx, executor.CancelRequest{Identity: who, SessionID: made.SessionID}); err != nil ||
		(got.State != executor.StateCancelling && got.State != executor.StateCancelled) {
		t.Errorf("Cancel = %+v, %v", got, err)
	}
	poll.ETag = ""
	if got, err := client.Poll(ctx, poll); err != nil || got.State != executor.StateCancelled {
		t.Errorf("Poll at the end = %+v, %v", got, err)
	}
	poll.SessionID = "ses_lost"
	if _, err := client.Poll(ctx, poll); !executor.IsSessionNotFound(err) {
		t.Errorf("Poll of a lost session = %v", err)
	}
	if got := s.engine.ran[0].Principal; got.Account != "docs" || got.User != "alice" {
		t.Errorf("principal %+v", got)
	}
}

// TestAnEndIsNoticedSoon measures DESIGN.md's budget of 50 ms at p99 from the
// end of a run to the arrival of a held poll's answer, over HTTP.
func TestAnEndIsNoticedSoon(t *testing.T) {
	s := newStack(t, func(c *Config) {
		c.Limits.Admitted, c.Limits.AdmittedPerUser, c.Limits.Running = 100, 100, 100
	})
	g := newGate()
	s.engine.run = g.run
	const tasks = 64
	var wg sync.WaitGroup
	arrived := make([]time.Time, tasks)
	for i := range tasks {
		id := s.create(fmt.Sprintf("viking://resources/%d", i), user(alice))
		wg.Go(func() {
			s.end(id, alice)
			arrived[i] = time.Now()
		})
	}
	s.awaitHeld(tasks)
	end := time.Now()
	close(g.let) // All of them end at the same moment, the worst case.
	wg.Wait()
	slices.SortFunc(arrived, time.Time.Compare)
	last := arrived[tasks-1].Sub(end)
	t.Logf("64 ends at once: median %s, last %s", arrived[tasks/2].Sub(end), last)
	// The bound is wider than the budget: this machine is shared and the race
	// detector slows it down. test/load has the budget itself.
	if last > 2*time.Second {
		t.Errorf("the last end was noticed after %s", last)
	}
}
