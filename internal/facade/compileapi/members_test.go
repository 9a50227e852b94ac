package compileapi

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembersOf(t *testing.T) {
	type want struct {
		Members map[string]json.RawMessage
		Names   []string
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, tc := range map[string]struct {
		body string
		want want
	}{
		"no object":       {`["a"]`, want{}},
		"a lone string":   {` "{}"`, want{}},
		"null":            {`null`, want{}},
		"an empty object": {` { } `, want{Members: map[string]json.RawMessage{}}},
		"values of every kind": {`{"s":"x,}","n":-1.5e3,"w":true,"o":{"a":[1]},"l":[{},"]"],"z":null}`, want{
			Members: map[string]json.RawMessage{
				"s": raw(`"x,}"`), "n": raw(`-1.5e3`), "w": raw(`true`), "o": raw(`{"a":[1]}`), "l": raw(`[{},"]"]`), "z": raw(`null`),
			},
			Names: []string{"s", "n", "w", "o", "l", "z"},
		}},
		"space wherever it may be": {"\n{ \"a\" :\t1 , \"b\"\r\n: { \"c\" : 2 } , \"d\" : [ ] }\n", want{
			Members: map[string]json.RawMessage{"a": raw(`1`), "b": raw(`{ "c" : 2 }`), "d": raw(`[ ]`)},
			Names:   []string{"a", "b", "d"},
		}},
		"escaped names": {`{"\u0061\"":1,"\\":"\\"}`, want{
			Members: map[string]json.RawMessage{`a"`: raw(`1`), `\`: raw(`"\\"`)},
			Names:   []string{`a"`, `\`},
		}},
		"an empty name": {`{"":0}`, want{Members: map[string]json.RawMessage{"": raw(`0`)}, Names: []string{""}}},
	} {
		t.Run(name, func(t *testing.T) {
			members, names := membersOf([]byte(tc.body))
			if diff := cmp.Diff(tc.want, want{members, names}); diff != "" {
				t.Errorf("membersOf(%s) (-want +got):\n%s", tc.body, diff)
			}
		})
	}
}

// FuzzMembersOf has any valid JSON split as encoding/json does.
func FuzzMembersOf(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":{"c":[]}}`, `[1]`, ` { "\u0061" : "}" , "b" : -1e9 } `, `{"x":[{"a" : 1}],"y":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<12 || !json.Valid(body) || scanJSON(body) != nil {
			return
		}
		wantMembers, wantNames := decodedMembers(body)
		members, names := membersOf(body)
		if diff := cmp.Diff(wantMembers, members) + cmp.Diff(wantNames, names); diff != "" {
			t.Errorf("membersOf(%q) (-want +got):\n%s", body, diff)
		}
	})
}

// decodedMembers is the plain way to split an object.
func decodedMembers(body []byte) (members map[string]json.RawMessage, names []string) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, nil
	}
	members = map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return nil, nil
		}
		members[name] = value
		names = append(names, name)
	}
	return members, names
}
