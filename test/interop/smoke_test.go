package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// door is one way to the API, for raw requests.
type door struct {
	client     *http.Client
	base       string
	header     http.Header
	compile    string
	tasks      string
	aggregated bool
}

func (l *lab) testSmokeDirect(t *testing.T) {
	d := door{client: &http.Client{Transport: l.transport()}, base: l.plane.FacadeURL(), compile: "/api/v1/compile", tasks: "/api/v1/tasks"}
	d.header = http.Header{"X-Api-Key": {l.user.key}}
	checkSmoke(t, d)
}

func (l *lab) testSmokeAggregated(t *testing.T) {
	token, err := l.plane.ServiceAccountToken(t.Context(), namespace, l.user.name)
	must(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(l.plane.Config))
	must(t, err)
	base := strings.TrimSuffix(l.plane.Config.Host, "/") + "/apis/compile.agentruntime.dev/v1/namespaces/" + namespace
	d := door{client: &http.Client{Transport: transport}, base: base, compile: "/compile", tasks: "/tasks", aggregated: true}
	d.header = http.Header{"Authorization": {"Bearer " + token}}
	l.waitForAggregation(t)
	checkSmoke(t, d)
}

// waitForAggregation waits until the API server has found the facade.
func (l *lab) waitForAggregation(t *testing.T) {
	t.Helper()
	client, err := rest.HTTPClientFor(l.plane.Config)
	must(t, err)
	url := strings.TrimSuffix(l.plane.Config.Host, "/") + "/apis/compile.agentruntime.dev/v1"
	must(t, l.plane.Until(t.Context(), "the aggregated API", func() (bool, error) {
		response, err := client.Get(url)
		if err != nil {
			return false, err
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}))
}

// checkSmoke is the minimum that all SDKs rely on (H.5), seen on the wire.
func checkSmoke(t *testing.T, d door) {
	body, err := json.Marshal(map[string]any{
		"from": []string{source("smoke")}, "to": slowTarget + strings.Trim(d.compile, "/"), "skill": "viking://agent/skills/wiki",
	})
	must(t, err)
	created := d.send(t, http.MethodPost, d.compile, string(body))
	created.expect(t, http.StatusAccepted, "")
	id, _ := created.task(t)["task_id"].(string)
	for _, suffix := range []string{"", "?profile=1", "/"} {
		got := d.send(t, http.MethodGet, d.tasks+"/"+id+suffix, "")
		got.expect(t, http.StatusOK, "")
		must(t, want(got.task(t), map[string]any{"task_id": id, "task_type": "compile", "resource_id": source("smoke"), "result": nil, "error": nil}))
	}
	listed := d.send(t, http.MethodGet, d.tasks+"?limit=1&profile=1", "")
	listed.expect(t, http.StatusOK, "")
	if list, ok := listed.envelope["result"].([]any); !ok || len(list) != 1 {
		t.Errorf("the list is %v", listed.envelope)
	}
	cancelled := d.send(t, http.MethodPost, d.tasks+"/"+id+"/cancel", "")
	cancelled.expect(t, http.StatusOK, "")
	if status := cancelled.task(t)["status"]; status != "cancelling" && status != "cancelled" {
		t.Errorf("the cancelled task is %v", status)
	}
	checkSmokeErrors(t, d)
}

func checkSmokeErrors(t *testing.T, d door) {
	d.send(t, http.MethodPost, d.compile, "{").expect(t, http.StatusBadRequest, "INVALID_ARGUMENT")
	d.send(t, http.MethodPost, d.compile, "{}").expect(t, http.StatusBadRequest, "INVALID_ARGUMENT")
	d.send(t, http.MethodGet, d.tasks+"?limit=0", "").expect(t, http.StatusBadRequest, "INVALID_ARGUMENT")
	d.send(t, http.MethodGet, d.tasks+"/"+unknownTask, "").expect(t, http.StatusNotFound, "NOT_FOUND")
	d.send(t, http.MethodPost, d.tasks+"/"+unknownTask+"/cancel", "").expect(t, http.StatusNotFound, "NOT_FOUND")
	if d.aggregated {
		return // What is wrong with a credential the API server says, in its own form.
	}
	d.header = nil
	d.send(t, http.MethodGet, d.tasks, "").expect(t, http.StatusUnauthorized, "UNAUTHENTICATED")
}

// answer is an answer with its envelope.
type answer struct {
	call     string
	status   int
	envelope map[string]any
}

func (d door) send(t *testing.T, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.base+path, http.NoBody)
	must(t, err)
	if r.Header = d.header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	d.client.Timeout = 30 * time.Second
	response, err := d.client.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	must(t, err)
	got := answer{call: method + " " + path, status: response.StatusCode}
	if err := json.Unmarshal(text, &got.envelope); err != nil {
		t.Fatalf("%s: decode the answer: %v\n%s", got.call, err, text)
	}
	return got
}

// expect wants a status, and a code where it is an error.
func (a answer) expect(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: status %d instead of %d: %v", a.call, a.status, status, a.envelope)
	}
	if code == "" {
		if a.envelope["status"] != "ok" {
			t.Errorf("%s: the envelope is %v", a.call, a.envelope)
		}
		return
	}
	failure, _ := a.envelope["error"].(map[string]any)
	message, _ := failure["message"].(string)
	if a.envelope["status"] != "error" || failure["code"] != code || message == "" {
		t.Errorf("%s: the envelope is %v, wanted the error %s", a.call, a.envelope, code)
	}
}

func (a answer) task(t *testing.T) map[string]any {
	t.Helper()
	task, ok := a.envelope["result"].(map[string]any)
	if !ok {
		t.Fatalf("%s: the result is no object: %v", a.call, a.envelope)
	}
	return task
}
