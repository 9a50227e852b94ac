package fakeruntime_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

const target = "viking://resources/wiki"

func start(t *testing.T, opts fakeruntime.Options) *fakeruntime.Server {
	t.Helper()
	server := fakeruntime.Start(opts)
	t.Cleanup(server.Close)
	return server
}

func newClient(t testing.TB, server *fakeruntime.Server, change ...func(*executor.HTTPConfig)) *executor.HTTP {
	t.Helper()
	cfg := executor.HTTPConfig{BaseURL: server.URL, RequestTimeout: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	client, err := executor.NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func submitRequest(key, to string) executor.SubmitRequest {
	return executor.SubmitRequest{
		Identity: executor.Identity{APIKey: "user-1"}, Key: key,
		Payload: runtimeapi.CompilePayload{From: []string{"viking://resources/in"}, To: to, Skill: "viking://agent/skills/wiki"},
	}
}

func submit(t testing.TB, c *executor.HTTP, key string) string {
	t.Helper()
	got, err := c.Submit(t.Context(), submitRequest(key, target))
	if err != nil {
		t.Fatalf("submit %s: %v", key, err)
	}
	return got.SessionID
}

func pollRequest(session string) executor.PollRequest {
	return executor.PollRequest{Identity: executor.Identity{APIKey: "user-1"}, SessionID: session}
}

func poll(t testing.TB, c *executor.HTTP, session string) executor.Observation {
	t.Helper()
	got, err := c.Poll(t.Context(), pollRequest(session))
	if err != nil {
		t.Fatalf("poll: %v", err)
	}
	return got
}

func cancel(t testing.TB, c *executor.HTTP, session string) executor.Observation {
	t.Helper()
	got, err := c.Cancel(t.Context(), executor.CancelRequest{Identity: executor.Identity{APIKey: "user-1"}, SessionID: session})
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// states polls and returns what it saw, as many times as asked.
func states(t testing.TB, c *executor.HTTP, session string, times int) []executor.State {
	t.Helper()
	var got []executor.State
	for range times {
		got = append(got, poll(t, c, session).State)
	}
	return got
}

func TestOneKeyIsOneExecutionAlsoConcurrently(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	client := newClient(t, server)
	sessions := make([]string, 16)
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() { sessions[i] = submit(t, client, "k1") })
	}
	wg.Wait()
	for _, session := range sessions {
		if session != sessions[0] {
			t.Fatalf("sessions %v of one key differ", sessions)
		}
	}
	want := fakeruntime.Report{
		Creates: 16, Executions: 1, Repeated: []string{},
		Keys: map[string]fakeruntime.KeyReport{"k1": {
			Creates: 16, Sessions: sessions[:1], Executions: 1, To: target, Status: runtimeapi.StatusCompleted}},
		Tasks: map[string]fakeruntime.TaskReport{target: {Keys: []string{"k1"}, Executions: 1}},
	}
	got := server.Report()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(fakeruntime.KeyReport{}, "Runs")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if runs := got.Keys["k1"].Runs; len(runs) != 1 || runs[0].Session != sessions[0] || !runs[0].Ended.Equal(runs[0].Began) {
		t.Errorf("runs %+v, want one of session %s that ended as it began", runs, sessions[0])
	}
}

func TestRunsTellWhenTasksWereExecuted(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Running("compile: agent"), fakeruntime.Completed("")),
	}})
	session := submit(t, newClient(t, server), "k1")
	runs := server.Report().Keys["k1"].Runs
	if len(runs) != 1 || runs[0].Session != session || runs[0].Began.IsZero() || !runs[0].Ended.IsZero() {
		t.Fatalf("runs %+v, want one of session %s that goes on", runs, session)
	}
	if err := server.Advance("k1"); err != nil {
		t.Fatal(err)
	}
	if runs := server.Report().Keys["k1"].Runs; len(runs) != 1 || !runs[0].Ended.After(runs[0].Began) {
		t.Errorf("runs %+v, want one that ended after it began", runs)
	}
}

