package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestCreateHandsTheTaskToTheEngine(t *testing.T) {
	s := newStack(t, func(c *Config) { c.AllowedModels = []string{"ep-1", "ep-2"} })
	body := `{"task_type":"compile","payload":{"from":[" viking://resources/a ","viking://resources/b"],
		"to":"viking://resources/w","skill":"viking://agent/skills/x","instruction":"  do it  ",
		"args":{"model_name":"ep-2"}}}`
	a := s.post(runtimeapi.PathTasks, body, user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1"))
	if a.code != http.StatusAccepted {
		t.Fatalf("create = %d %s", a.code, a.body)
	}
	var got runtimeapi.CreateResponse
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	want := runtimeapi.CreateResponse{SessionID: got.SessionID, TaskID: "cmp_1", Status: "accepted", To: "viking://resources/w"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	s.end(got.SessionID, alice)
	task := runtime.Task{
		Principal:   runtime.Principal{Account: "default", User: keyUser(alice)},
		From:        []string{"viking://resources/a", "viking://resources/b"},
		To:          "viking://resources/w",
		Skill:       "viking://agent/skills/x",
		Instruction: "do it",
		ModelName:   "ep-2",
	}
	if diff := cmp.Diff([]runtime.Task{task}, s.engine.ran); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

func TestCreateAcceptsWhatIsOptional(t *testing.T) {
	const head = `{"task_type":"compile","payload":{"from":["viking://resources/a"],"to":"t","skill":"s"`
	for name, body := range map[string]string{
		"no instruction and no args": head + `}}`,
		"both null":                  head + `,"instruction":null,"args":null}}`,
		"empty args":                 head + `,"args":{}}}`,
		"blank instruction":          head + `,"instruction":"  "}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			a := s.post(runtimeapi.PathTasks, body, user(alice))
			if a.code != http.StatusAccepted {
				t.Errorf("create = %d %s", a.code, a.body)
			}
			s.end(a.session(), alice)
			if got := s.engine.ran[0].Instruction; got != "" {
				t.Errorf("instruction %q", got)
			}
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	payload := func(p string) string { return `{"task_type":"compile","payload":` + p + `}` }
	const good = `"from":["viking://resources/a"],"to":"viking://resources/w","skill":"viking://agent/skills/x"`
	cases := map[string]struct {
		body string
		h    headers
		code int
		want string // error code; INVALID_ARGUMENT when empty
		text string // in the message
	}{
		"an unknown task type":         {body: `{"task_type":"chat","payload":{` + good + `}}`, code: 422, text: "task_type"},
		"no task type":                 {body: `{"payload":{` + good + `}}`, code: 422, text: "task_type: field required"},
		"no payload":                   {body: `{"task_type":"compile"}`, code: 422, text: "payload: field required"},
		"a payload that is a list":     {body: payload(`[]`), code: 422, text: "payload: must be an object"},
		"an empty payload":             {body: payload(`{}`), code: 422, text: "payload.from: field required; payload.to: field required; payload.skill: field required"},
		"an empty skill":               {body: payload(`{"from":["a"],"to":"b","skill":""}`), code: 422, text: "payload.skill: must not be empty"},
		"a blank target":               {body: payload(`{"from":["a"],"to":"  ","skill":"s"}`), code: 422, text: "payload.to"},
		"no sources":                   {body: payload(`{"from":[],"to":"b","skill":"s"}`), code: 422, text: "at least 1 item"},
		"a source that is a number":    {body: payload(`{"from":["a",7],"to":"b","skill":"s"}`), code: 422, text: "payload.from.1: must be a string"},
		"sources that are a string":    {body: payload(`{"from":"a","to":"b","skill":"s"}`), code: 422, text: "must be a list"},
		"null sources":                 {body: payload(`{"from":null,"to":"b","skill":"s"}`), code: 422, text: "must be a list"},
		"a URI that is too long":       {body: payload(`{"from":["a"],"to":"` + strings.Repeat("x", 4097) + `","skill":"s"}`), code: 422, text: "4096"},
		"an instruction too long":      {body: payload(`{` + good + `,"instruction":"` + strings.Repeat("x", 65537) + `"}`), code: 422, text: "65536"},
		"an instruction of numbers":    {body: payload(`{` + good + `,"instruction":1}`), code: 422, text: "payload.instruction"},
		"an unknown key in payload":    {body: payload(`{` + good + `,"reason":"x"}`), code: 422, text: "payload.reason: unknown field"},
		"an unknown key beside it":     {body: `{"task_type":"compile","extra":1,"payload":{` + good + `}}`, code: 422, text: "extra: unknown field"},
		"a key in another case":        {body: payload(`{"From":["a"],"to":"b","skill":"s"}`), code: 422, text: "payload.from: field required"},
		"a key given twice":            {body: payload(`{` + good + `,"to":"viking://resources/other"}`), code: 422, text: "must not be given twice"},
		"a payload given twice":        {body: `{"task_type":"compile","payload":{` + good + `},"payload":{` + good + `}}`, code: 422, text: "twice"},
		"args that are a list":         {body: payload(`{` + good + `,"args":[1]}`), code: 422, text: "payload.args: must be an object"},
		"args that are not empty":      {body: payload(`{` + good + `,"args":{"depth":2}}`), code: 400, text: "args are not supported"},
		"a model that is not allowed":  {body: payload(`{` + good + `,"args":{"model_name":"ep-9"}}`), code: 400, text: "model"},
		"a model and something else":   {body: payload(`{` + good + `,"args":{"model_name":"ep-1","x":1}}`), code: 400, text: "args are not supported"},
		"a model that is no string":    {body: payload(`{` + good + `,"args":{"model_name":["ep-1"]}}`), code: 400, text: "model"},
		"no JSON":                      {body: `{"task_type":`, code: 400, text: "not valid JSON"},
		"two values":                   {body: payload(`{`+good+`}`) + `{}`, code: 400, text: "not valid JSON"},
		"no body":                      {body: ``, code: 400, text: "not valid JSON"},
		"bytes that are no text":       {body: "{\"task_type\":\"\xff\"}", code: 400, text: "not valid JSON"},
		"nesting without end":          {body: payload(`{` + good + `,"args":` + strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000) + `}`), code: 400, text: "not valid JSON"},
		"a list":                       {body: `[]`, code: 422, text: "body: must be an object"},
		"a body over the cap":          {body: `"` + strings.Repeat("x", runtimeapi.MaxRequestBytes) + `"`, code: 413, text: "1048576"},
		"another content type":         {body: payload(`{` + good + `}`), h: headers{"Content-Type", "text/plain"}, code: 415},
		"a key with a space":           {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderIdempotencyKey, "a b"}, code: 400, text: "Idempotency-Key"},
		"a key that is no ASCII":       {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderIdempotencyKey, "é"}, code: 400, text: "Idempotency-Key"},
		"a key of 201 characters":      {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderIdempotencyKey, strings.Repeat("k", 201)}, code: 400, text: "Idempotency-Key"},
		"nobody's request":             {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderAPIKey, ""}, code: 401, want: runtimeapi.CodeUnauthenticated},
		"a credential of another kind": {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderAPIKey, "", "Authorization", "Basic eDp5"}, code: 401, want: runtimeapi.CodeUnauthenticated},
		"a credential without end":     {body: payload(`{` + good + `}`), h: headers{runtimeapi.HeaderAPIKey, strings.Repeat("k", maxCredentialBytes+1)}, code: 401, want: runtimeapi.CodeUnauthenticated},
	}
	s := newStack(t, func(c *Config) { c.AllowedModels = []string{"ep-1"} })
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := s.post(runtimeapi.PathTasks, tc.body, append(user(alice), tc.h...))
			want := tc.want
			if want == "" {
				want = runtimeapi.CodeInvalidArgument
			}
			if a.code != tc.code || a.errorCode() != want || !strings.Contains(a.message(), tc.text) {
				t.Errorf("create = %d %s, want %d %s %q", a.code, a.body, tc.code, want, tc.text)
			}
		})
	}
	if prepared, ran := s.engine.counts(); prepared != 0 || ran != 0 {
		t.Errorf("the engine was asked %d and %d times", prepared, ran)
	}
	if n, err := s.store.Recover(); n != 0 || err != nil {
		t.Errorf("%d sessions were stored, %v", n, err)
	}
}

func TestSchemaErrorsDoNotEchoValues(t *testing.T) {
	s := newStack(t)
	const secret = "sk-very-secret-1"
	for name, body := range map[string]string{
		"as a value of the wrong kind": `{"task_type":"compile","payload":{"from":{"k":"` + secret + `"},"to":["` + secret + `"],"skill":"s"}}`,
		"as a key":                     `{"task_type":"compile","` + secret + `":1,"payload":{"` + secret + `":1}}`,
		"as an argument":               `{"task_type":"compile","payload":{"from":["a"],"to":"b","skill":"s","args":{"` + secret + `":"` + secret + `"}}}`,
		"as a model":                   `{"task_type":"compile","payload":{"from":["a"],"to":"b","skill":"s","args":{"model_name":"` + secret + `"}}}`,
		"as a task type":               `{"task_type":"` + secret + `","payload":{}}`,
		"in broken JSON":               `{"task_type":"` + secret,
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(runtimeapi.PathTasks, body, user(alice))
			if a.code < 400 || strings.Contains(string(a.body), secret) {
				t.Errorf("answer = %d %s", a.code, a.body)
			}
		})
	}
	if strings.Contains(s.log.String(), secret) {
		t.Error("the log holds a value")
	}
}

func TestEngineRefusalsAreAnsweredByCode(t *testing.T) {
	for code, want := range map[string]int{
		runtimeapi.CodeInvalidArgument: 400, runtimeapi.CodeSkillInvalid: 400,
		runtimeapi.CodeSkillCapabilityUnavailable: 400, codeInvalidURI: 400,
		runtimeapi.CodeUnauthenticated: 401, runtimeapi.CodePermissionDenied: 403, runtimeapi.CodeNotFound: 404,
		runtimeapi.CodeResourceExhausted: 400, runtimeapi.CodeConflict: 409, runtimeapi.CodeWriteConflict: 409,
		runtimeapi.CodeUnavailable:      503,
		runtimeapi.CodeDeadlineExceeded: 504, runtimeapi.CodeInternal: 500, runtimeapi.CodeUnknown: 500,
	} {
		t.Run(code, func(t *testing.T) {
			s := newStack(t)
			s.engine.prepare = func(_ context.Context, task runtime.Task) (runtime.Task, error) {
				return task, fmt.Errorf("prepare: %w", &runtimeapi.Error{Code: code, Message: "because"})
			}
			h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
			a := s.post(runtimeapi.PathTasks, taskBody(wiki), h)
			if a.code != want || a.errorCode() != code || a.message() != "because" {
				t.Errorf("create = %d %s, want %d", a.code, a.body, want)
			}
			if retry := a.header.Get("Retry-After"); (retry != "") != (want == 503) {
				t.Errorf("Retry-After = %q", retry)
			}
			// Nothing is left: the key is free and so is the admission.
			s.engine.prepare = nil
			s.end(s.create(wiki, h), alice)
		})
	}
}

func TestACreateWhoseClientGaveUpIsNotAdmitted(t *testing.T) {
	s := newStack(t, func(c *Config) { c.Limits.Admitted = 1 })
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	checked := make(chan error, 1)
	s.engine.prepare = func(ctx context.Context, task runtime.Task) (runtime.Task, error) {
		giveUp()
		select {
		case <-ctx.Done():
			checked <- nil
		case <-time.After(20 * time.Second):
			checked <- errors.New("the request goes on without its client")
		}
		return task, nil
	}
	h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
	if a, err := s.request(ctx, runtimeapi.PathTasks, taskBody(wiki), h); err == nil {
		t.Errorf("create = %d %s", a.code, a.body)
	}
	if err := receive(t, checked); err != nil {
		t.Error(err)
	}
	// Closing waits for the request's end.
	s.stop()
	if _, ran := s.engine.counts(); ran != 0 {
		t.Errorf("%d tasks ran", ran)
	}
	s.engine.prepare = nil
	s.start()
	a := s.post(runtimeapi.PathTasks, taskBody(wiki), h)
	if a.code != 202 || strings.Contains(s.log.String(), "Create was replayed") {
		t.Errorf("the same create later = %d %s", a.code, a.body)
	}
	s.end(a.session(), alice)
}

func TestEngineFailuresStayPrivate(t *testing.T) {
	for name, prepare := range map[string]func(context.Context, runtime.Task) (runtime.Task, error){
		"an error": func(_ context.Context, task runtime.Task) (runtime.Task, error) {
			return task, errors.New("dial /secret/path")
		},
		"a panic": func(context.Context, runtime.Task) (runtime.Task, error) { panic("/secret/path") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(c *Config) { c.Limits.Admitted = 1 })
			s.engine.prepare = prepare
			for range 3 {
				a := s.post(runtimeapi.PathTasks, taskBody(wiki), user(alice))
				if a.code != 500 || a.errorCode() != runtimeapi.CodeInternal || strings.Contains(string(a.body), "secret") {
					t.Errorf("create = %d %s", a.code, a.body)
				}
			}
			s.engine.prepare = nil
			s.end(s.create(wiki, user(alice)), alice)
		})
	}
}

func TestASlowCheckTimesOut(t *testing.T) {
	s := newStack(t, func(c *Config) { c.PrepareTimeout = 1 })
	s.engine.prepare = func(ctx context.Context, task runtime.Task) (runtime.Task, error) {
		<-ctx.Done()
		return task, ctx.Err()
	}
	a := s.post(runtimeapi.PathTasks, taskBody(wiki), user(alice))
	if a.code != 504 || a.errorCode() != runtimeapi.CodeDeadlineExceeded {
		t.Errorf("create = %d %s", a.code, a.body)
	}
}

func TestReplaysOfAKey(t *testing.T) {
	s := newStack(t)
	key := func(k string) []string { return []string{runtimeapi.HeaderIdempotencyKey, k} }
	first := s.create(wiki, user(alice, key("cmp_1")...))
	if got := s.create(wiki, user(alice, key("cmp_1")...)); got != first {
		t.Errorf("replay = %s, want %s", got, first)
	}
	s.end(first, alice)
	for name, tc := range map[string]struct {
		body string
		h    headers
		same bool
	}{
		"after the end":           {taskBody(wiki), user(alice, key("cmp_1")...), true},
		"with another body":       {taskBody("viking://resources/other"), user(alice, key("cmp_1")...), true},
		"by a bearer token":       {taskBody(wiki), headers{"Authorization", "bearer " + alice, runtimeapi.HeaderIdempotencyKey, "cmp_1"}, true},
		"by another user":         {taskBody(wiki), user(bob, key("cmp_1")...), false},
		"with another key":        {taskBody(wiki), user(alice, key("cmp_2")...), false},
		"without a key":           {taskBody(wiki), user(alice), false},
		"without a key, a repeat": {taskBody(wiki), user(alice), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(runtimeapi.PathTasks, tc.body, tc.h)
			if a.code != http.StatusAccepted || (a.session() == first) != tc.same {
				t.Errorf("create = %d %s, first session %s", a.code, a.body, first)
			}
		})
	}
}

