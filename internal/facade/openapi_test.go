package facade

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/compileapi"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/openapi"
)

// dialect is the compile API without anything behind it: its routes, not its
// answers.
func dialect(t testing.TB) []httpapi.Route {
	t.Helper()
	api, err := compileapi.New(compileapi.Config{
		Tasks: struct{ compileapi.Tasks }{}, Authorizer: struct{ access.Authorizer }{},
		Runtimes: struct{ compileapi.Runtimes }{}, Keys: struct{ compileapi.KeyRings }{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return api.Routes()
}

func withDialect(t testing.TB) func(*Config) {
	t.Helper()
	return func(c *Config) { c.Routes = dialect(t) }
}

// described is what a route and its operation must agree on.
type described struct {
	Method, Path, Name string
	Open, Body         bool
	Parameters         []string
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

func describedBy(route httpapi.Route, path, name string) described {
	d := described{Method: strings.ToLower(route.Method), Path: path, Name: name, Open: route.Open, Body: route.MaxBody > 0}
	for _, match := range placeholder.FindAllStringSubmatch(path, -1) {
		d.Parameters = append(d.Parameters, match[1])
	}
	return d
}

func TestRoutesAndDocumentAgree(t *testing.T) {
	f := newFixture(t, withDialect(t))
	var want []described
	for _, route := range f.Routes() {
		want = append(want, describedBy(route, route.Path, route.Name))
		if !route.Open {
			want = append(want, describedBy(route, namespacePrefix+route.Path, route.Name+openapi.NamespacedSuffix))
		}
	}
	answer := f.do(http.MethodGet, "/openapi.json", "", "Authorization", "")
	got := operationsOf(t, answer.Body.Bytes())
	order := func(a, b described) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes and operations (-routes +document):\n%s", diff)
	}
}

// operationsOf reads a document's operations with libopenapi, references resolved.
func operationsOf(t *testing.T, body []byte) []described {
	t.Helper()
	document, err := libopenapi.NewDocument(body)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	var out []described
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			d := described{
				Method: method, Path: path, Name: operation.OperationId, Body: operation.RequestBody != nil,
				Open: operation.Security != nil && len(operation.Security) == 0,
			}
			for _, parameter := range operation.Parameters {
				if parameter.In == "path" {
					d.Parameters = append(d.Parameters, parameter.Name)
				}
			}
			// The namespace is added at the end, and stands first in the path.
			slices.SortFunc(d.Parameters, func(a, b string) int { return strings.Index(path, a) - strings.Index(path, b) })
			out = append(out, d)
			checkStatuses(t, d, slices.Collect(maps.Keys(maps.Collect(operation.Responses.Codes.FromOldest()))))
		}
	}
	return out
}

// checkStatuses compares the answers that an operation is described with to those
// that its kind of route can give.
func checkStatuses(t *testing.T, operation described, statuses []string) {
	t.Helper()
	want := []string{"400", "500", "503", "504"}
	if !operation.Open {
		want = append(want, "401", "403", "429")
	}
	want = append(want, own[strings.TrimSuffix(operation.Name, openapi.NamespacedSuffix)]...)
	if len(operation.Parameters) > 0 {
		want = append(want, "404")
	}
	slices.Sort(want)
	want = slices.Compact(want)
	slices.Sort(statuses)
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("statuses of %s (-want +document):\n%s", operation.Name, diff)
	}
}

// own are the statuses that belong to one operation.
var own = map[string][]string{
	"compile.create":       {"202", "404", "409"},
	"compile.capabilities": {"200"},
	"compile.submission":   {"200", "404"},
	"tasks.list":           {"200"},
	"tasks.get":            {"200", "304", "404"},
	"tasks.cancel":         {"200", "404", "409", "412"},
	"tasks.events":         {"200", "404"},
	"health":               {"200"},
	"health.healthz":       {"200"},
	"health.livez":         {"200"},
	"health.readyz":        {"200"},
	"openapi":              {"200", "304"},
}

func TestDocumentIsValid(t *testing.T) {
	f := newFixture(t, withDialect(t))
	document, err := libopenapi.NewDocument(f.do(http.MethodGet, "/openapi.json", "").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	defer v.Release()
	if valid, faults := v.ValidateDocument(); !valid {
		for _, fault := range faults {
			t.Errorf("%s: %s %v", fault.Message, fault.Reason, fault.SchemaValidationErrors)
		}
	}
}

// Answers of the chain itself must be as the document says.
func TestAnswersFitTheDocument(t *testing.T) {
	f := newFixture(t, withDialect(t))
	document, err := libopenapi.NewDocument(f.do(http.MethodGet, "/openapi.json", "").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	defer v.Release()
	tests := map[string]struct {
		method, path string
		header       []string
		wantStatus   int
	}{
		"health":            {"GET", "/health", nil, 200},
		"not ready":         {"GET", "/readyz", nil, 503},
		"a stranger":        {"GET", "/api/v1/tasks", []string{"Authorization", "Bearer wrong"}, 401},
		"a bad request id":  {"GET", "/api/v1/tasks", []string{"X-Request-ID", "a b"}, 400},
		"another namespace": {"GET", "/namespaces/a/api/v1/tasks", []string{"Authorization", "Bearer key-of-b"}, 403},
		"a bad body":        {"POST", "/api/v1/compile", []string{"Content-Type", "application/json"}, 400},
		"a retired route":   {"POST", "/bot/v1/compile", nil, 400},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := f.do(test.method, test.path, "", test.header...)
			if answer.Code != test.wantStatus {
				t.Fatalf("answered %d %s", answer.Code, answer.Body)
			}
			request, err := http.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if valid, faults := v.ValidateHttpResponse(request, answer.Result()); !valid {
				for _, fault := range faults {
					t.Errorf("%s: %s", fault.Message, fault.Reason)
				}
			}
		})
	}
}

func TestDocumentIsCached(t *testing.T) {
	f := newFixture(t)
	first := f.do(http.MethodGet, "/openapi.json", "", "Authorization", "")
	if !json.Valid(first.Body.Bytes()) || first.Header().Get("ETag") == "" {
		t.Fatalf("answered %d %v", first.Code, first.Header())
	}
	again := f.do(http.MethodGet, "/openapi.json", "", "If-None-Match", `"other", W/`+first.Header().Get("ETag"))
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("answered %d %s", again.Code, again.Body)
	}
}
