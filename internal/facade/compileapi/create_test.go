package compileapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
)

// bodyOf is a create request with other URIs.
func bodyOf(from, to, skill string) string {
	return `{"from":[` + from + `],"to":"` + to + `","skill":"` + skill + `"}`
}

func TestCreateAnswersWithARecord(t *testing.T) {
	r := newRig(t)
	got := r.create(`{"from":[" viking://resources/a/ ","viking://resources/a","viking://~/memories"],"to":"viking://resources/daily/{calendar:today}/",` +
		`"skill":"viking://agent/skills/s/SKILL.md","instruction":" do it ","args":{"model_name":"m","big":12345678901234567890}}`)
	task := r.the()
	want := map[string]any{
		"task_id": task.TaskID(), "task_type": "compile", "status": "pending", "stage": "queued",
		"resource_id": "viking://resources/a, viking://user/alice/memories",
		"created_at":  json.Number("1772366400.123456"), "updated_at": json.Number("1772366400.123456"),
		"created_at_iso": "2026-03-01T12:00:00.123456Z", "updated_at_iso": "2026-03-01T12:00:00.123456Z",
		"result": nil, "error": nil, "processing_seconds": nil,
		"meta": map[string]any{"request": map[string]any{
			"from": []any{"viking://resources/a", "viking://user/alice/memories"}, "to": "viking://resources/daily/2026/03/01",
			"skill": "viking://agent/skills/s", "instruction": "do it",
			"args": map[string]any{"model_name": "m", "big": json.Number("12345678901234567890")},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if !resttask.IsName(task.Name) || !resttask.Marked(r.tasks.ring, task) || task.Spec.RESTRequest.Digest != "" {
		t.Errorf("name %q, rest request %+v", task.Name, task.Spec.RESTRequest)
	}
}

func TestCreatedObject(t *testing.T) {
	r := newRig(t)
	r.create(plainBody)
	task := r.the()
	got := task.Spec.RESTRequest
	if !got.ReceivedTime.Time.Equal(noon) || got.TraceParent != r.info.TraceParent || task.Annotations[v1alpha1.AnnotationRequestID] != "req-1" {
		t.Errorf("rest request %+v, annotations %v", got, task.Annotations)
	}
	if *task.Spec.TTLSecondsAfterFinished != 86400 || *task.Spec.TTLSecondsAfterFailed != 7*86400 || task.Spec.RuntimeName != "builtin" {
		t.Errorf("spec %+v", task.Spec)
	}
	if task.Spec.Args != nil || task.Spec.SealedArgs != nil || task.Spec.SealedCredentials != nil || task.Spec.Instruction != "" {
		t.Errorf("what was absent is there: %+v", task.Spec)
	}
}

func TestATraceContextThatIsNoneIsLeftOut(t *testing.T) {
	r := newRig(t)
	r.info.TraceParent, r.info.ID = "nonsense", ""
	r.create(plainBody)
	if task := r.the(); task.Spec.RESTRequest.TraceParent != "" || len(task.Annotations) != 0 {
		t.Errorf("rest request %+v, annotations %v", task.Spec.RESTRequest, task.Annotations)
	}
}

func TestURIsThatAreRefused(t *testing.T) {
	const a, w, s = `"viking://resources/a"`, "viking://resources/w", "viking://agent/skills/s"
	cases := map[string]struct {
		body        string
		wantStatus  int
		wantCode    string
		wantMessage string
	}{
		"a source that is no URI":         {bodyOf(`"http://x"`, w, s), 400, "INVALID_URI", "Invalid URI: http://x (from[0] must start with viking://)"},
		"an empty source":                 {bodyOf(`" / "`, w, s), 400, "INVALID_URI", "must not be empty"},
		"an internal scope":               {bodyOf(`"viking://temp/a"`, w, s), 400, "INVALID_URI", "internal scope"},
		"an unknown path variable":        {bodyOf(a, "viking://resources/{calendar:never}", s), 400, "INVALID_URI", "to cannot be expanded"},
		"grammar before shape":            {bodyOf(`"x"`, "viking://resources", "viking://resources/x"), 400, "INVALID_URI", "from[0]"},
		"skill shape before target shape": {bodyOf(a, "viking://resources", "viking://resources/x"), 400, "INVALID_ARGUMENT", "skill must resolve to a Skill directory or SKILL.md"},
		"shape before permission":         {bodyOf(`"viking://user/bob/memories"`, "viking://resources", s), 400, "INVALID_ARGUMENT", "Compile target must be inside a resource directory"},
		"a skill target of its own":       {bodyOf(a, "viking://agent/x/skills", s), 400, "INVALID_ARGUMENT", "Compile Skill target must be a supported skills namespace"},
		"all memories as target":          {bodyOf(a, "viking://~/memories", s), 400, "INVALID_ARGUMENT", "Compile target must be inside a memory type directory"},
		"the root as target":              {bodyOf(a, "viking://", s), 400, "INVALID_ARGUMENT", "Compile target must be a resource, memory, or skills directory"},
		"a derived target":                {bodyOf(a, "viking://resources/a/.abstract.md", s), 400, "INVALID_ARGUMENT", "Compile target must not be an OpenViking derived directory"},
		"another user's source":           {bodyOf(`"viking://user/bob/memories"`, w, s), 403, "PERMISSION_DENIED", "Access denied"},
		"another user's target":           {bodyOf(a, "viking://user/bob/memories/x", s), 403, "PERMISSION_DENIED", "Access denied"},
		"another user's skill":            {bodyOf(a, w, "viking://user/bob/skills/s"), 403, "PERMISSION_DENIED", "Access denied"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.runtimes.runtime = nil // later in the order, so never looked at
			got := r.call(http.MethodPost, "/api/v1/compile", tc.body).fails(t, tc.wantStatus, tc.wantCode)
			if !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("message %q, want %q in it", got.Message, tc.wantMessage)
			}
			if tc.wantCode == "INVALID_URI" && (got.Details["uri"] == nil || got.Details["reason"] == nil) {
				t.Errorf("details %v", got.Details)
			}
			if len(r.tasks.all()) != 0 || r.tasks.creates != 0 {
				t.Error("a task was created")
			}
		})
	}
}

func TestOverlapAndSkillTargetsAreAccepted(t *testing.T) {
	for name, body := range map[string]string{
		"target equal to source":  bodyOf(`"viking://resources/a"`, "viking://resources/a", "viking://agent/skills/s"),
		"target inside of source": bodyOf(`"viking://resources"`, "viking://resources/a", "viking://agent/skills/s"),
		"the shared skills":       bodyOf(`"viking://resources/a"`, "viking://agent/skills", "viking://agent/skills/s"),
		"the caller's skills":     bodyOf(`"viking://resources/a"`, "viking://user/alice/skills", "viking://~/skills/s"),
		"a memory type":           bodyOf(`"viking://user/alice"`, "viking://~/memories/facts", "viking://agent/x/skills/s"),
	} {
		t.Run(name, func(t *testing.T) { newRig(t).create(body) })
	}
}

func TestIdempotencyKeySyntax(t *testing.T) {
	good := strings.Repeat("k", 16)
	cases := map[string]struct {
		keys []string
		want int
	}{
		"16 characters":     {[]string{good}, 202},
		"128 characters":    {[]string{strings.Repeat("A", 128)}, 202},
		"all signs":         {[]string{"0123456789:._-zZ"}, 202},
		"15 characters":     {[]string{good[1:]}, 400},
		"129 characters":    {[]string{strings.Repeat("A", 129)}, 400},
		"a space":           {[]string{"0123456789 012345"}, 400},
		"empty":             {[]string{""}, 400},
		"given twice alike": {[]string{good, good}, 400},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			request := r.request(t.Context(), http.MethodPost, "/api/v1/compile", plainBody)
			for _, key := range tc.keys {
				request.Header.Add("Idempotency-Key", key)
			}
			if got := r.do(request); got.status != tc.want {
				t.Errorf("answer %d %s, want %d", got.status, got.body, tc.want)
			}
		})
	}
}

