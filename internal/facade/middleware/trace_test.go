package middleware

import (
	"net/http"
	"strings"
	"testing"
)

func TestTraceParent(t *testing.T) {
	const (
		trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
		parent = "00f067aa0ba902b7"
		good   = "00-" + trace + "-" + parent + "-01"
	)
	tests := map[string]struct {
		sent []string
		want string
	}{
		"version 00 is kept":                         {[]string{good}, good},
		"a later version is passed on as version 00": {[]string{"01-" + trace + "-" + parent + "-01-more"}, good},
		"none begins a new trace":                    {nil, ""},
		"two begin a new trace":                      {[]string{good, good}, ""},
		"version ff is invalid":                      {[]string{"ff" + good[2:]}, ""},
		"version 00 has nothing appended":            {[]string{good + "-more"}, ""},
		"a later version needs a dash":               {[]string{"01" + good[2:] + "more"}, ""},
		"upper case is invalid":                      {[]string{strings.ToUpper(good)}, ""},
		"a zero trace id is invalid":                 {[]string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, ""},
		"a zero parent id is invalid":                {[]string{"00-" + trace + "-" + strings.Repeat("0", 16) + "-01"}, ""},
		"a short one is invalid":                     {[]string{good[:54]}, ""},
		"misplaced dashes are invalid":               {[]string{"00-" + trace[:31] + "-" + trace[31:] + parent + "-01"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := traceParent(http.Header{"Traceparent": test.sent})
			switch {
			case !validTraceParent(got):
				t.Errorf("traceParent() = %q, which is none", got)
			case test.want != "" && got != test.want:
				t.Errorf("traceParent() = %q, want %q", got, test.want)
			case test.want == "" && strings.Contains(got, trace):
				t.Errorf("traceParent() = %q, want a new trace", got)
			}
		})
	}
}
