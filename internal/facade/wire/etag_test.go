package wire_test

import (
	"net/http"
	"testing"

	"github.com/agentruntime/operator/internal/facade/wire"
)

func TestKnown(t *testing.T) {
	cases := map[string]struct {
		values []string
		want   bool
	}{
		"no condition":       {nil, false},
		"the tag":            {[]string{`"a"`}, true},
		"a weak one":         {[]string{`W/"a"`}, true},
		"one of a list":      {[]string{`"b", W/"a"`}, true},
		"in a second header": {[]string{`"b"`, `"a"`}, true},
		"another":            {[]string{`"b"`}, false},
		"without its quotes": {[]string{"a"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := wire.Known(http.Header{"If-None-Match": tc.values}, `"a"`); got != tc.want {
				t.Errorf("Known = %t", got)
			}
		})
	}
}
