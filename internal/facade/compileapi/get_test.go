package compileapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

func TestWhoSeesATask(t *testing.T) {
	cases := map[string]struct {
		caller, namespace string
		change            func(*rig)
		want              int
	}{
		"the requester":                              {caller: "alice", want: 200},
		"another user":                               {caller: "bob", want: 404},
		"who may see all":                            {caller: "root", want: 200},
		"nobody":                                     {caller: "", want: 404},
		"the requester, in another namespace":        {caller: "alice", namespace: "other", want: 404},
		"who may see all, in another namespace":      {caller: "root", namespace: "other", want: 404},
		"the requester, once that is revoked":        {caller: "alice", change: func(r *rig) { r.rights.set("alice get own", false) }, want: 404},
		"the requester without own, who may see all": {caller: "alice", change: func(r *rig) { r.rights.set("alice get own", false); r.rights.set("alice get any", true) }, want: 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			task := r.seed("one", nil)
			if tc.change != nil {
				tc.change(r)
			}
			r = r.as(tc.caller)
			if tc.namespace != "" {
				r.info.Namespace = tc.namespace
			}
			for target, method := range map[string]string{"": http.MethodGet, "/cancel": http.MethodPost} {
				if got := r.call(method, "/api/v1/tasks/"+task.TaskID()+target, ""); got.status != tc.want && (target == "" || tc.want != 200) {
					t.Errorf("%s%s: answer %d %s, want %d", method, target, got.status, got.body, tc.want)
				}
			}
		})
	}
}

func TestAForeignTaskIsLikeNone(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
	bob := r.as("bob")
	ask := func(method, id, rest string) (answer, []string) {
		r.rights.asked = nil
		got := bob.call(method, "/api/v1/tasks/"+url.PathEscape(id)+rest, "")
		quoted, _ := json.Marshal(id)
		got.body = strings.ReplaceAll(got.body, string(quoted), `"ID"`)
		got.header.Del("Content-Length") // ids differ in length
		return got, r.rights.asked
	}
	for _, route := range []struct{ method, rest string }{
		{http.MethodGet, ""}, {http.MethodGet, "?wait=30s"}, {http.MethodPost, "/cancel"}, {http.MethodGet, "/events"},
	} {
		foreign, foreignAsked := ask(route.method, task.TaskID(), route.rest)
		told := foreign.fails(t, http.StatusNotFound, "NOT_FOUND")
		if told.Message != "Task not found or expired" || told.Details["type"] != "task" {
			t.Errorf("told %+v", told)
		}
		for _, id := range []string{"cmp_0123456789abcdef0123456789abcdef", "cmp_01abc", "x", "../../etc", "ü%20<>", strings.Repeat("y", 200)} {
			missing, missingAsked := ask(route.method, id, route.rest)
			if diff := cmp.Diff(foreign, missing, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("%s %s: answers (-foreign +missing):\n%s", route.method, id, diff)
			}
			if diff := cmp.Diff(foreignAsked, missingAsked); diff != "" {
				t.Errorf("%s %s: questions (-foreign +missing):\n%s", route.method, id, diff)
			}
		}
	}
}

func TestAnOverlongIDIsNotRepeatedWhole(t *testing.T) {
	r := newRig(t)
	got := r.call(http.MethodGet, "/api/v1/tasks/"+strings.Repeat("y", 5000), "")
	got.fails(t, http.StatusNotFound, "NOT_FOUND")
	if len(got.body) > 1024 {
		t.Errorf("%d bytes are told", len(got.body))
	}
}