func TestASecondKeyOrUserRunsAgainAndShows(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	client := newClient(t, server)
	first, second := submit(t, client, "k1"), submit(t, client, "k2")
	other := submitRequest("k1", "viking://resources/other")
	other.Identity.APIKey = "user-2"
	third, err := client.Submit(t.Context(), other)
	must(t, err)
	if first == second || first == third.SessionID {
		t.Errorf("sessions %s, %s, %s are not all different", first, second, third.SessionID)
	}
	report := server.Report()
	if diff := cmp.Diff([]string{target}, report.Repeated); diff != "" {
		t.Errorf("repeated (-want +got):\n%s", diff)
	}
	if got := report.Tasks[target]; got.Executions != 2 || len(got.Keys) != 2 {
		t.Errorf("task = %+v, want two executions under two keys", got)
	}
	if _, err := client.Poll(t.Context(), pollRequest(third.SessionID)); !executor.IsSessionNotFound(err) {
		t.Errorf("another user's session = %v, want not found", err)
	}
}

func TestUsersByHeadersOutliveTheirCredential(t *testing.T) {
	t.Parallel()
	client := newClient(t, start(t, fakeruntime.Options{UserOf: fakeruntime.ByAccountAndUser}))
	req := submitRequest("k1", target)
	req.Identity.Account, req.Identity.User = "a", "u"
	first, err := client.Submit(t.Context(), req)
	must(t, err)
	req.Identity.APIKey = "renewed"
	second, err := client.Submit(t.Context(), req)
	must(t, err)
	if first != second {
		t.Errorf("sessions %v and %v differ", first, second)
	}
}

func TestScriptsAdvance(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	server.On(fakeruntime.Any(), fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Failed("X", "not this rule"))})
	server.On(fakeruntime.To(target), fakeruntime.Behaviour{Steps: fakeruntime.Script(
		fakeruntime.Running("reading"), fakeruntime.Running("writing"), fakeruntime.Completed(`{"pages":1.0}`))})
	client := newClient(t, server)
	session := submit(t, client, "k1")
	if err := server.Advance("nobody"); err == nil {
		t.Error("Advance of an unknown task succeeded")
	}
	var stages []string
	for _, name := range []string{"k1", target} {
		stages = append(stages, poll(t, client, session).Stage)
		must(t, server.Advance(name))
	}
	if diff := cmp.Diff([]string{"reading", "writing"}, stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	want := executor.Observation{
		State: executor.StateCompleted, Stage: "compile: completed",
		Meta: json.RawMessage(`{}`), Result: json.RawMessage(`{"pages":1.0}`),
	}
	if diff := cmp.Diff(want, poll(t, client, session), cmpopts.IgnoreFields(executor.Observation{}, "ETag", "EndLag")); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	if err := server.Advance("k1"); err == nil {
		t.Error("Advance past the end succeeded")
	}
	must(t, server.Set("k1", fakeruntime.Failed("INTERNAL", "changed its mind")))
	if got := poll(t, client, session); got.Error == nil || got.Error.Message != "changed its mind" {
		t.Errorf("after Set: %+v", got)
	}
	if status, err := server.Status("k1"); err != nil || status.Status != runtimeapi.StatusFailed {
		t.Errorf("Status = %+v, %v", status, err)
	}
}

func TestHeldPolls(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Steps: fakeruntime.Script(
		fakeruntime.Running("reading"), fakeruntime.Running("writing"), fakeruntime.Completed(""))}})
	client := newClient(t, server)
	session := submit(t, client, "k1")
	first := poll(t, client, session)
	held := func(etag string) chan executor.Observation {
		done := make(chan executor.Observation, 1)
		go func() {
			req := pollRequest(session)
			req.Wait, req.ETag = time.Minute, etag
			got, err := client.Poll(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		return done
	}
	change, end := held(first.ETag), held("")
	must(t, server.WaitCalls(t.Context(), fakeruntime.OpStatus, 3))
	must(t, server.Advance("k1"))
	if got := <-change; got.Stage != "writing" || !got.Held || got.ETag == first.ETag {
		t.Errorf("a poll held for a change = %+v", got)
	}
	if got := <-held(first.ETag); got.Stage != "writing" {
		t.Errorf("a poll with an old ETag = %+v", got)
	}
	select {
	case got := <-end:
		t.Errorf("a poll held for the end answered %+v", got)
	default:
	}
	must(t, server.Advance("k1"))
	if got := <-end; got.State != executor.StateCompleted || !got.Held || got.EndLag < 0 {
		t.Errorf("a poll held for the end = %+v", got)
	}
	server.SetHeldPolls(false)
	if got := <-held(""); got.Held {
		t.Errorf("a poll without held polls = %+v", got)
	}
}

func TestTimedStepsEndAHeldPoll(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Steps: fakeruntime.Timed(20*time.Millisecond,
		fakeruntime.Running("reading"), fakeruntime.Running("writing"), fakeruntime.Completed(""))}})
	client := newClient(t, server)
	req := pollRequest(submit(t, client, "k1"))
	req.Wait = time.Minute
	got, err := client.Poll(t.Context(), req)
	if err != nil || got.State != executor.StateCompleted {
		t.Errorf("held poll = %+v, %v", got, err)
	}
}

