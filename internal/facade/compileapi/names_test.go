package compileapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestRepeatedName(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want bool
	}{
		"no object":                                  {`["a","a",1,null]`, false},
		"a lone string":                              {`"a"`, false},
		"an empty object":                            {`{}`, false},
		"different names":                            {`{"a":1,"b":2}`, false},
		"the same name twice":                        {`{"a":1,"a":2}`, true},
		"the same empty name twice":                  {`{"":1,"":2}`, true},
		"the same name with another between":         {`{"a":1,"b":{"c":[{}]},"a":2}`, true},
		"an escaped spelling of the same name":       {`{"a":1,"\u0061":2}`, true},
		"an escaped quote that ends no name":         {`{"a\"":1,"a":2}`, false},
		"names that end in a backslash":              {`{"a\\":1,"a\\":2}`, true},
		"an escaped pair and the character itself":   {`{"\ud83d\ude00":1,"😀":2}`, true},
		"space before the colon":                     {"{\"a\" \t\r\n:1,\"a\":2}", true},
		"a name that is a value too":                 {`{"a":"b","b":"a"}`, false},
		"the same values":                            {`{"a":"x","b":"x","c":["x","x"]}`, false},
		"a value that looks like a name":             {`{"a":"a:","b":"\"a\":1"}`, false},
		"the same name in the object around":         {`{"a":{"a":{"a":1}}}`, false},
		"the same name in the object before":         {`{"x":{"a":1},"y":{"a":1}}`, false},
		"the same name in objects of a list":         {`[{"a":1},{"a":1}]`, false},
		"twice in an object of a list":               {`{"x":[1,{"a":1,"b":"}","a":2}]}`, true},
		"twice around an object that has it as well": {`{"a":1,"b":{"a":1},"a":2}`, true},
		"brackets within strings":                    {`{"]}":"[{","[{":"}]"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(tc.body)) {
				t.Fatal("the case is no JSON")
			}
			if got := repeatedName([]byte(tc.body)); got != tc.want {
				t.Errorf("repeatedName(%s) = %v, want %v", tc.body, got, tc.want)
			}
		})
	}
}

// FuzzRepeatedName has any valid JSON judged as encoding/json's own tokens do.
func FuzzRepeatedName(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":{"\u0061":[]}}," :"]`, `{"x":[{"a" : 1,"\ud83d\ude00":2}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<12 || !json.Valid(body) || scanJSON(body) != nil {
			return
		}
		if got, want := repeatedName(body), repeatedToken(t, body); got != want {
			t.Errorf("repeatedName(%q) = %v, want %v", body, got, want)
		}
	})
}

// repeatedToken is the plain way to tell: an object at a time.
func repeatedToken(t *testing.T, body []byte) bool {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value func() bool
	value = func() bool {
		token, err := decoder.Token()
		if err != nil {
			t.Fatalf("read a token of %q: %v", body, err)
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return false
		}
		repeated, names := false, map[string]bool{}
		for decoder.More() {
			if delim == '{' {
				token, _ := decoder.Token()
				name, _ := token.(string)
				repeated = repeated || names[name]
				names[name] = true
			}
			repeated = value() || repeated
		}
		_, _ = decoder.Token()
		return repeated
	}
	return value()
}

func BenchmarkRepeatedName(b *testing.B) {
	for name, body := range map[string]string{
		"small values": `{"x":[` + strings.Repeat(`[],`, MaxBodyBytes/3-8) + `1]}`,
		"small names":  `{"x":[` + strings.Repeat(`{"a":1},`, MaxBodyBytes/8-8) + `1]}`,
		"one string":   `{"x":"` + strings.Repeat(`x`, MaxBodyBytes-16) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if repeatedName([]byte(body)) {
					b.Fatal("it has a name twice")
				}
			}
		})
	}
}
