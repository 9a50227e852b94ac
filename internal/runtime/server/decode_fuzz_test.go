package server

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzDecodeCreate checks that whatever is accepted can be acted on.
func FuzzDecodeCreate(f *testing.F) {
	for _, seed := range []string{
		taskBody(wiki), `{}`, `[]`, `{"task_type":"compile","payload":{"args": {"a":1e400} }}`,
		`{"task_type":"compile","payload":{"from":["a"],"to":"b","skill":"c","instruction":null,"args": { } }}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) || !json.Valid(body) {
			t.Skip() // Refused before decoding.
		}
		p, err := decodeCreate(body)
		if err != nil {
			if asHTTPError(err).status != 422 {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(p.From) == 0 || p.To == "" || p.Skill == "" || (p.Args != nil && !isObject(p.Args)) {
			t.Errorf("accepted %+v", p)
		}
		if name, err := modelArgument(p.Args, nil); name != "" || (err != nil && asHTTPError(err).body.Code == "INTERNAL") {
			t.Errorf("model %q, %v", name, err)
		}
	})
}