func TestProbeTellsHeldPolls(t *testing.T) {
	t.Parallel()
	for _, none := range []bool{false, true} {
		client := newClient(t, start(t, fakeruntime.Options{NoHeldPolls: none, RequireAPIKey: true}))
		if got, err := client.Probe(t.Context()); err != nil || got.HeldPolls == none {
			t.Errorf("NoHeldPolls %t: Probe = %+v, %v", none, got, err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	completed := fakeruntime.Completed("")
	running := fakeruntime.Script(fakeruntime.Running("reading"), fakeruntime.Completed(""))
	const (
		cancelling = executor.StateCancelling
		cancelled  = executor.StateCancelled
	)
	tests := map[string]struct {
		behaviour fakeruntime.Behaviour
		want      executor.State
		then      []executor.State
	}{
		"at once": {fakeruntime.Behaviour{Steps: running}, cancelled, []executor.State{cancelled, cancelled}},
		"after two polls": {fakeruntime.Behaviour{Steps: running, CancelPolls: 2}, cancelling,
			[]executor.State{cancelling, cancelling, cancelled, cancelled}},
		"raced by a completion": {fakeruntime.Behaviour{Steps: running, CancelPolls: 1, CancelEnd: &completed}, cancelling,
			[]executor.State{cancelling, executor.StateCompleted}},
		"of a finished task": {fakeruntime.Behaviour{}, executor.StateCompleted, []executor.State{executor.StateCompleted}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, start(t, fakeruntime.Options{Default: tc.behaviour}))
			session := submit(t, client, "k1")
			if got := cancel(t, client, session).State; got != tc.want {
				t.Errorf("cancel = %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(tc.then, states(t, client, session, len(tc.then))); diff != "" {
				t.Errorf("polls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManualCancelEndsByAdvance(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{
		Steps: fakeruntime.Script(fakeruntime.Running("reading")), CancelManual: true}})
	client := newClient(t, server)
	session := submit(t, client, "k1")
	cancel(t, client, session)
	got := append(states(t, client, session, 3), cancel(t, client, session).State)
	must(t, server.Advance("k1"))
	got = append(got, poll(t, client, session).State)
	want := []executor.State{"cancelling", "cancelling", "cancelling", "cancelling", "cancelled"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func TestDroppedCreates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault fakeruntime.Fault
		// executions is how many there are after the failing create.
		executions int
	}{
		"before the effect": {fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Drop: true}, 0},
		"after the effect":  {fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Drop: true, Commit: true}, 1},
		"answered with 503 after the effect": {fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Commit: true,
			Respond: fakeruntime.Refuse(503, runtimeapi.CodeUnavailable, "away")}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Faults: []fakeruntime.Fault{tc.fault}}})
			client := newClient(t, server)
			if _, err := client.Submit(t.Context(), submitRequest("k1", target)); !executor.IsTransient(err) {
				t.Fatalf("first submit = %v, want a transient error", err)
			}
			if got := server.Report().Executions; got != tc.executions {
				t.Errorf("%d executions after the failure, want %d", got, tc.executions)
			}
			submit(t, client, "k1")
			if got := server.Report().Keys["k1"]; got.Creates != 2 || got.Executions != 1 {
				t.Errorf("key = %+v, want two creates and one execution", got)
			}
		})
	}
}