func TestRuntimeAndCredentials(t *testing.T) {
	cases := map[string]struct {
		arrange    func(*rig)
		wantStatus int
		wantCode   string
		check      func(*testing.T, *rig, *v1alpha1.CompileTask)
	}{
		"no runtime": {arrange: func(r *rig) { r.runtimes.runtime = nil }, wantStatus: 503, wantCode: "UNAVAILABLE"},
		"a key is needed and there is none": {arrange: func(r *rig) { r.runtimes.runtime = runtimeOf(v1alpha1.CredentialsSecret) },
			wantStatus: 401, wantCode: "UNAUTHENTICATED"},
		"a key is needed and sealed": {arrange: func(r *rig) {
			r.runtimes.runtime, r.info.Caller.Forward = runtimeOf(v1alpha1.CredentialsSecret), "ov-key"
		}, check: func(t *testing.T, r *rig, task *v1alpha1.CompileTask) {
			opened, err := resttask.OpenCredentials(r.tasks.ring, task)
			if err != nil || opened.APIKey != "ov-key" || opened.Args != nil {
				t.Errorf("opened key %q, %v", opened.APIKey, err)
			}
		}},
		"a key is not passed on where none is wanted": {arrange: func(r *rig) { r.info.Caller.Forward = "ov-key" },
			check: func(t *testing.T, _ *rig, task *v1alpha1.CompileTask) {
				if task.Spec.SealedCredentials != nil {
					t.Error("credentials were sealed")
				}
			}},
		"a token is needed of somebody who is no ServiceAccount": {
			arrange:    func(r *rig) { r.runtimes.runtime = runtimeOf(v1alpha1.CredentialsServiceAccountToken) },
			wantStatus: 401, wantCode: "UNAUTHENTICATED"},
		"a ServiceAccount of another namespace": {arrange: func(r *rig) {
			r.runtimes.runtime = runtimeOf(v1alpha1.CredentialsServiceAccountToken)
			r.info.Caller.User.Username = "system:serviceaccount:other:ci"
		}, wantStatus: 401, wantCode: "UNAUTHENTICATED"},
		"the caller's own ServiceAccount": {arrange: func(r *rig) {
			r.runtimes.runtime = runtimeOf(v1alpha1.CredentialsServiceAccountToken)
			r.info.Caller.User.Username = "system:serviceaccount:docs:ci"
		}, check: func(t *testing.T, _ *rig, task *v1alpha1.CompileTask) {
			if task.Spec.ServiceAccountName != "ci" {
				t.Errorf("serviceAccountName %q", task.Spec.ServiceAccountName)
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tc.arrange(r)
			got := r.call(http.MethodPost, "/api/v1/compile", plainBody)
			if strings.Contains(got.body, "ov-key") {
				t.Errorf("the answer shows the key: %s", got.body)
			}
			if tc.wantCode != "" {
				got.fails(t, tc.wantStatus, tc.wantCode)
				if len(r.tasks.all()) > 0 {
					t.Error("a task was created")
				}
				return
			}
			got.result(t, http.StatusAccepted)
			tc.check(t, r, r.the())
		})
	}
}

func TestNoRuntimeSaysWhy(t *testing.T) {
	r := newRig(t)
	r.runtimes.runtime = nil
	got := r.call(http.MethodPost, "/api/v1/compile", plainBody).fails(t, 503, "UNAVAILABLE")
	if got.Details["reason"] != "compile_api.base_url is not configured" || got.Details["service"] == "" {
		t.Errorf("details %v", got.Details)
	}
}

func TestReplay(t *testing.T) {
	const key = "0123456789abcdef"
	withArgs := `{"args":{"b":1.0,"a":{"api_key":"s3cret"}},` + plainBody[1:]
	cases := map[string]struct {
		first, second string
		between       func(*rig)
		wantStatus    int
		wantCode      string
		wantState     string
	}{
		"the same again": {first: plainBody, second: plainBody, wantState: "pending"},
		"other spellings of the same": {first: withArgs,
			second: `{"skill":"viking://agent/skills/llm-wiki/SKILL.md","to":"viking://resources/wiki/","args":{"a":{"api_key":"s3cret"}, "b":1.0},"from":["viking://resources/research","viking://resources/research/"]}`, wantState: "pending"},
		"another target":           {first: plainBody, second: strings.Replace(plainBody, "wiki\"", "wiki2\"", 1), wantStatus: 409, wantCode: "CONFLICT"},
		"another secret":           {first: withArgs, second: strings.Replace(withArgs, "s3cret", "other", 1), wantStatus: 409, wantCode: "CONFLICT"},
		"a number of another text": {first: withArgs, second: strings.Replace(withArgs, "1.0", "1", 1), wantStatus: 409, wantCode: "CONFLICT"},
		"an instruction more":      {first: plainBody, second: `{"instruction":"x",` + plainBody[1:], wantStatus: 409, wantCode: "CONFLICT"},
		"after it was cancelled": {first: plainBody, second: plainBody,
			between: func(r *rig) { r.tasks.change(r.the(), becomes(v1alpha1.CompileTaskCancelled, "")) }, wantState: "cancelled"},
		"when the runtime is gone": {first: plainBody, second: plainBody,
			between: func(r *rig) { r.runtimes.runtime = nil }, wantState: "pending"},
		"when the sources are gone": {first: plainBody, second: plainBody,
			between: func(r *rig) { r.runtimes.content = files{} }, wantState: "pending"},
		"after midnight": {first: strings.Replace(plainBody, "wiki\"", "{calendar:today}\"", 1), second: strings.Replace(plainBody, "wiki\"", "{calendar:today}\"", 1),
			between: func(r *rig) { r.now = noon.Add(24 * time.Hour) }, wantState: "pending"},
		"when reading was forbidden": {first: plainBody, second: plainBody,
			between: func(r *rig) { r.rights.set("alice get own", false) }, wantStatus: 403, wantCode: "PERMISSION_DENIED"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			first := r.create(tc.first, "Idempotency-Key", key)
			if tc.between != nil {
				tc.between(r)
				r.rebuild()
			}
			got := r.call(http.MethodPost, "/api/v1/compile", tc.second, "Idempotency-Key", key)
			if strings.Contains(got.body, "s3cret") {
				t.Errorf("the answer shows a secret: %s", got.body)
			}
			if r.tasks.creates != 1 {
				t.Errorf("%d creates, want 1", r.tasks.creates)
			}
			if tc.wantCode != "" {
				got.fails(t, tc.wantStatus, tc.wantCode)
				return
			}
			again := got.result(t, http.StatusAccepted)
			if again["task_id"] != first["task_id"] || again["status"] != tc.wantState {
				t.Errorf("again %v, first %v", again, first)
			}
		})
	}
}

