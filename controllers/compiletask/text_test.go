package compiletask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

func TestMergeMembers(t *testing.T) {
	cases := map[string]struct{ base, over, want string }{
		"nothing":                    {``, ``, ``},
		"onto nothing":               {``, `{"a":1}`, `{"a":1}`},
		"nothing onto something":     {`{"a":1}`, `{}`, `{"a":1}`},
		"null onto something":        {`{"a":1}`, `null`, `{"a":1}`},
		"other members stay":         {`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		"the newer value counts":     {`{"a":1,"b":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		"shallow":                    {`{"a":{"x":1,"y":2}}`, `{"a":{"x":3}}`, `{"a":{"x":3}}`},
		"numbers keep their text":    {`{"a":12345678901234567890}`, `{"b":1.0}`, `{"a":12345678901234567890,"b":1.0}`},
		"a broken base is replaced":  {`[`, `{"b":2}`, `{"b":2}`},
		"a broken addition is left":  {`{"a":1}`, `[1]`, `{"a":1}`},
		"what is no object is taken": {``, `[1]`, `[1]`},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mergeMembers(json.RawMessage(test.base), json.RawMessage(test.over)); string(got) != test.want {
				t.Fatalf("merged %s, want %s", got, test.want)
			}
		})
	}
}

func TestContainsMembers(t *testing.T) {
	cases := map[string]struct {
		have, want string
		contains   bool
	}{
		"nothing in nothing":        {``, ``, true},
		"nothing in something":      {`{"a":1}`, `{}`, true},
		"something in nothing":      {``, `{"a":1}`, false},
		"the same":                  {`{"a":1}`, `{"a":1}`, true},
		"a part":                    {`{"a":1,"b":2}`, `{"b":2}`, true},
		"another value":             {`{"a":1}`, `{"a":2}`, false},
		"another order inside":      {`{"a":{"x":1,"y":2}}`, `{"a":{"y":2,"x":1}}`, true},
		"spaces":                    {`{"a":[1,2]}`, `{ "a" : [1, 2] }`, true},
		"a member with a null":      {`{}`, `{"a":null}`, false},
		"an addition without sense": {`{"a":1}`, `[`, true},
		"a base without sense":      {`[`, `{"a":1}`, false},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := containsMembers(json.RawMessage(test.have), json.RawMessage(test.want)); got != test.contains {
				t.Fatalf("contains %v, want %v", got, test.contains)
			}
		})
	}
}

func FuzzMergeMembers(f *testing.F) {
	for _, seed := range [][2]string{{`{"a":1}`, `{"b":2}`}, {``, `{"a":null}`}, {`[]`, `{"":{}}`}, {`{"a":1,"a":2}`, `{"a":3}`}, {`nul`, ` {} `}} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, base, over []byte) {
		merged := mergeMembers(base, over)
		var members map[string]json.RawMessage
		if json.Unmarshal(over, &members) != nil || len(members) == 0 {
			if !bytes.Equal(merged, base) && !bytes.Equal(merged, over) {
				t.Fatalf("%q and %q made %q", base, over, merged)
			}
			return
		}
		if !json.Valid(merged) {
			t.Fatalf("%q and %q made %q, which is no JSON", base, over, merged)
		}
		if !containsMembers(merged, over) {
			t.Fatalf("%q does not hold what %q said", merged, over)
		}
		if again := mergeMembers(merged, over); !sameJSON(again, merged) {
			t.Fatalf("merging again made %q of %q", again, merged)
		}
	})
}

