package output

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestObjectKeepsOrderAndNumbers(t *testing.T) {
	const object = `{"z":12345678901234567890,"a":1.0,"e":1e2,"list":[{"k":"v"},[],{}],"text":"no","null":null,"yes":true,"1":"\ud83d\ude00\nline","":"- x: y"}`
	tests := map[Format]string{
		JSON: `{
  "z": 12345678901234567890,
  "a": 1.0,
  "e": 1e2,
  "list": [
    {
      "k": "v"
    },
    [],
    {}
  ],
  "text": "no",
  "null": null,
  "yes": true,
  "1": "\ud83d\ude00\nline",
  "": "- x: y"
}
`,
		YAML: `z: 12345678901234567890
a: 1.0
e: 1e2
list:
  - k: v
  - []
  - {}
text: "no"
"null": null
"yes": true
"1": "\U0001F600\nline"
"": '- x: y'
`,
	}
	for format, want := range tests {
		t.Run(string(format), func(t *testing.T) {
			var got bytes.Buffer
			if err := Object(&got, format, []byte(object)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"harmless ü":         "harmless ü",
		"two\nlines\ttab":    "two lines tab",
		"\x1b[2Jcleared\x07": "[2Jcleared",
		"right\u202eleft":    "rightleft",
		"bad \xff byte":      "bad  byte",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Unix(1000000, 0)
	for want, then := range map[string]time.Time{"<unknown>": {}, "90s": now.Add(-90 * time.Second), "0s": now.Add(time.Hour)} {
		if got := Age(now, then); got != want {
			t.Errorf("%v: %s, want %s", then, got, want)
		}
	}
}