func TestKeysOfTwoUsersNeverMeet(t *testing.T) {
	r := newRig(t)
	const key = "0123456789abcdef"
	one := r.create(plainBody, "Idempotency-Key", key)
	two := r.as("bob").create(plainBody, "Idempotency-Key", key)
	three := r.create(plainBody, "Idempotency-Key", "another-key-then")
	if one["task_id"] == two["task_id"] || one["task_id"] == three["task_id"] || len(r.tasks.all()) != 3 {
		t.Errorf("ids %v %v %v", one["task_id"], two["task_id"], three["task_id"])
	}
}

func TestWhatStandsUnderAKeyedNameIsNotShown(t *testing.T) {
	const key = "0123456789abcdef"
	cases := map[string]func(*v1alpha1.CompileTask){
		"an unmarked task":      func(t *v1alpha1.CompileTask) { t.Spec.RESTRequest = nil },
		"one with a false mark": func(t *v1alpha1.CompileTask) { t.Spec.RESTRequest.Mark = "x" },
		"another user's":        func(t *v1alpha1.CompileTask) { t.Spec.Requester.Username = "bob" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(plainBody, "Idempotency-Key", key)
			r.tasks.change(r.the(), change)
			got := r.call(http.MethodPost, "/api/v1/compile", plainBody, "Idempotency-Key", key)
			got.fails(t, http.StatusConflict, "CONFLICT")
			if strings.Contains(got.body, "cmp_") || strings.Contains(got.body, "bob") {
				t.Errorf("shown: %s", got.body)
			}
			r.call(http.MethodGet, "/api/v1/compile/submissions/"+key, "").fails(t, http.StatusNotFound, "NOT_FOUND")
		})
	}
}