func TestETag(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
	target := "/api/v1/tasks/" + task.TaskID()
	first := r.call(http.MethodGet, target, "")
	tag := first.header.Get("ETag")
	if len(tag) < 10 || tag[0] != '"' {
		t.Fatalf("ETag %q", tag)
	}
	for name, match := range map[string]string{"strong": tag, "weak": "W/" + tag, "one of a list": `"x", ` + tag} {
		if got := r.call(http.MethodGet, target, "", "If-None-Match", match); got.status != http.StatusNotModified || got.body != "" || got.header.Get("ETag") != tag {
			t.Errorf("%s: answer %d %s", name, got.status, got.body)
		}
	}
	r.tasks.change(task, func(task *v1alpha1.CompileTask) { task.Finalizers = []string{"a/b"} })
	if got := r.call(http.MethodGet, target, ""); got.header.Get("ETag") != tag {
		t.Error("a change that the record does not show changes the ETag")
	}
	r.tasks.change(task, func(task *v1alpha1.CompileTask) { task.Status.Stage = "writing" })
	if got := r.call(http.MethodGet, target, "", "If-None-Match", tag); got.status != http.StatusOK || got.header.Get("ETag") == tag {
		t.Errorf("after a change: answer %d", got.status)
	}
}

func TestWaitThatIsNone(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
	for _, wait := range []string{"-1s", "-1", "soon", "1.5.5s", "30%"} {
		r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID()+"?wait="+wait, "").fails(t, http.StatusBadRequest, "INVALID_ARGUMENT")
	}
	for _, query := range []string{"", "?wait=", "?wait=0", "?wait=0s", "?profile=1&include_events=true&unknown=x"} {
		r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID()+query, "").result(t, http.StatusOK)
	}
}

// waiting runs a GET with a wait, and act once it waits; it returns the answer and
// how long it took.
func waiting(t *testing.T, r *rig, task *v1alpha1.CompileTask, query string, act func(), headers ...string) (answer, time.Duration) {
	t.Helper()
	began, answers := time.Now(), make(chan answer, 1)
	go func() { answers <- r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID()+query, "", headers...) }()
	synctest.Wait()
	if act != nil {
		act()
	}
	got := <-answers
	return got, time.Since(began)
}

func TestWait(t *testing.T) {
	const s = time.Second
	running := becomes(v1alpha1.CompileTaskRunning, "agent")
	stage := func(r *rig, task *v1alpha1.CompileTask) {
		r.tasks.change(task, func(task *v1alpha1.CompileTask) { task.Status.Stage = "writing" })
	}
	cases := map[string]struct {
		query     string
		seed      func(*v1alpha1.CompileTask)
		arrange   func(*rig)
		act       func(*rig, *v1alpha1.CompileTask)
		wantAfter time.Duration
		want      int
		wantStage string
	}{
		"nothing happens":        {query: "?wait=30s", seed: running, wantAfter: 30 * s, want: 200, wantStage: "agent"},
		"whole seconds":          {query: "?wait=7", seed: running, wantAfter: 7 * s, want: 200, wantStage: "agent"},
		"longer than the bound":  {query: "?wait=1h", seed: running, wantAfter: 60 * s, want: 200, wantStage: "agent"},
		"through the aggregator": {query: "?wait=60s", seed: running, arrange: func(r *rig) { r.info.Aggregated = true }, wantAfter: 5 * s, want: 200, wantStage: "agent"},
		"an ended task":          {query: "?wait=30s", seed: becomes(v1alpha1.CompileTaskCompleted, "completed"), want: 200, wantStage: "completed"},
		"a new stage":            {query: "?wait=30s", seed: running, act: stage, want: 200, wantStage: "writing"},
		"the end": {query: "?wait=30s", seed: running, act: func(r *rig, task *v1alpha1.CompileTask) {
			r.tasks.change(task, becomes(v1alpha1.CompileTaskCompleted, "completed"))
		}, want: 200, wantStage: "completed"},
		"a change that is not shown": {query: "?wait=30s", seed: running, act: func(r *rig, task *v1alpha1.CompileTask) {
			r.tasks.change(task, func(task *v1alpha1.CompileTask) { task.Finalizers = []string{"a/b"} })
		}, wantAfter: 30 * s, want: 200, wantStage: "agent"},
		"the task is deleted": {query: "?wait=30s", seed: running, act: func(r *rig, task *v1alpha1.CompileTask) { r.tasks.remove(task) }, want: 404},
		"the right is revoked": {query: "?wait=30s", seed: running, act: func(r *rig, task *v1alpha1.CompileTask) {
			r.rights.set("alice get own", false)
			stage(r, task)
		}, want: 404},
		"the right is revoked and nothing happens": {query: "?wait=30s", seed: running, act: func(r *rig, _ *v1alpha1.CompileTask) {
			r.rights.set("alice get own", false)
		}, wantAfter: 5 * s, want: 404},
		"nobody can say for a while": {query: "?wait=12s", seed: running, arrange: func(r *rig) {
			began := time.Now()
			r.info.Recheck = func(context.Context) error {
				if time.Since(began) < 11*s {
					return wire.Errorf(wire.CodeUnavailable, "no answer")
				}
				return nil
			}
		}, wantAfter: 12 * s, want: 200, wantStage: "agent"},
		"the credential is revoked": {query: "?wait=30s", seed: running, arrange: func(r *rig) {
			r.info.Recheck = func(context.Context) error { return wire.Errorf(wire.CodeUnauthenticated, "revoked") }
		}, act: stage, want: 401},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				task := r.seed("one", tc.seed)
				if tc.arrange != nil {
					tc.arrange(r)
				}
				var act func()
				if tc.act != nil {
					act = func() { tc.act(r, task) }
				}
				got, took := waiting(t, r, task, tc.query, act)
				if took != tc.wantAfter || got.status != tc.want {
					t.Fatalf("answer %d after %s: %s", got.status, took, got.body)
				}
				if tc.want == 200 {
					if stage := got.result(t, 200)["stage"]; stage != tc.wantStage {
						t.Errorf("stage %v, want %s", stage, tc.wantStage)
					}
				}
			})
		})
	}
}

func TestWaitEndsWhenTheServerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		draining := make(chan struct{})
		r.info.Draining = draining
		task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
		got, took := waiting(t, r, task, "?wait=30s", func() { close(draining) })
		if took != 0 || got.status != http.StatusOK {
			t.Errorf("answer %d after %s", got.status, took)
		}
	})
}

func TestWaitFromAnETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
		tag := r.call(http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "").header.Get("ETag")
		got, took := waiting(t, r, task, "?wait=10s", nil, "If-None-Match", tag)
		if took != 10*time.Second || got.status != http.StatusNotModified {
			t.Errorf("unchanged: answer %d after %s", got.status, took)
		}
		got, took = waiting(t, r, task, "?wait=10s", nil, "If-None-Match", `"older"`)
		if took != 0 || got.status != http.StatusOK {
			t.Errorf("already changed: answer %d after %s", got.status, took)
		}
	})
}

func TestWaitEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		task := r.seed("one", becomes(v1alpha1.CompileTaskRunning, "agent"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer)
		go func() {
			done <- r.do(r.request(ctx, http.MethodGet, "/api/v1/tasks/"+task.TaskID()+"?wait=30s", ""))
		}()
		synctest.Wait()
		cancel()
		<-done
		synctest.Wait()
		if left := len(r.tasks.watchers["docs/one"]); left != 0 {
			t.Errorf("%d watches are left", left)
		}
	})
}

// discard is a response that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header          { return d.header }
func (discard) Write(body []byte) (int, error) { return len(body), nil }
func (discard) WriteHeader(int)                {}

func BenchmarkGet(b *testing.B) {
	r := newRig(b)
	r.create(`{"instruction":"` + strings.Repeat("do it ", 50) + `","args":{"model_name":"m","n":[1,2,3]},` + plainBody[1:])
	task := r.the()
	request := r.request(b.Context(), http.MethodGet, "/api/v1/tasks/"+task.TaskID(), "")
	request = request.WithContext(httpapi.WithInfo(request.Context(), &r.info))
	b.ReportAllocs()
	for b.Loop() {
		r.mux.ServeHTTP(discard{http.Header{}}, request)
	}
}
