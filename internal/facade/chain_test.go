package facade

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentruntime/operator/internal/facade/middleware"
)

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestRequestIDs is J.3 of compile-api.md.
func TestRequestIDs(t *testing.T) {
	tests := map[string]struct {
		target     string
		header     []string
		wantStatus int
		// wantID is the client's id; empty is a new one.
		wantID string
	}{
		"the client's id is echoed":          {"/api/v1/things", []string{"X-Request-ID", "My.id_1:2-3"}, 200, "My.id_1:2-3"},
		"without one there is a new one":     {"/api/v1/things", nil, 200, ""},
		"128 characters are accepted":        {"/api/v1/things", []string{"X-Request-ID", strings.Repeat("a", 128)}, 200, strings.Repeat("a", 128)},
		"129 are not":                        {"/api/v1/things", []string{"X-Request-ID", strings.Repeat("a", 129)}, 400, ""},
		"nor are spaces":                     {"/api/v1/things", []string{"X-Request-ID", "bad-value here"}, 400, ""},
		"nor two":                            {"/api/v1/things", []string{"X-Request-ID", "bad-value-1", "X-Request-ID", "bad-value-2"}, 400, ""},
		"nor a list":                         {"/api/v1/things", []string{"X-Request-ID", "bad-value-1,bad-value-2"}, 400, ""},
		"a stranger with a bad one gets 401": {"/api/v1/things", []string{"X-Request-ID", "bad-value here", "Authorization", "Bearer wrong"}, 401, ""},
		"a stranger's good one is echoed":    {"/api/v1/things", []string{"X-Request-ID", "mine", "Authorization", "Bearer wrong"}, 401, "mine"},
		"it is kept on 500":                  {"/api/v1/panic", []string{"X-Request-ID", "mine"}, 500, "mine"},
		"it is kept on 404":                  {"/nowhere", []string{"X-Request-ID", "mine"}, 404, "mine"},
		"it is checked on open routes":       {"/health", []string{"X-Request-ID", "bad-value here"}, 400, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			answer := f.do(http.MethodGet, test.target, "", append(test.header, "Origin", "https://app.example.com")...)
			if answer.Code != test.wantStatus {
				t.Fatalf("answered %d %s", answer.Code, answer.Body)
			}
			ids := answer.Header().Values("X-Request-ID")
			if len(ids) != 1 || test.wantID != "" && ids[0] != test.wantID || test.wantID == "" && !uuid4.MatchString(ids[0]) {
				t.Errorf("X-Request-ID is %q", ids)
			}
			if !strings.Contains(answer.Header().Get("Access-Control-Expose-Headers"), "X-Request-ID") {
				t.Error("the id is not exposed to pages")
			}
			if answer.Code == http.StatusBadRequest {
				if code := decode(t, answer.Body.Bytes()).Error.Code; code != "INVALID_ARGUMENT" {
					t.Errorf("code %s", code)
				}
			}
			log := f.log.String()
			if strings.Contains(log, "bad-value") || strings.Contains(answer.Body.String(), "bad-value") {
				t.Errorf("a bad id is repeated: %s %s", answer.Body, log)
			}
			if !strings.Contains(log, ids[0]) {
				t.Errorf("the log does not have the id %s: %s", ids[0], log)
			}
		})
	}
}

func TestConcurrentRequestsAreNotMixed(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits = middleware.Limits{Rate: 1e6, Burst: 1e6, InFlight: 1e6} })
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			id, user, body := fmt.Sprint("id-", i), fmt.Sprint("user-", i%7), strings.Repeat(fmt.Sprint(i), 100)
			answer := f.do(http.MethodPost, fmt.Sprintf("/namespaces/ns-%d/api/v1/things", i), body, "X-Request-ID", id, "Authorization", "Bearer "+user)
			got := decode(t, answer.Body.Bytes()).Result
			want := seen{Route: "things.create", ID: id, User: user, Namespace: fmt.Sprint("ns-", i), Body: body, Trace: got.Trace}
			if diff := cmp.Diff(want, got); diff != "" || answer.Header().Get("X-Request-ID") != id {
				t.Errorf("answer with id %s (-want +got):\n%s", answer.Header().Get("X-Request-ID"), diff)
			}
		})
	}
	all.Wait()
}