func TestConcurrentDuplicatesMakeOneTask(t *testing.T) {
	const key, callers = "0123456789abcdef", 16
	r := newRig(t)
	// All have looked and found nothing before the first creates.
	var looked sync.WaitGroup
	looked.Add(callers)
	r.tasks.createRace = func() { looked.Done(); looked.Wait() }
	answers := make([]answer, callers)
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() { answers[i] = r.call(http.MethodPost, "/api/v1/compile", plainBody, "Idempotency-Key", key) })
	}
	done.Wait()
	ids := map[any]bool{}
	for _, got := range answers {
		ids[got.result(t, http.StatusAccepted)["task_id"]] = true
	}
	if len(ids) != 1 || len(r.tasks.all()) != 1 {
		t.Errorf("%d ids, %d tasks", len(ids), len(r.tasks.all()))
	}
}

func TestARepeatThatDiffersLosesTheRace(t *testing.T) {
	const key = "0123456789abcdef"
	r := newRig(t)
	r.tasks.createRace = func() {
		r.tasks.createRace = nil
		r.create(strings.Replace(plainBody, "wiki\"", "other\"", 1), "Idempotency-Key", key)
	}
	r.call(http.MethodPost, "/api/v1/compile", plainBody, "Idempotency-Key", key).fails(t, http.StatusConflict, "CONFLICT")
}