func TestFaultsAreCountedByOperation(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	server.On(fakeruntime.Key("k1"), fakeruntime.Behaviour{Faults: []fakeruntime.Fault{
		{Op: fakeruntime.OpStatus, Skip: 1, Count: 2, Respond: fakeruntime.Refuse(503, "UNAVAILABLE", "x").RetryLater("7")},
		{Op: fakeruntime.OpCancel, Respond: fakeruntime.Refuse(401, "UNAUTHENTICATED", "gone")},
	}})
	client := newClient(t, server)
	session, other := submit(t, client, "k1"), submit(t, client, "k2")
	var failed []bool
	for range 4 {
		_, err := client.Poll(t.Context(), pollRequest(session))
		failed = append(failed, err != nil)
		if err != nil && executor.RetryAfter(err) != 7*time.Second {
			t.Errorf("RetryAfter = %v", executor.RetryAfter(err))
		}
		poll(t, client, other)
	}
	if diff := cmp.Diff([]bool{false, true, true, false}, failed); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	for range 2 {
		_, err := client.Cancel(t.Context(), executor.CancelRequest{Identity: executor.Identity{APIKey: "user-1"}, SessionID: session})
		if code, _ := executor.CodeOf(err); code != "UNAUTHENTICATED" {
			t.Errorf("cancel = %v", err)
		}
	}
}

func TestFailAddsAFaultToARunningTask(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	client := newClient(t, server)
	session := submit(t, client, "k1")
	states(t, client, session, 3)
	must(t, server.Fail("k1", fakeruntime.Fault{Op: fakeruntime.OpStatus, Count: 1, Respond: fakeruntime.Refuse(403, "PERMISSION_DENIED", "x")}))
	if _, err := client.Poll(t.Context(), pollRequest(session)); err == nil || executor.IsTransient(err) {
		t.Errorf("poll = %v, want a permanent error", err)
	}
	poll(t, client, session)
}

func TestServerFaultsComeBeforeTheBody(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	client := newClient(t, server)
	submit(t, client, "k0")
	server.AddFault(fakeruntime.Fault{Op: fakeruntime.OpCreate, Count: 1, Drop: true})
	if _, err := client.Submit(t.Context(), submitRequest("k1", target)); !executor.IsTransient(err) {
		t.Errorf("dropped submit = %v", err)
	}
	submit(t, client, "k1")
	server.AddFault(fakeruntime.Fault{Op: fakeruntime.OpCreate, Respond: fakeruntime.Refuse(500, "INTERNAL", "x")})
	for range 2 {
		if _, err := client.Submit(t.Context(), submitRequest("k1", target)); !executor.IsTransient(err) {
			t.Errorf("refused submit = %v", err)
		}
	}
	server.ClearFaults()
	submit(t, client, "k1")
	if got := server.Report().Keys["k1"]; got.Creates != 5 || got.Executions != 1 {
		t.Errorf("key = %+v, want five creates and one execution", got)
	}
}

func TestAHeldCreateIsInFlight(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Faults: []fakeruntime.Fault{
		{Op: fakeruntime.OpCreate, Count: 1, Commit: true, Hold: release}}}})
	client := newClient(t, server)
	first := make(chan string, 1)
	go func() {
		got, err := client.Submit(t.Context(), submitRequest("k1", target))
		if err != nil {
			t.Error(err)
		}
		first <- got.SessionID
	}()
	// The first call has arrived before it has met its fault; its session shows that
	// it is held.
	untilKnown(t, server, "k1")
	second := submit(t, client, "k1")
	close(release)
	if got := <-first; got != second {
		t.Errorf("sessions %s and %s of one key", got, second)
	}
}

// untilKnown waits until the server has a session under a key.
func untilKnown(t *testing.T, server *fakeruntime.Server, key string) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := server.Status(key); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("no session under the key")
		}
	}
}

func TestAnswersOutOfOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		response fakeruntime.Response
		timeout  time.Duration
		code     string
		message  string
	}{
		"garbage":  {response: fakeruntime.Response{Status: 200, Body: []byte("<html>")}, code: "INVALID_RESPONSE", message: "the status answer is not a JSON object"},
		"huge":     {response: fakeruntime.Response{Status: 200, Body: []byte(`{"stage":"`), Fill: 9 << 20}, code: "INVALID_RESPONSE", message: "the answer is too large"},
		"redirect": {response: fakeruntime.Response{Status: 307, Header: http.Header{"location": {"http://127.0.0.1:1/"}}}, code: "INVALID_ARGUMENT", message: "Compile API request failed"},
		"a body that never ends": {response: fakeruntime.Response{Status: 200, Body: []byte(`{`), Drip: true}, timeout: 100 * time.Millisecond,
			code: "UNAVAILABLE", message: "Failed to reach the compile kernel service: no answer within 100ms"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Faults: []fakeruntime.Fault{
				{Op: fakeruntime.OpStatus, Respond: &tc.response}}}})
			session := submit(t, newClient(t, server), "k1")
			client := newClient(t, server, func(c *executor.HTTPConfig) { c.RequestTimeout = tc.timeout })
			_, err := client.Poll(t.Context(), pollRequest(session))
			if code, message := executor.CodeOf(err); code != tc.code || message != tc.message {
				t.Errorf("poll = %v", err)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	running := fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Running("reading"))}
	for _, durable := range []bool{true, false} {
		server := start(t, fakeruntime.Options{Durable: durable, Default: running})
		client := newClient(t, server)
		session := submit(t, client, "k1")
		held := make(chan error, 1)
		go func() {
			req := pollRequest(session)
			req.Wait = time.Minute
			_, err := client.Poll(t.Context(), req)
			held <- err
		}()
		must(t, server.WaitCalls(t.Context(), fakeruntime.OpStatus, 1))
		server.Restart()
		if err := <-held; !executor.IsTransient(err) {
			t.Errorf("durable %t: held poll = %v, want a transient error", durable, err)
		}
		// The connections that the restart closed may be found dead only now.
		fresh := newClient(t, server)
		got, err := fresh.Poll(t.Context(), pollRequest(session))
		again := submit(t, fresh, "k1")
		if durable {
			if err != nil || got.Error == nil || got.Error.Code != runtimeapi.CodeBotRestarted || again != session {
				t.Errorf("durable: poll = %+v, %v; session %s again %s", got, err, session, again)
			}
			continue
		}
		if !executor.IsSessionNotFound(err) || again == session {
			t.Errorf("not durable: poll = %v; session %s again %s", err, session, again)
		}
		if diff := cmp.Diff([]string{target}, server.Report().Repeated); diff != "" {
			t.Errorf("repeated (-want +got):\n%s", diff)
		}
	}
}

func TestLose(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{Default: fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Running("x"))}})
	client := newClient(t, server)
	session := submit(t, client, "k1")
	must(t, server.Lose("k1"))
	if _, err := client.Poll(t.Context(), pollRequest(session)); !executor.IsSessionNotFound(err) {
		t.Errorf("poll = %v", err)
	}
	submit(t, client, "k1")
	if got := server.Report().Keys["k1"]; got.Executions != 2 || len(got.Sessions) != 2 {
		t.Errorf("key = %+v, want two executions", got)
	}
}

func TestGatewayAndCredentialAreDemanded(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{GatewayToken: "gate", RequireAPIKey: true})
	for token, want := range map[string]string{"": "UNAUTHENTICATED", "other": "PERMISSION_DENIED"} {
		client := newClient(t, server, func(c *executor.HTTPConfig) { c.GatewayToken = executor.StaticToken(token) })
		_, err := client.Submit(t.Context(), submitRequest("k1", target))
		if code, _ := executor.CodeOf(err); code != want || !executor.IsGatewayRejected(err) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	client := newClient(t, server, func(c *executor.HTTPConfig) { c.GatewayToken = executor.StaticToken("gate") })
	req := submitRequest("k1", target)
	req.Identity.APIKey = ""
	_, err := client.Submit(t.Context(), req)
	if code, _ := executor.CodeOf(err); code != "UNAUTHENTICATED" || executor.IsGatewayRejected(err) {
		t.Errorf("no credential: %v", err)
	}
	if got := server.Report(); got.Creates != 3 || got.Executions != 0 {
		t.Errorf("report = %+v, want three creates without effect", got)
	}
}