func TestNamespaces(t *testing.T) {
	tests := map[string]struct {
		target     string
		header     []string
		wantStatus int
		want       string
	}{
		"the path's":                     {"/namespaces/team-a/api/v1/things", nil, 200, "team-a"},
		"the API key's":                  {"/api/v1/things", []string{"Authorization", "Bearer key-of-team-k"}, 200, "team-k"},
		"the account header's":           {"/api/v1/things", []string{"X-OpenViking-Account", "team-b"}, 200, "team-b"},
		"the ServiceAccount's own":       {"/api/v1/things", []string{"Authorization", "Bearer system:serviceaccount:team-c:bot"}, 200, "team-c"},
		"the default":                    {"/api/v1/things", nil, 200, "default"},
		"an API key can't leave its own": {"/namespaces/team-a/api/v1/things", []string{"Authorization", "Bearer key-of-team-k"}, 403, ""},
		"a bad account is refused":       {"/api/v1/things", []string{"X-OpenViking-Account", "Not_A_Label"}, 400, ""},
		"a bad path is refused":          {"/namespaces/a%2Fb/api/v1/things", nil, 400, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := newFixture(t).do(http.MethodGet, test.target, "", test.header...)
			got := decode(t, answer.Body.Bytes()).Result.Namespace
			if answer.Code != test.wantStatus || got != test.want {
				t.Errorf("answered %d for namespace %q: %s", answer.Code, got, answer.Body)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	f := newFixture(t)
	answer := f.do(http.MethodGet, "/api/v1/panic", "")
	if got := decode(t, answer.Body.Bytes()); answer.Code != http.StatusInternalServerError || got.Error.Code != "INTERNAL" {
		t.Errorf("answered %d %s", answer.Code, answer.Body)
	}
	if log := f.log.String(); strings.Contains(log, "secret of the request") || !strings.Contains(log, "harness_test.go") {
		t.Errorf("the log has the panic's value, or not its place: %s", log)
	}
}

func TestAccessLog(t *testing.T) {
	f := newFixture(t)
	answer := f.do(http.MethodPost, "/namespaces/team-a/api/v1/things/SECRET-path/stop?q=SECRET-query", "SECRET",
		"X-Secret", "SECRET-header", "X-Request-ID", "mine")
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	log := f.log.String()
	if strings.Contains(log, "SECRET") || strings.Contains(log, "Bearer") {
		t.Errorf("the log holds content of the request: %s", log)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(log), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"level": "INFO", "msg": "Request served", "requestID": "mine", "route": "things.stop", "method": "POST", "code": 200.0,
		"bytes": float64(answer.Body.Len()), "user": "ann", "namespace": "team-a", "aggregated": false,
	}
	ignore := cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "time" || key == "durationSeconds" })
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("log line (-want +got):\n%s", diff)
	}
}

func TestMetrics(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"/api/v1/things", "/api/v1/things", "/a", "/b", "/api/v1/panic"} {
		f.do(http.MethodGet, target, "")
	}
	f.do(http.MethodDelete, "/api/v1/things", "")
	f.do(http.MethodGet, "/api/v1/things", "", "Authorization", "Bearer wrong")
	const want = `
# HELP agentruntime_facade_requests_total Requests answered, by route and status code; 499 is a client that did not wait.
# TYPE agentruntime_facade_requests_total counter
agentruntime_facade_requests_total{code="200",route="things.list"} 2
agentruntime_facade_requests_total{code="401",route="things.list"} 1
agentruntime_facade_requests_total{code="404",route="unknown"} 2
agentruntime_facade_requests_total{code="405",route="unknown"} 1
agentruntime_facade_requests_total{code="500",route="panic"} 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "agentruntime_facade_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfOneCaller(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits = middleware.Limits{Rate: 1, Burst: 2} })
	codes := []int{}
	var last *httptest.ResponseRecorder
	for range 3 {
		last = f.do(http.MethodGet, "/api/v1/things", "")
		codes = append(codes, last.Code)
	}
	if diff := cmp.Diff([]int{200, 200, 429}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if got := decode(t, last.Body.Bytes()); got.Error.Code != "RESOURCE_EXHAUSTED" || last.Header().Get("Retry-After") != "1" {
		t.Errorf("answered %s, Retry-After %q", last.Body, last.Header().Get("Retry-After"))
	}
	if other := f.do(http.MethodGet, "/api/v1/things", "", "Authorization", "Bearer bob"); other.Code != http.StatusOK {
		t.Errorf("another caller is answered %d", other.Code)
	}
	if open := f.do(http.MethodGet, "/health", ""); open.Code != http.StatusOK {
		t.Errorf("/health is answered %d", open.Code)
	}
}

func TestBodies(t *testing.T) {
	tests := map[string]struct {
		target, body string
		wantStatus   int
		wantBody     string
	}{
		"a body within its route's bound": {"/api/v1/things/1/stop", "0123456789", 200, "0123456789"},
		"a body beyond it":                {"/api/v1/things/1/stop", "0123456789x", 400, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := newFixture(t).do(http.MethodPost, test.target, test.body)
			got := decode(t, answer.Body.Bytes())
			if answer.Code != test.wantStatus || got.Result.Body != test.wantBody {
				t.Errorf("answered %d %s", answer.Code, answer.Body)
			}
			if answer.Code != http.StatusOK && (got.Error.Code != "INVALID_ARGUMENT" || !strings.Contains(got.Error.Message, "10 bytes")) {
				t.Errorf("answered %s", answer.Body)
			}
		})
	}
}

func TestPreflightNeedsNoCaller(t *testing.T) {
	f := newFixture(t)
	answer := f.do(http.MethodOptions, "/api/v1/things", "", "Authorization", "",
		"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key")
	if answer.Code != http.StatusNoContent || answer.Header().Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("answered %d %v", answer.Code, answer.Header())
	}
}

func BenchmarkChain(b *testing.B) {
	f := newFixture(b, func(c *Config) {
		c.Limits = middleware.Limits{Rate: 1e9, Burst: 1e9}
		c.Logger = discard()
	})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/things/1", nil)
	r.Header.Set("Authorization", "Bearer ann")
	b.ReportAllocs()
	for b.Loop() {
		f.Handler().ServeHTTP(httptest.NewRecorder(), r.Clone(b.Context()))
	}
}