func TestSubmission(t *testing.T) {
	const key = "0123456789abcdef"
	r := newRig(t)
	created := r.create(plainBody, "Idempotency-Key", key)
	got := r.call(http.MethodGet, "/api/v1/compile/submissions/"+key, "").result(t, http.StatusOK)
	if diff := cmp.Diff(created, got); diff != "" {
		t.Errorf("submission (-created +got):\n%s", diff)
	}
	for name, call := range map[string]func() answer{
		"an unknown key":     func() answer { return r.call(http.MethodGet, "/api/v1/compile/submissions/fedcba9876543210", "") },
		"a malformed key":    func() answer { return r.call(http.MethodGet, "/api/v1/compile/submissions/x", "") },
		"another user's key": func() answer { return r.as("bob").call(http.MethodGet, "/api/v1/compile/submissions/"+key, "") },
		"even to who may see all": func() answer {
			return r.as("root").call(http.MethodGet, "/api/v1/compile/submissions/"+key, "")
		},
	} {
		t.Run(name, func(t *testing.T) { call().fails(t, http.StatusNotFound, "NOT_FOUND") })
	}
}

func TestSecretsInArgs(t *testing.T) {
	const exact = `{"n":1e2,"api_key":"s3cret","deep":[{"User_Key":"s3cret","k":1.0}]}`
	cases := map[string]struct {
		args           string
		wantPublic     string // in spec.args
		wantSealed     string // in spec.sealedArgs
		wantPrivate    string // in spec.sealedCredentials
		wantInTheReply string
	}{
		"none":                               {args: `{"model_name":"m","n":[1,2.5,-3]}`, wantPublic: `{"model_name":"m","n":[1,2.5,-3]}`, wantInTheReply: `{"model_name":"m","n":[1,2.5,-3]}`},
		"none, but large numbers":            {args: `{"n":12345678901234567890}`, wantSealed: `{"n":12345678901234567890}`, wantInTheReply: `{"n":12345678901234567890}`},
		"none, but an exponent":              {args: `{"n":1e2}`, wantSealed: `{"n":1e2}`, wantInTheReply: `{"n":1e2}`},
		"none, but a number beyond floats":   {args: `{"n":1e999}`, wantSealed: `{"n":1e999}`, wantInTheReply: `{"n":1e999}`},
		"none, but a negative zero":          {args: `{"n":-0}`, wantSealed: `{"n":-0}`, wantInTheReply: `{"n":-0}`},
		"only secrets":                       {args: `{"api_key":"s3cret"}`, wantPrivate: `{"api_key":"s3cret"}`},
		"secrets in escapes":                 {args: `{"api\u005fkey":"s3cret","a":1}`, wantPrivate: `{"api\u005fkey":"s3cret","a":1}`, wantPublic: `{"a":1}`, wantInTheReply: `{"a":1}`},
		"secrets anywhere":                   {args: exact, wantPrivate: exact, wantSealed: `{"deep":[{"k":1.0}],"n":1e2}`, wantInTheReply: `{"deep":[{"k":1.0}],"n":1e2}`},
		"secrets beside plain numbers":       {args: `{"USER_KEY":["s3cret"],"n":7}`, wantPrivate: `{"USER_KEY":["s3cret"],"n":7}`, wantPublic: `{"n":7}`, wantInTheReply: `{"n":7}`},
		"a value that only looks like a key": {args: `{"a":"api_key"}`, wantPublic: `{"a":"api_key"}`, wantInTheReply: `{"a":"api_key"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			got := r.call(http.MethodPost, "/api/v1/compile", `{"args":`+tc.args+`,`+plainBody[1:])
			got.result(t, http.StatusAccepted)
			task := r.the()
			public := ""
			if task.Spec.Args != nil {
				public = string(task.Spec.Args.Raw)
			}
			sealedArgs, err := resttask.OpenArgs(r.tasks.ring, task)
			if err != nil {
				t.Fatal(err)
			}
			private, err := resttask.OpenCredentials(r.tasks.ring, task)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{tc.wantPublic, tc.wantSealed, tc.wantPrivate}
			if diff := cmp.Diff(want, []string{public, string(sealedArgs), string(private.Args)}); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			var shown struct {
				Result struct {
					Meta struct {
						Request struct{ Args json.RawMessage }
					}
				}
			}
			got.decode(t, &shown)
			if string(shown.Result.Meta.Request.Args) != tc.wantInTheReply {
				t.Errorf("shown %s, want %s", shown.Result.Meta.Request.Args, tc.wantInTheReply)
			}
			object, _ := json.Marshal(task)
			if strings.Contains(got.body+string(object), "s3cret") {
				t.Errorf("a secret is shown: %s %s", got.body, object)
			}
		})
	}
}
