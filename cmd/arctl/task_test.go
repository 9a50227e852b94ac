package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		status   int
		code     string
		wantCode int
		wantErr  string
	}{
		"refused as it stands": {400, "INVALID_ARGUMENT", 2, "arctl: get task " + taskID + ": INVALID_ARGUMENT: because (request id req-1)\n"},
		"unknown caller":       {401, "UNAUTHENTICATED", 3, "arctl: get task " + taskID + ": UNAUTHENTICATED: because (request id req-1); give a valid key with --api-key-file or ARCTL_API_KEY\n"},
		"not allowed":          {403, "PERMISSION_DENIED", 3, "arctl: get task " + taskID + ": PERMISSION_DENIED: because (request id req-1); ask for the role agentruntime-user in the namespace\n"},
		"not there":            {404, "NOT_FOUND", 4, "arctl: get task " + taskID + ": NOT_FOUND: because (request id req-1)\n"},
		"finished already":     {412, "FAILED_PRECONDITION", 2, "arctl: get task " + taskID + ": FAILED_PRECONDITION: because (request id req-1)\n"},
		"server failed":        {500, "INTERNAL", 1, "arctl: get task " + taskID + ": INTERNAL: because (request id req-1)\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, test.status, test.code, "because") })
			want := outcome{code: test.wantCode, err: test.wantErr}
			if diff := cmp.Diff(want, runWith(t, keyEnv(f.URL), "task", "get", taskID), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	thief := serve(t, func(w http.ResponseWriter, _ *http.Request) { ok(w, 200, record("completed", "completed", "")) })
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	for name, arguments := range map[string][]string{
		"direct":     append(direct(f.URL), "--api-key", "sk-test", "task", "get", taskID),
		"aggregated": {"--kubeconfig", f.kubeconfig(t), "task", "cancel", taskID},
		"secrets":    {"--kubeconfig", f.kubeconfig(t), "apikey", "list"},
		"runtimes":   {"--kubeconfig", f.kubeconfig(t), "runtime", "list"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := arctl(t, arguments...); got.code == 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	if seen := thief.seen(); len(seen) > 0 {
		t.Errorf("a redirect was followed: %v", seen)
	}
}

func TestPaths(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tasks") {
			ok(w, 200, "["+record("running", "agent", "")+"]")
			return
		}
		ok(w, 200, record("cancelling", "agent", ""))
	})
	kubeconfig := f.kubeconfig(t)
	tests := map[string]struct {
		arguments []string
		want      string
	}{
		"direct":               {append(direct(f.URL+"/"), "task", "cancel", "task/"+taskID), "POST /api/v1/tasks/" + taskID + "/cancel"},
		"direct, in namespace": {append(direct(f.URL), "-n", "team-b", "task", "get", taskID), "GET /namespaces/team-b/api/v1/tasks/" + taskID},
		"aggregated":           {[]string{"--kubeconfig", kubeconfig, "task", "get", taskID}, "GET /apis/compile.agentruntime.dev/v1/namespaces/team-a/tasks/" + taskID},
		"aggregated, elsewhere": {
			[]string{"--kubeconfig", kubeconfig, "-n", "team-b", "task", "list", "--status", "running", "--all-in-namespace", "--limit", "1"},
			"GET /apis/compile.agentruntime.dev/v1/namespaces/team-b/tasks?limit=1&scope=namespace&status=running",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := arctl(t, test.arguments...)
			seen := f.seen()
			if last := seen[len(seen)-1]; got.code != 0 || last != test.want {
				t.Errorf("exit code %d (%s), request %s, want %s", got.code, got.err, last, test.want)
			}
		})
	}
}

func TestNoAggregatedAPI(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","code":404}`)
	})
	got := arctl(t, "--kubeconfig", f.kubeconfig(t), "task", "list")
	if got.code != 4 || !strings.Contains(got.err, "name a facade with --server, or have the aggregated API installed") {
		t.Errorf("%+v", got)
	}
}