func TestBadRequestsCreateNothing(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	post := func(path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		must(t, err)
		return resp.StatusCode
	}
	tests := []struct {
		name, path, body string
		want             int
	}{
		{"another type", runtimeapi.PathTasks, `{"task_type":"x","payload":{"from":["a"],"to":"b","skill":"c"}}`, 422},
		{"no skill", runtimeapi.PathTasks, `{"task_type":"compile","payload":{"from":["a"],"to":"b"}}`, 422},
		{"no JSON", runtimeapi.PathTasks, `x`, 422},
		{"too large", runtimeapi.PathTasks, strings.Repeat("x", 1<<20+1), 400},
		{"no session", runtimeapi.PathStatus, `{}`, 422},
		{"an unknown session", runtimeapi.PathCancel, `{"session_id":"x"}`, 404},
	}
	for _, tc := range tests {
		if got := post(tc.path, tc.body); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := server.Report(); got.Executions != 0 {
		t.Errorf("report = %+v", got)
	}
}

func TestCallsAreRecordedWithinTheBound(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{MaxCalls: 3})
	client := newClient(t, server)
	for _, key := range []string{"k1", "k2", "k3", "k4"} {
		submit(t, client, key)
	}
	cancel(t, client, submit(t, client, "k4"))
	var got []string
	for _, call := range server.Calls() {
		got = append(got, string(call.Op)+" "+call.Header.Get("Idempotency-Key")+" "+call.Header.Get("X-API-Key"))
	}
	if diff := cmp.Diff([]string{"create k4 user-1", "create k4 user-1", "cancel  user-1"}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if creates := server.Calls(fakeruntime.OpCreate); len(creates) != 2 || !strings.Contains(string(creates[0].Body), target) {
		t.Errorf("creates = %+v", creates)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{MaxCalls: -1, MaxTasks: 4})
	client := newClient(t, server)
	server.On(fakeruntime.Key("k0"), fakeruntime.Behaviour{Steps: fakeruntime.Script(fakeruntime.Running("x"))})
	sessions := map[string]string{}
	for _, key := range strings.Fields("k0 k1 k2 k3 k4 k5 k6 k7") {
		sessions[key] = submit(t, client, key)
	}
	poll(t, client, sessions["k0"])
	if _, err := client.Poll(t.Context(), pollRequest(sessions["k1"])); !executor.IsSessionNotFound(err) {
		t.Errorf("an old finished session = %v, want it gone", err)
	}
	report := server.Report()
	if report.Creates != 8 || report.Executions != 8 || len(report.Keys) != 4 || report.Unlisted != 4 {
		t.Errorf("report = %+v", report)
	}
	if len(server.Calls()) != 0 {
		t.Error("calls were recorded")
	}
}

func TestAnswersAreLostRegularly(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{LoseAnswerEvery: 3})
	client := newClient(t, server)
	var failed []bool
	for _, key := range []string{"k1", "k2", "k3", "k3"} {
		_, err := client.Submit(t.Context(), submitRequest(key, target+key))
		failed = append(failed, err != nil)
	}
	if diff := cmp.Diff([]bool{false, false, true, false}, failed); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if got := server.Report(); got.Creates != 4 || got.Executions != 3 || len(got.Repeated) != 0 {
		t.Errorf("report = %+v", got)
	}
}

func TestReportOverHTTP(t *testing.T) {
	t.Parallel()
	server := start(t, fakeruntime.Options{})
	submit(t, newClient(t, server), "k1")
	for query, keys := range map[string]int{"": 1, "?totals=1": 0} {
		resp, err := http.Get(server.URL + fakeruntime.PathReport + query)
		must(t, err)
		var report fakeruntime.Report
		err = json.NewDecoder(resp.Body).Decode(&report)
		resp.Body.Close()
		if err != nil || report.Executions != 1 || len(report.Keys) != keys {
			t.Errorf("report%s = %+v, %v", query, report, err)
		}
	}
}

func TestWaitCallsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := start(t, fakeruntime.Options{}).WaitCalls(ctx, fakeruntime.OpCreate, 1); err == nil {
		t.Error("WaitCalls returned without a call")
	}
}

func TestListenReportsABusyAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	if _, err := fakeruntime.Listen(fakeruntime.Options{Addr: listener.Addr().String()}); err == nil {
		t.Error("Listen on a busy address succeeded")
	}
}

// BenchmarkClient measures the executor's client against an instant fake.
func BenchmarkClient(b *testing.B) {
	server := fakeruntime.Start(fakeruntime.Options{MaxCalls: -1, MaxTasks: 10_000})
	b.Cleanup(server.Close)
	client := newClient(b, server)
	session := submit(b, client, "bench")
	b.Run("submit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			submit(b, client, "bench")
		}
	})
	b.Run("poll", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			poll(b, client, session)
		}
	})
	b.Run("held poll", func(b *testing.B) {
		b.ReportAllocs()
		req := pollRequest(session)
		req.Wait = time.Minute
		for b.Loop() {
			if _, err := client.Poll(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel poll", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := client.Poll(b.Context(), pollRequest(session)); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
