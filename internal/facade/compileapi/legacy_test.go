package compileapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestRetiredRoutes(t *testing.T) {
	const get, cancel = "GET /api/v1/tasks/{task_id}", "POST /api/v1/tasks/{task_id}/cancel"
	cases := map[string]struct {
		method, target string
		want           []string
	}{
		"create": {http.MethodPost, "/bot/v1/compile", []string{"POST /api/v1/compile", get}},
		"get":    {http.MethodGet, "/bot/v1/compile/cmp_01abc", []string{get}},
		"cancel": {http.MethodPost, "/bot/v1/compile/cmp_01abc/cancel", []string{cancel}},
	}
	for name, tc := range cases {
		for _, body := range []string{"", "{}", plainBody, "no JSON"} {
			t.Run(name+" with body "+body, func(t *testing.T) {
				r := newRig(t)
				got := r.call(tc.method, tc.target, body)
				told := got.fails(t, http.StatusBadRequest, "INVALID_ARGUMENT")
				var older struct{ Detail string }
				got.decode(t, &older)
				for _, want := range tc.want {
					if !strings.Contains(told.Message, want) || older.Detail != told.Message {
						t.Errorf("message %q, detail %q, want %q in both", told.Message, older.Detail, want)
					}
				}
				if len(r.tasks.all()) != 0 {
					t.Error("a task was created")
				}
			})
		}
	}
}

func TestCapabilities(t *testing.T) {
	cases := map[string]struct {
		arrange func(*rig)
		want    string
	}{
		"all is there":                {func(*rig) {}, `{"configured":true,"can_create":true,"reason_code":null}`},
		"no runtime":                  {func(r *rig) { r.runtimes.runtime = nil }, `{"configured":false,"can_create":false,"reason_code":"NOT_CONFIGURED"}`},
		"no key":                      {func(r *rig) { r.runtimes.runtime = runtimeOf(v1alpha1.CredentialsSecret) }, `{"configured":true,"can_create":false,"reason_code":"API_KEY_REQUIRED"}`},
		"no right":                    {func(r *rig) { r.rights.set("alice create", false) }, `{"configured":true,"can_create":false,"reason_code":"PERMISSION_DENIED"}`},
		"no right to use the runtime": {func(r *rig) { r.rights.set("alice use", false) }, `{"configured":true,"can_create":false,"reason_code":"PERMISSION_DENIED"}`},
		"a key to forward":            {func(r *rig) { r.runtimes.runtime, r.info.Caller.Forward = runtimeOf(v1alpha1.CredentialsSecret), "k" }, `{"configured":true,"can_create":true,"reason_code":null}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tc.arrange(r)
			if got := r.call(http.MethodGet, "/api/v1/compile/capabilities", ""); got.body != `{"status":"ok","result":`+tc.want+`}` {
				t.Errorf("answer %d %s", got.status, got.body)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	r := newRig(t)
	api, err := New(Config{Tasks: r.tasks, Authorizer: r.rights, Runtimes: r.runtimes, Keys: r.keys})
	if err != nil {
		t.Fatal(err)
	}
	names, got := map[string]bool{}, map[string]string{}
	for _, route := range api.Routes() {
		if names[route.Name] || route.Open || route.Stream != (route.Name == "tasks.events") {
			t.Errorf("route %+v", route)
		}
		names[route.Name] = true
		if route.Aggregated != "" {
			got[route.Method+" "+route.Path] = route.Aggregated
		}
	}
	want := map[string]string{
		"POST /api/v1/compile": "/compile", "GET /api/v1/compile/capabilities": "/compile/capabilities",
		"GET /api/v1/compile/submissions/{key}": "/submissions/{key}", "GET /api/v1/tasks": "/tasks",
		"GET /api/v1/tasks/{task_id}": "/tasks/{task_id}", "POST /api/v1/tasks/{task_id}/cancel": "/tasks/{task_id}/cancel",
		"GET /api/v1/tasks/{task_id}/events": "/tasks/{task_id}/log",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("aggregated routes (-want +got):\n%s", diff)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a dialect over nothing is made")
	}
}