func TestSummarize(t *testing.T) {
	many := `["` + strings.Repeat(`w","`, 19) + `w"]`
	cases := map[string]struct {
		result string
		want   v1alpha1.ResultSummary
	}{
		"everything": {
			`{"created":["a","b"],"updated":["c"],"unchanged":["d","e","f"],"page_count":6,"link_count":9,"warnings":["x"]}`,
			v1alpha1.ResultSummary{Created: 2, Updated: 1, Unchanged: 3, PageCount: 6, LinkCount: 9, Warnings: []string{"x"}, WarningCount: 1},
		},
		"nothing":                       {`{}`, v1alpha1.ResultSummary{}},
		"one odd type hides no other":   {`{"created":3,"updated":["c"],"page_count":"many","link_count":2}`, v1alpha1.ResultSummary{Updated: 1, LinkCount: 2}},
		"counts without sense":          {`{"page_count":-1,"link_count":1e30}`, v1alpha1.ResultSummary{}},
		"a fraction is no count":        {`{"page_count":1.5}`, v1alpha1.ResultSummary{}},
		"warnings that are no text":     {`{"warnings":[1,"x",{}]}`, v1alpha1.ResultSummary{Warnings: []string{"x"}, WarningCount: 3}},
		"the first warnings, all count": {`{"warnings":` + many + `}`, v1alpha1.ResultSummary{Warnings: strings.Split(strings.Repeat("w", maxWarnings), ""), WarningCount: 20}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			test.want.ResultBytes = int64(len(test.result))
			if diff := cmp.Diff(&test.want, summarize(json.RawMessage(test.result))); diff != "" {
				t.Fatalf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// requireValidSummary holds a summary to the bounds of its schema.
func requireValidSummary(t *testing.T, s *v1alpha1.ResultSummary) {
	t.Helper()
	for name, n := range map[string]int64{
		"created": int64(s.Created), "updated": int64(s.Updated), "unchanged": int64(s.Unchanged), "pages": int64(s.PageCount),
		"links": int64(s.LinkCount), "warnings": int64(s.WarningCount), "bytes": s.ResultBytes,
	} {
		if n < 0 {
			t.Fatalf("%s is %d", name, n)
		}
	}
	if len(s.Warnings) > 16 {
		t.Fatalf("%d warnings", len(s.Warnings))
	}
	for _, warning := range s.Warnings {
		if utf8.RuneCountInString(warning) > 1024 {
			t.Fatalf("a warning of %d characters", utf8.RuneCountInString(warning))
		}
	}
}

func FuzzSummarize(f *testing.F) {
	for _, seed := range []string{`{}`, `{"created":[1,null]}`, `{"page_count":1e400}`, `{"warnings":["\ud800"]}`, `[`, `{"link_count":2147483648}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) { requireValidSummary(t, summarize(result)) })
}

func TestClip(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short":                   {"abc", 3, "abc"},
		"cut":                     {"abcd", 3, "abc"},
		"not inside a character":  {"aé", 2, "a"},
		"nothing fits":            {"é", 1, ""},
		"a wide character":        {"a😀b", 4, "a"},
		"what is no UTF-8 at all": {"\x80\x80\x80", 2, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := clip(test.text, test.limit); got != test.want {
				t.Fatalf("clip made %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzClip(f *testing.F) {
	f.Add("aé😀", 3)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 {
			t.Skip()
		}
		got := clip(text, limit)
		if len(got) > limit || !strings.HasPrefix(text, got) {
			t.Fatalf("clip(%q, %d) = %q", text, limit, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("clip cut a character: %q", got)
		}
	})
}

func TestTaskErrorFitsItsSchema(t *testing.T) {
	wide := executor.Redact(strings.Repeat("界", 600))
	cases := map[string]struct {
		err  *runtimeapi.Error
		want v1alpha1.TaskError
	}{
		"none":                        {nil, v1alpha1.TaskError{Code: "UNKNOWN", Message: "External task failed"}},
		"empty":                       {&runtimeapi.Error{}, v1alpha1.TaskError{Code: "UNKNOWN", Message: "External task failed"}},
		"whole":                       {&runtimeapi.Error{Code: "A", Message: "b"}, v1alpha1.TaskError{Code: "A", Message: "b"}},
		"a cut message of any tongue": {&runtimeapi.Error{Code: "A", Message: wide}, v1alpha1.TaskError{Code: "A", Message: wide}},
		"a message without end":       {&runtimeapi.Error{Code: "A", Message: strings.Repeat("x", 5000)}, v1alpha1.TaskError{Code: "A", Message: strings.Repeat("x", 1024)}},
		"a code without end":          {&runtimeapi.Error{Code: strings.Repeat("A", 500), Message: "b"}, v1alpha1.TaskError{Code: strings.Repeat("A", 128), Message: "b"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(&test.want, taskError(test.err)); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryDelayDoublesAndIsBounded(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 200 * time.Millisecond, 1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 5: 3200 * time.Millisecond,
		8: 25600 * time.Millisecond, 9: 30 * time.Second, 1 << 30: 30 * time.Second,
	} {
		for range 100 {
			got := retryDelay(failures, 0)
			if got < want*9/10 || got > want*11/10 {
				t.Fatalf("after %d failures %s, want %s within a tenth", failures, got, want)
			}
		}
	}
	if got := retryDelay(1, time.Minute); got != time.Minute {
		t.Fatalf("with Retry-After of a minute: %s", got)
	}
	if got := retryDelay(9, time.Second); got < 27*time.Second {
		t.Fatalf("a short Retry-After shortens the wait to %s", got)
	}
}

func TestFollowingAlwaysMovesForward(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 1500, time.UTC)
	micro := func(d time.Duration) metav1.MicroTime {
		return metav1.MicroTime{Time: now.Truncate(time.Microsecond).Add(d)}
	}
	cases := map[string]struct {
		previous *metav1.MicroTime
		want     metav1.MicroTime
	}{
		"the first":                 {nil, micro(0)},
		"later":                     {ptrTo(micro(-time.Hour)), micro(0)},
		"in the same microsecond":   {ptrTo(micro(0)), micro(time.Microsecond)},
		"after a step of the clock": {ptrTo(micro(time.Hour)), micro(time.Hour + time.Microsecond)},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := following(test.previous, now); !got.Time.Equal(test.want.Time) {
				t.Fatalf("following %v: %v, want %v", test.previous, got, test.want)
			}
		})
	}
}

func ptrTo[T any](v T) *T { return &v }
