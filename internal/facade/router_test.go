package facade

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPaths(t *testing.T) {
	long := strings.Repeat("a", 5000)
	tests := map[string]struct {
		method, target string
		wantStatus     int
		wantRoute      string
		wantPath       string
		wantAllow      string
	}{
		"a known path":                        {"GET", "/api/v1/things/1", 200, "things.get", "1", ""},
		"a slash at the end is ignored":       {"GET", "/api/v1/things/1/", 200, "things.get", "1", ""},
		"and loses no POST":                   {"POST", "/api/v1/things/", 200, "things.create", "", ""},
		"two slashes at the end are unknown":  {"POST", "/api/v1/things//", 404, "", "", ""},
		"empty segments are unknown":          {"POST", "//api/v1/things", 404, "", "", ""},
		"dot segments are unknown":            {"POST", "/api/v1/x/../things", 404, "", "", ""},
		"so are encoded ones":                 {"POST", "/api/v1/x/%2e%2e/things", 404, "", "", ""},
		"an encoded slash stays in its place": {"GET", "/api/v1/things/a%2Fb", 200, "things.get", "a/b", ""},
		"at the end too":                      {"GET", "/api/v1/things/a%2F/", 200, "things.get", "a/", ""},
		"an encoded dot is text":              {"GET", "/api/v1/things/%2e%2e", 200, "things.get", "..", ""},
		"another case is another path":        {"POST", "/API/v1/things", 404, "", "", ""},
		"an overlong path is unknown":         {"GET", "/api/v1/things/" + long, 404, "", "", ""},
		"HEAD is served where GET is":         {"HEAD", "/api/v1/things", 200, "", "", ""},
		"a stream has no HEAD":                {"HEAD", "/api/v1/stream", 405, "", "", "GET"},
		"another method is not allowed":       {"DELETE", "/api/v1/things", 405, "", "", "GET, HEAD, POST"},
		"below a namespace too":               {"PUT", "/namespaces/a/api/v1/things/1", 405, "", "", "GET, HEAD"},
		"a method of nobody":                  {"BREW", "/api/v1/things/1/stop", 405, "", "", "POST"},
		"OPTIONS that is no preflight":        {"OPTIONS", "/api/v1/things/1", 405, "", "", "GET, HEAD"},
		"the root is unknown":                 {"GET", "/", 404, "", "", ""},
		"open routes have no namespace":       {"GET", "/namespaces/a/health", 404, "", "", ""},
		"nothing is aggregated unasked":       {"GET", "/apis", 404, "", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := newFixture(t).do(test.method, test.target, "")
			if answer.Code != test.wantStatus || answer.Header().Get("Allow") != test.wantAllow {
				t.Fatalf("answered %d, Allow %q: %s", answer.Code, answer.Header().Get("Allow"), answer.Body)
			}
			if answer.Header().Get("Location") != "" {
				t.Error("redirected")
			}
			if test.wantRoute != "" {
				got := decode(t, answer.Body.Bytes()).Result
				if diff := cmp.Diff([]string{test.wantRoute, test.wantPath}, []string{got.Route, got.Path}); diff != "" {
					t.Errorf("route and id (-want +got):\n%s", diff)
				}
			}
			if answer.Code >= 400 {
				got := decode(t, answer.Body.Bytes())
				want := map[int]string{404: "NOT_FOUND", 405: "UNKNOWN"}[answer.Code]
				if got.Status != "error" || got.Error.Code != want || got.Error.Message == "" {
					t.Errorf("answered %s", answer.Body)
				}
			}
		})
	}
}

func TestUnusualTargets(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"*", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RequestURI, r.URL.Path = target, target
		answer := newRecorder()
		f.Handler().ServeHTTP(answer, r)
		if answer.Code != http.StatusUnauthorized || answer.Header().Get("X-Request-ID") == "" {
			t.Errorf("OPTIONS %q is answered %d %s", target, answer.Code, answer.Body)
		}
	}
}

func TestUnknownPathsAreForCallersOnly(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"/nowhere", "/api/v1/things"} {
		if answer := f.do(http.MethodDelete, target, "", "Authorization", ""); answer.Code != http.StatusUnauthorized {
			t.Errorf("a stranger is answered %d for %s", answer.Code, target)
		}
	}
}

func TestTwoRoutesOfOnePlaceAreRefused(t *testing.T) {
	config := newFixture(t).config
	config.Routes = append(config.Routes, config.Routes[0])
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "things.create") {
		t.Errorf("New() = %v", err)
	}
}

// Whatever is sent, the answer has an id and an envelope and leads nowhere else.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/", "/api/v1/things/1", "//", "/%2e%2e/", "/namespaces/%00/api/v1/things", "/apis/x/v1/namespaces/a/things", "*", "/a?b#c"} {
		f.Add("GET", path)
	}
	server := newFixture(f, aggregated, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 1e9, 1e9; c.Logger = discard() })
	f.Fuzz(func(t *testing.T, method, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || strings.Contains(path, "/panic") || strings.Contains(path, "/wait") || strings.Contains(path, "/stream") {
			t.Skip()
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL, r.RequestURI = method, target, path
		r.Header.Set("Authorization", "Bearer ann")
		answer := newRecorder()
		server.Handler().ServeHTTP(answer, r)
		if answer.Header().Get("X-Request-ID") == "" || answer.Header().Get("Location") != "" {
			t.Errorf("%s %q is answered %d %v", method, path, answer.Code, answer.Header())
		}
		if answer.Code >= 400 && decode(t, answer.Body.Bytes()).Status != "error" {
			t.Errorf("%s %q is answered %s", method, path, answer.Body)
		}
	})
}
