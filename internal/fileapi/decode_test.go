package fileapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntriesInEveryKnownForm(t *testing.T) {
	cases := map[string]struct {
		body string
		want []Entry
		bad  bool
	}{
		"the documented form": {
			body: `{"status":"ok","result":[{"name":"docs","size":4096,"mode":16877,"modTime":"2024-01-01T00:00:00Z","isDir":true,"uri":"viking://resources/docs/"}],"time":0.1}`,
			want: []Entry{{Name: "docs", URI: "viking://resources/docs/", IsDir: true, Size: 4096}},
		},
		"agent output": {
			body: `{"status":"ok","result":[{"uri":"viking://resources/a.md","size":1,"isDir":false,"abstract":"","rel_path":"a.md"}],"error":null,"telemetry":null}`,
			want: []Entry{{URI: "viking://resources/a.md", RelPath: "a.md", Size: 1}},
		},
		"the older spelling":            {body: `{"status":"ok","result":[{"name":"d","is_dir":true}]}`, want: []Entry{{Name: "d", IsDir: true}}},
		"a type":                        {body: `{"status":"ok","result":[{"type":"directory"},{"type":"file","size":2.0}]}`, want: []Entry{{IsDir: true}, {Size: 2}}},
		"an object around the list":     {body: `{"status":"ok","result":{"entries":[{"isDir":false}]}}`, want: []Entry{{}}},
		"an empty list":                 {body: `{"status":"ok","result":[]}`, want: []Entry{}},
		"a negative and a huge size":    {body: `{"status":"ok","result":[{"isDir":false,"size":-1},{"isDir":false,"size":1e300}]}`, want: []Entry{{}, {}}},
		"no list":                       {body: `{"status":"ok","result":null}`, bad: true},
		"strings":                       {body: `{"status":"ok","result":["a.md"]}`, bad: true},
		"an entry that is of no kind":   {body: `{"status":"ok","result":[{"name":"x"}]}`, bad: true},
		"an entry of an unknown kind":   {body: `{"status":"ok","result":[{"type":"socket"}]}`, bad: true},
		"an object that holds no list":  {body: `{"status":"ok","result":{"count":3}}`, bad: true},
		"an object that holds a number": {body: `{"status":"ok","result":{"entries":3}}`, bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer, err := Decode([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := answer.Entries()
			if (err != nil) != tc.bad {
				t.Fatalf("Entries: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnvelopes(t *testing.T) {
	cases := map[string]struct {
		body string
		want Answer
		bad  bool
	}{
		"an error":              {body: `{"status":"error","result":null,"error":{"code":"NOT_FOUND","message":"x","details":{}}}`, want: Answer{Status: "error", Code: "NOT_FOUND"}},
		"an error that is text": {body: `{"status":"error","error":"no"}`, want: Answer{Status: "error"}},
		"the executor's error":  {body: `{"detail":{"code":"X","message":"m"},"error":{"code":"X","message":"m"}}`, want: Answer{Code: "X"}},
		"more, and left out":    {body: `{"status":"ok","has_more":true,"skipped":2}`, want: Answer{Status: "ok", HasMore: true, Skipped: 2}},
		"nulls":                 {body: `{"status":"ok","has_more":null,"skipped":-3}`, want: Answer{Status: "ok"}},
		"a framework's error":   {body: `{"detail":"Not Found"}`, bad: true},
		"no JSON":               {body: `<html>`, bad: true},
		"half an answer":        {body: `{"status":"ok","result":[{"isDir":`, bad: true},
		"nothing":               {body: ``, bad: true},
		"an array":              {body: `[]`, bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.body))
			if (err != nil) != tc.bad {
				t.Fatalf("Decode: %v", err)
			}
			got.Result = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTextAndEntryAreWhatTheySay(t *testing.T) {
	for result, want := range map[string]string{`"a\nb"`: "a\nb", `""`: ""} {
		if got, err := (Answer{Result: []byte(result)}).Text(); err != nil || got != want {
			t.Errorf("Text of %s = %q, %v", result, got, err)
		}
	}
	for _, result := range []string{``, `null`, `3`, `{}`, `["a"]`} {
		if _, err := (Answer{Result: []byte(result)}).Text(); err == nil {
			t.Errorf("Text of %s is taken", result)
		}
	}
	for _, result := range []string{``, `null`, `[]`, `"x"`, `{}`, `{"isDir":"yes"}`} {
		if _, err := (Answer{Result: []byte(result)}).Entry(); err == nil {
			t.Errorf("Entry of %s is taken", result)
		}
	}
}
