package executor

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	kubejson "k8s.io/apimachinery/pkg/util/json"
)

func nested(levels int) string {
	return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
}

func TestStorable(t *testing.T) {
	t.Parallel()
	digits := func(n int) string { return strings.Repeat("9", n) }
	tests := map[string]struct {
		in, want string
		wantErr  error
	}{
		"an object stays byte for byte":        {in: ` {"b" : [1, 2.50, null, true, "x,{\"}"], "a":{"b":{}} } `, want: ` {"b" : [1, 2.50, null, true, "x,{\"}"], "a":{"b":{}} } `},
		"the same name in two objects":         {in: `{"a":{"x":1},"x":[{"a":1},{"a":2}]}`, want: `{"a":{"x":1},"x":[{"a":1},{"a":2}]}`},
		"a name that is a value too":           {in: `{"a":"b","b":"a"}`, want: `{"a":"b","b":"a"}`},
		"the last of equal names":              {in: `{"a":1,"b":"<&>","a":{"c":2}}`, want: `{"a":{"c":2},"b":"<&>"}`},
		"the last of equal names, deep":        {in: `[{"a":[{"x":1,"y":2,"x":3}]}]`, wantErr: errNotObject},
		"the last of equal names, inside":      {in: `{"a":[{"x":1,"y":2,"x":3.0}]}`, want: `{"a":[{"x":3.0,"y":2}]}`},
		"names equal once unescaped":           {in: `{"a":1,"\u0061":2}`, want: `{"a":2}`},
		"names equal once made UTF-8":          {in: "{\"\xff\":1,\"\xfe\":2}", want: "{\"\ufffd\":2}"},
		"bytes that are not UTF-8":             {in: "{\"a\":\"x\xffy\"}", want: "{\"a\":\"x\ufffdy\"}"},
		"half a surrogate pair":                {in: `{"a":"\ud800"}`, want: `{"a":"\ud800"}`},
		"64 levels":                            {in: nested(64), want: nested(64)},
		"65 levels":                            {in: nested(65), wantErr: errTooDeep},
		"a million levels":                     {in: strings.Repeat(`{"a":`, 1_000_000), wantErr: errTooDeep},
		"brackets in a string are no levels":   {in: `{"a":"` + strings.Repeat("[", 100) + `"}`, want: `{"a":"` + strings.Repeat("[", 100) + `"}`},
		"the largest float":                    {in: `{"a":1.7976931348623157e308}`, want: `{"a":1.7976931348623157e308}`},
		"beyond the largest float":             {in: `{"a":[-1.8E308]}`, wantErr: errOutOfRange},
		"1e999":                                {in: `{"a":{"b":1e999}}`, wantErr: errOutOfRange},
		"1e999 that a later member would hide": {in: `{"a":1e999,"a":1}`, wantErr: errOutOfRange},
		"too small for a float is 0":           {in: `{"a":1e-999}`, want: `{"a":1e-999}`},
		"an integer beyond 64 bits":            {in: `{"a":12345678901234567890}`, want: `{"a":12345678901234567890}`},
		"308 digits":                           {in: `{"a":` + digits(308) + `}`, want: `{"a":` + digits(308) + `}`},
		"309 digits":                           {in: `{"a":` + digits(309) + `}`, wantErr: errOutOfRange},
		"many digits of a small number":        {in: `{"a":0.` + digits(5000) + `}`, want: `{"a":0.` + digits(5000) + `}`},
		"an exponent in a string":              {in: `{"1e999":"1e999"}`, want: `{"1e999":"1e999"}`},
		"an array":                             {in: `[1]`, wantErr: errNotObject},
		"null":                                 {in: `null`, wantErr: errNotObject},
		"nothing":                              {in: ``, wantErr: errNotObject},
		"two objects":                          {in: `{} {}`, wantErr: errNotObject},
		"half an object":                       {in: `{"a":"`, wantErr: errNotObject},
		"an escape at the end":                 {in: `{"a":"\`, wantErr: errNotObject},
		"closed too often":                     {in: `{}}`, wantErr: errNotObject},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Storable(json.RawMessage(tc.in))
			if string(got) != tc.want || err != tc.wantErr { //nolint:errorlint // it is not wrapped
				t.Errorf("Storable = %s, %v; want %s, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestStorableCopiesNothingThatIsFine(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"created":["a/b.md","c.md"],"page_count":2,"warnings":[{"code":"X","n":1.5e3}]}`)
	got, err := Storable(raw)
	if err != nil || &got[0] != &raw[0] || len(got) != len(raw) {
		t.Errorf("Storable = %s, %v; want the same bytes", got, err)
	}
}

func FuzzStorable(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0,2.5e3,"x\"",null,true],"b":{"c":{}}}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":{"a":1,"a":[]}}`,
		"{\"\xff\":1,\"\xfe\":2}", `{"a":1e999}`, `{"a":12345678901234567890}`, nested(64), nested(65), `[{}]`, `{"a":"\ud800"}`, `{"":0,"":1e5}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		got, err := Storable(raw)
		if string(raw) != before {
			t.Fatal("Storable changed its argument")
		}
		var want map[string]any
		wantErr := kubejson.Unmarshal(raw, &want)
		if err != nil {
			if wantErr == nil && want != nil && err != errTooDeep { //nolint:errorlint // it is not wrapped
				t.Fatalf("Storable refuses with %v what the API server reads", err)
			}
			return
		}
		if wantErr != nil || !utf8.Valid(got) {
			t.Fatalf("Storable passes %q, which the API server refuses: %v", got, wantErr)
		}
		var stored map[string]any
		if err := kubejson.Unmarshal(got, &stored); err != nil || stored == nil {
			t.Fatalf("the API server refuses %q: %v", got, err)
		}
		// cmp's work doubles with each level of nesting.
		if !reflect.DeepEqual(want, stored) {
			t.Fatalf("stored %q, want what %q reads as", got, raw)
		}
		encoded, err := kubejson.Marshal(stored)
		if err != nil {
			t.Fatalf("encode %q: %v", got, err)
		}
		var again map[string]any
		if err := kubejson.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("the API server refuses its own %q: %v", encoded, err)
		}
		if twice, err := Storable(got); err != nil || string(twice) != string(got) {
			t.Fatalf("a second time = %q, %v; want %q", twice, err, got)
		}
	})
}