func TestConcurrentCopiesOfACreateRunOnce(t *testing.T) {
	s := newStack(t)
	g := newGate()
	s.engine.run = g.run
	const users, copies = 4, 32
	var mu sync.Mutex
	got := map[string][]string{}
	var wg sync.WaitGroup
	for u := range users {
		for range copies {
			wg.Go(func() {
				key := fmt.Sprintf("user-%d", u)
				a := s.post(runtimeapi.PathTasks, taskBody(fmt.Sprintf("viking://resources/%d", u)),
					user(key, runtimeapi.HeaderIdempotencyKey, "cmp_same"))
				mu.Lock()
				defer mu.Unlock()
				got[key] = append(got[key], fmt.Sprintf("%d %s", a.code, a.session()))
			})
		}
	}
	wg.Wait()
	distinct := map[string]bool{}
	for key, answers := range got {
		if answers = slices.Compact(slices.Sorted(slices.Values(answers))); len(answers) != 1 || !strings.HasPrefix(answers[0], "202 ses_") {
			t.Errorf("%s got %v", key, answers)
		}
		distinct[answers[0]] = true
	}
	close(g.let)
	for a := range distinct {
		id := strings.TrimPrefix(a, "202 ")
		for u := range users {
			if a := s.status(id, fmt.Sprintf("user-%d", u), runtimeapi.HeaderPrefer, "wait=20"); a.code == http.StatusOK && !a.state().Status.Terminal() {
				t.Errorf("session %s: %s", id, a.body)
			}
		}
	}
	if _, ran := s.engine.counts(); len(distinct) != users || ran != users {
		t.Errorf("%d sessions, %d runs, want %d", len(distinct), ran, users)
	}
	if n := len(s.server.manager.creates.held); n != 0 {
		t.Errorf("%d keys are still held", n)
	}
}

