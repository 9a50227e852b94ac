package middleware

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCORS(t *testing.T) {
	const origin = "https://app.example.com"
	tests := map[string]struct {
		allowed    []string
		origin     string
		preflight  bool
		wantOrigin string
		wantVary   bool
		wantStatus int
	}{
		"an allowed page may read answers":  {[]string{origin}, origin, false, origin, true, 200},
		"an allowed page may ask first":     {[]string{origin}, origin, true, origin, true, 204},
		"another page may not":              {[]string{origin}, "https://evil.example.com", true, "", true, 204},
		"a longer name is another page":     {[]string{origin}, origin + ".evil.com", false, "", true, 200},
		"without origins nobody may":        {nil, origin, true, "", true, 204},
		"everybody may when all are listed": {[]string{"*"}, origin, true, "*", false, 204},
		"no origin is no page":              {[]string{origin}, "", false, "", true, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cors, err := NewCORS(test.allowed)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if test.preflight {
				r.Method = http.MethodOptions
				r.Header.Set("Access-Control-Request-Method", "POST")
			}
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			answer := httptest.NewRecorder()
			cors.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(answer, r)
			header := answer.Header()
			if answer.Code != test.wantStatus || header.Get("Access-Control-Allow-Origin") != test.wantOrigin {
				t.Errorf("answered %d %v", answer.Code, header)
			}
			if got := strings.Contains(strings.Join(header.Values("Vary"), ","), "Origin"); got != test.wantVary {
				t.Errorf("Vary is %q", header.Values("Vary"))
			}
			exposed := header.Get("Access-Control-Expose-Headers")
			if (exposed != "") != (test.wantOrigin != "") || exposed != "" && !strings.Contains(exposed, "X-Request-ID") {
				t.Errorf("exposes %q", exposed)
			}
			if got := header.Get("Access-Control-Allow-Headers"); (got != "") != (test.preflight && test.wantOrigin != "") {
				t.Errorf("allows the headers %q", got)
			}
			if header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("allows credentials that a browser adds by itself")
			}
		})
	}
}

func TestNewCORSRefuses(t *testing.T) {
	for _, origin := range []string{"", "app.example.com", "https://", "https://app.example.com/", "https://a/b", "null"} {
		if _, err := NewCORS([]string{origin}); err == nil {
			t.Errorf("NewCORS(%q) accepts it", origin)
		}
	}
}