func TestOutputs(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tasks") {
			ok(w, 200, "["+record("failed", "agent", "MODEL: bad")+"]")
			return
		}
		ok(w, 200, record("completed", "completed", ""))
	})
	tests := map[string]struct {
		arguments []string
		want      []string
	}{
		"table": {[]string{"task", "get", taskID}, []string{
			"TASK                                   STATUS      STAGE       TO                        AGE",
			taskID + "   completed   completed   viking://resources/wiki   ",
		}},
		"wide list": {[]string{"task", "list", "-o", "wide"}, []string{
			"SKILL                        FROM                      ERROR", "viking://agent/skills/wiki   viking://resources/docs   MODEL: bad",
		}},
		"names":       {[]string{"task", "list", "-o", "name"}, []string{"task/" + taskID + "\n"}},
		"JSON":        {[]string{"task", "get", taskID, "-o", "json"}, []string{`    "big": 12345678901234567890,`, `    "exact": 1.0`}},
		"JSON list":   {[]string{"task", "list", "-o", "json"}, []string{"[\n  {\n    \"task_id\": "}},
		"YAML":        {[]string{"task", "get", taskID, "-o", "yaml"}, []string{"task_id: " + taskID + "\n", "  big: 12345678901234567890\n", "  exact: 1.0\n", "error: null\n"}},
		"description": {[]string{"task", "status", taskID}, []string{"Task:        " + taskID + "\nStatus:      completed\n", "From:        viking://resources/docs\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := runWith(t, keyEnv(f.URL), test.arguments...)
			if got.code != 0 {
				t.Fatalf("exit code %d: %s", got.code, got.err)
			}
			for _, want := range test.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("stdout lacks %q:\n%s", want, got.out)
				}
			}
		})
	}
}

func TestListPages(t *testing.T) {
	page := "[" + strings.TrimSuffix(strings.Repeat(record("running", "agent", "")+",", 200), ",") + "]"
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		more := r.URL.Query().Get("cursor") == ""
		ok(w, 200, fmt.Sprintf(`{"items":%s,"has_more":%t,"next_cursor":"c1"}`, page, more))
	})
	got := runWith(t, keyEnv(f.URL), "task", "list", "--limit", "1000", "-o", "name")
	want := []string{"GET /api/v1/tasks?limit=200&pagination=cursor", "GET /api/v1/tasks?cursor=c1&limit=200&pagination=cursor"}
	if diff := cmp.Diff(want, f.seen()); diff != "" || strings.Count(got.out, "\n") != 400 {
		t.Errorf("%d lines; %s", strings.Count(got.out, "\n"), diff)
	}
}

func event(id, data string) string { return "event: task\nid: " + id + "\ndata: " + data + "\n\n" }

func TestWatchResumesAfterACut(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch r.Header.Get("Last-Event-ID") {
		case "":
			fmt.Fprint(w, ": hello\n\n"+event("5", record("pending", "queued", ""))+event("6", record("running", "agent", "")))
		case "6":
			// What was sent last may come again.
			fmt.Fprint(w, event("6", record("running", "agent", ""))+": heartbeat\n\n"+event("7", record("running", "writing", ""))+"event: task\ndata: {\"cut")
		default:
			fmt.Fprint(w, event("8", record("completed", "completed", ""))+"event: end\ndata:\n\n")
		}
	})
	for name, test := range map[string]struct {
		arguments []string
		wantPath  string
	}{
		"direct":     {direct(f.URL), "GET /api/v1/tasks/" + taskID + "/events"},
		"aggregated": {[]string{"--kubeconfig", f.kubeconfig(t)}, "GET /apis/compile.agentruntime.dev/v1/namespaces/team-a/tasks/" + taskID + "/log"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(f.seen())
			got := arctl(t, append(slices.Clone(test.arguments), "task", "watch", taskID)...)
			want := "[00:00] pending: queued\n[00:00] running: agent\n[00:00] running: writing\n[00:00] completed\n"
			if got.code != 0 || got.out != want {
				t.Errorf("exit code %d, stdout:\n%s\nstderr: %s", got.code, got.out, got.err)
			}
			if diff := cmp.Diff([]string{test.wantPath, test.wantPath, test.wantPath}, f.seen()[before:]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWatchEnds(t *testing.T) {
	t.Run("with the task's failure", func(t *testing.T) {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, event("5", record("failed", "agent", "MODEL: bad"))+"event: end\ndata:\n\n")
		})
		got := arctl(t, append(direct(f.URL), "task", "watch", taskID, "-o", "json")...)
		if got.code != 10 || strings.Count(got.out, "\n") != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("at once when there is no such task", func(t *testing.T) {
		f := serve(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "NOT_FOUND", "Task not found or expired") })
		if got := arctl(t, append(direct(f.URL), "task", "watch", taskID)...); got.code != 4 || len(f.seen()) != 1 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("when the right to see it is taken away", func(t *testing.T) {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") != "" {
				refuse(w, 403, "PERMISSION_DENIED", "no more")
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, event("5", record("running", "agent", "")))
		})
		if got := arctl(t, append(direct(f.URL), "task", "watch", taskID)...); got.code != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestCancelWaits(t *testing.T) {
	for status, want := range map[string]int{"cancelled": 0, "failed": 10, "completed": 1} {
		f := serve(t, script(record(status, status, "")))
		if got := runWith(t, keyEnv(f.URL), "task", "cancel", taskID, "--wait"); got.code != want {
			t.Errorf("%s: %+v", status, got)
		}
	}
}