func TestACopyTakesOverWhenTheFirstIsRefused(t *testing.T) {
	s := newStack(t)
	entered, refuseFirst := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.engine.prepare = func(_ context.Context, task runtime.Task) (runtime.Task, error) {
		mine := false
		once.Do(func() { mine = true })
		if mine {
			close(entered)
			<-refuseFirst
			return task, &runtimeapi.Error{Code: runtimeapi.CodeUnavailable, Message: "not now"}
		}
		return task, nil
	}
	h := user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")
	answers := make(chan answer, 2)
	go func() { answers <- s.post(runtimeapi.PathTasks, taskBody(wiki), h) }()
	<-entered
	go func() { answers <- s.post(runtimeapi.PathTasks, taskBody(wiki), h) }()
	close(refuseFirst)
	codes := []int{receive(t, answers).code, receive(t, answers).code}
	slices.Sort(codes)
	if diff := cmp.Diff([]int{202, 503}, codes); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestAClientThatLeavesWhileItsTaskIsCheckedLeavesNothing(t *testing.T) {
	s := newStack(t)
	entered, left := make(chan struct{}), make(chan struct{})
	s.engine.prepare = func(ctx context.Context, task runtime.Task) (runtime.Task, error) {
		close(entered)
		<-ctx.Done()
		close(left)
		return task, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.request(ctx, runtimeapi.PathTasks, taskBody(wiki), user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1"))
		done <- err
	}()
	<-entered
	cancel()
	receive(t, left)
	if err := receive(t, done); err == nil {
		t.Error("an answer came")
	}
	s.engine.prepare = nil
	s.end(s.create(wiki, user(alice, runtimeapi.HeaderIdempotencyKey, "cmp_1")), alice)
	if _, ran := s.engine.counts(); ran != 1 {
		t.Errorf("%d runs", ran)
	}
}

func TestOtherMethodsAndRoutes(t *testing.T) {
	s := newStack(t)
	for path, want := range map[string]int{
		runtimeapi.PathTasks: 405, runtimeapi.PathStatus: 405, runtimeapi.PathCancel: 405, "/": 404, "/runtime/v1": 404,
	} {
		resp, err := s.web.Client().Get(s.web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
		}
	}
	if a := s.post("/runtime/v1/other", `{}`, user(alice)); a.code != 404 || a.errorCode() != runtimeapi.CodeNotFound {
		t.Errorf("unknown route = %d %s", a.code, a.body)
	}
}
