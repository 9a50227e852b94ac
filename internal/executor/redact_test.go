package executor

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const oddSecret = `p@ss "w<rd>/+ü%`

func TestRedact(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text    string
		secrets []string
		want    string
	}{
		"harmless text stays":                {text: "skill not found: a/b.md", want: "skill not found: a/b.md"},
		"an OpenAI-like key goes":            {text: "key sk-abc.DEF_1-2, bad", want: "key [REDACTED], bad"},
		"a cr key goes":                      {text: "cr_abc", want: "[REDACTED]"},
		"a GitHub token goes":                {text: "(ghp_abc)", want: "([REDACTED])"},
		"a Notion token goes":                {text: "x=ntn_abc", want: "x=[REDACTED]"},
		"a Slack token goes":                 {text: "xoxb-1-2 xoxp-3", want: "[REDACTED] [REDACTED]"},
		"a bearer header goes":               {text: "Authorization: Bearer  a.b+c/d==", want: "Authorization: [REDACTED]"},
		"the end of a word is no key":        {text: "viking://resources/task-list/ocr_text", want: "viking://resources/task-list/ocr_text"},
		"an underscore does not hide a key":  {text: "my_sk-abc", want: "my_[REDACTED]"},
		"an exact secret goes":               {text: "no user hunter22 here", secrets: []string{"hunter22"}, want: "no user [REDACTED] here"},
		"a secret with a newline goes":       {text: "no user hunter22 here", secrets: []string{"hunter22\n"}, want: "no user [REDACTED] here"},
		"the longer of two secrets goes":     {text: "hunter22-long", secrets: []string{"hunter22", "hunter22-long"}, want: "[REDACTED]"},
		"short and empty values are left":    {text: "a no yes", secrets: []string{"", "no", "yes"}, want: "a no yes"},
		"a secret like the mark is left":     {text: "REDACTED", secrets: []string{"REDACTED"}, want: "REDACTED"},
		"a query-escaped secret goes":        {text: "?k=" + url.QueryEscape(oddSecret), secrets: []string{oddSecret}, want: "?k=[REDACTED]"},
		"a path-escaped secret goes":         {text: "/" + url.PathEscape(oddSecret), secrets: []string{oddSecret}, want: "/[REDACTED]"},
		"lower-case escapes go":              {text: strings.ToLower(url.QueryEscape("P@ss")), secrets: []string{"p@ss"}, want: "[REDACTED]"},
		"a JSON-escaped secret goes":         {text: `{"k":"p@ss \"w\u003crd\u003e/+ü%"}`, secrets: []string{oddSecret}, want: `{"k":"[REDACTED]"}`},
		"a plainly JSON-escaped secret goes": {text: `{"k":"p@ss \"w<rd>/+ü%"}`, secrets: []string{oddSecret}, want: `{"k":"[REDACTED]"}`},
		"a padded base64 secret goes":        {text: base64.StdEncoding.EncodeToString([]byte("hunter22")), secrets: []string{"hunter22"}, want: "[REDACTED]"},
		"a raw URL base64 secret goes":       {text: base64.RawURLEncoding.EncodeToString([]byte("??>>hunter")), secrets: []string{"??>>hunter"}, want: "[REDACTED]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Redact(tc.text, tc.secrets...)
			if got != tc.want {
				t.Errorf("Redact(%q) = %q, want %q", tc.text, got, tc.want)
			}
			if again := Redact(got, tc.secrets...); again != got {
				t.Errorf("second Redact = %q, want %q", again, got)
			}
		})
	}
}

func TestRedactFindsSecretInsideBase64(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	for _, user := range []string{"", "u", "us", "use", "user"} {
		encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
		got := Redact("Basic "+encoded, secret)
		if !strings.Contains(got, redacted) || strings.Contains(got, encoded) {
			t.Errorf("Redact of %q as Basic = %q, want the secret's part gone", user, got)
		}
	}
}

func TestNoFormOfASecretIsMuchShorter(t *testing.T) {
	t.Parallel()
	for n := minSecret; n <= 64; n++ {
		for _, form := range secretForms(strings.Repeat("a", n)) {
			if len(form) < n-4 {
				t.Errorf("a form of %d bytes for a secret of %d: Redact would miss it alone", len(form), n)
			}
			if got := Redact(form, strings.Repeat("a", n)); got != redacted {
				t.Errorf("Redact(%q) = %q", form, got)
			}
		}
	}
}

func TestRedactCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"500 characters stay":      {strings.Repeat("ü", 500), strings.Repeat("ü", 500)},
		"501 characters are cut":   {strings.Repeat("ü", 501), strings.Repeat("ü", 500) + "...[truncated]"},
		"bytes are not characters": {strings.Repeat("€", 400), strings.Repeat("€", 400)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Redact(tc.text)
			if got != tc.want || !utf8.ValidString(got) {
				t.Errorf("Redact = %d characters, want %d", utf8.RuneCountInString(got), utf8.RuneCountInString(tc.want))
			}
			if again := Redact(got); again != got {
				t.Error("a second Redact changed the text")
			}
		})
	}
}

func TestRedactLeavesNoHalfSecretAtTheCut(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	for lead := 480; lead <= 505; lead++ {
		if got := Redact(strings.Repeat("a ", lead/2)+secret, secret); strings.Contains(got, "correct") {
			t.Errorf("lead %d: %q shows a part of the secret", lead, got[len(got)-60:])
		}
	}
}

func TestRedactJSON(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		raw, want string
	}{
		"numbers keep their text": {
			raw:  `{"a":1.10,"b":12345678901234567890123,"c":1E+2,"d":-0}`,
			want: `{"a":1.10,"b":12345678901234567890123,"c":1E+2,"d":-0}`,
		},
		"strings at any depth are redacted": {
			raw:  `[{"a":[["x hunter22"]]},null,true,false,"sk-abc"]`,
			want: `[{"a":[["x [REDACTED]"]]},null,true,false,"[REDACTED]"]`,
		},
		"credential members are removed": {
			raw:  `{"api_key":{"x":[1]},"a":1,"USER_KEY":"x","b":{"user_key":null}}`,
			want: `{"a":1,"b":{}}`,
		},
		"keys are redacted and stay apart": {
			raw:  `{"hunter22":1,"x":2,"hunter22 hunter22":{"hunter22":3}}`,
			want: `{"[REDACTED]":1,"x":2,"[REDACTED] [REDACTED]#2":{"[REDACTED]":3}}`,
		},
		"an escaped secret is found": {
			raw:  `"\u0068unter22"`,
			want: `"[REDACTED]"`,
		},
		"a number that is a secret goes": {raw: `[20240607, 1]`, want: `["[REDACTED]",1]`},
		"markup is not escaped":          {raw: `"<a&b>"`, want: `"<a&b>"`},
		"empty containers stay":          {raw: ` { "a" : [ ] , "b" : { } } `, want: `{"a":[],"b":{}}`},
		"a bare value is fine":           {raw: `null`, want: `null`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := RedactJSON(json.RawMessage(tc.raw), "hunter22", "20240607")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("RedactJSON (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedactJSONDoesNotCutStrings(t *testing.T) {
	t.Parallel()
	raw := `"` + strings.Repeat("a", 4000) + `"`
	got, err := RedactJSON(json.RawMessage(raw))
	if err != nil || string(got) != raw {
		t.Errorf("RedactJSON = %d bytes, %v; want %d bytes", len(got), err, len(raw))
	}
}

func TestRedactJSONRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "{", `{"a":1} {}`, "nope", `{"a":01}`, strings.Repeat("[", 20000)} {
		if got, err := RedactJSON(json.RawMessage(raw), "secret"); err == nil {
			t.Errorf("RedactJSON(%.20q) = %q, want an error", raw, got)
		}
	}
}

func FuzzRedactJSON(f *testing.F) {
	f.Add(`{"a":["hunter22",1.0,{"api_key":1,"hunter22":null}]}`)
	f.Add(`[[],{},"\ud800",-0.0e-0]`)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := RedactJSON(json.RawMessage(raw), "hunter22")
		if err != nil {
			if json.Valid([]byte(raw)) {
				t.Fatalf("valid JSON refused: %v", err)
			}
			return
		}
		if !json.Valid(got) || strings.Contains(string(got), "hunter22") {
			t.Fatalf("RedactJSON(%q) = %q", raw, got)
		}
	})
}
