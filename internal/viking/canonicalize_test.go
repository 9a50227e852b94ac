package viking

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testTime is in the last ISO week of 2026 by UTC, and in 2027 by the calendar;
// where the zone is east of it, it is already the next day.
var testTime = time.Date(2027, time.January, 3, 8, 30, 0, 0, time.FixedZone("east", 9*3600))

const (
	goodTo    = "viking://resources/wiki"
	goodSkill = "viking://agent/skills/wiki"
)

var goodFrom = []string{"viking://resources/research"}

func TestExpandVariables(t *testing.T) {
	cases := map[string]string{
		"plain":                        "plain",
		"{calendar:today}":             "2027/01/02",
		"{calendar:yesterday}":         "2027/01/01",
		"{calendar:tomorrow}":          "2027/01/03",
		"{calendar:year}":              "2027",
		"{calendar:month}":             "01",
		"{calendar:day}":               "02",
		"{calendar:ym}":                "2027/01",
		"{calendar:quarter}":           "Q1",
		"{calendar:yq}":                "2027/Q1",
		"{calendar:week}":              "53",
		"{calendar:yw}":                "2026/w53",
		"a/{calendar:ym}/{calendar:d}": "",
		"{calendar:today":              "",
		"{calendar:}":                  "",
		"{calendar:TODAY}":             "",
		"{calendar:{calendar:year}}":   "",
		"{other} {} }{":                "{other} {} }{",
		"x{calendar:month}-{calendar:day}y{calendar:year}": "x01-02y2027",
	}
	for raw, want := range cases {
		t.Run(raw, func(t *testing.T) {
			got, err := ExpandVariables(raw, testTime)
			if (err != nil) != (want == "") || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	t.Run("the other quarters", func(t *testing.T) {
		for month, want := range map[time.Month]string{time.March: "Q1", time.April: "Q2", time.September: "Q3", time.December: "Q4"} {
			got, err := ExpandVariables("{calendar:quarter}", time.Date(2026, month, 5, 0, 0, 0, 0, time.UTC))
			if err != nil || got != want {
				t.Errorf("%s is in %q, %v, want %s", month, got, err, want)
			}
		}
	})
}

func TestCanonicalizeAccepts(t *testing.T) {
	cases := map[string]struct {
		req  Request
		want Canonical
	}{
		"canonical text stays": {
			req:  Request{From: goodFrom, To: goodTo, Skill: goodSkill},
			want: Canonical{From: goodFrom, To: goodTo, Skill: goodSkill},
		},
		"everything is trimmed": {
			req:  Request{From: []string{" viking://resources/research// "}, To: "\tviking://resources//wiki/", Skill: " viking://agent/skills/wiki/SKILL.md/ "},
			want: Canonical{From: goodFrom, To: goodTo, Skill: goodSkill},
		},
		"duplicates go, the order stays": {
			req: Request{
				From: []string{"viking://resources/b", "viking://~/memories", "viking://resources/b/", "viking://resources//b", "viking://user/ann/memories", "viking://resources/a"},
				To:   goodTo, Skill: goodSkill,
			},
			want: Canonical{From: []string{"viking://resources/b", "viking://user/ann/memories", "viking://resources/a"}, To: goodTo, Skill: goodSkill},
		},
		"aliases and variables are resolved": {
			req: Request{
				From: []string{"viking://session/s1", "viking://resources/log/{calendar:yesterday}"},
				To:   "viking://~/resources/weekly/{calendar:yw}", Skill: "viking://~/skills/report/SKILL.md",
			},
			want: Canonical{
				From: []string{"viking://user/ann/sessions/s1", "viking://resources/log/2027/01/01"},
				To:   "viking://user/ann/resources/weekly/2026/w53", Skill: "viking://user/ann/skills/report",
			},
		},
		"a target may be its own source": {
			req:  Request{From: []string{goodTo}, To: goodTo, Skill: goodSkill},
			want: Canonical{From: []string{goodTo}, To: goodTo, Skill: goodSkill},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := Canonicalize(tc.req, Caller{User: "ann"}, testTime)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("canonical (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCanonicalizeListsEveryFault(t *testing.T) {
	req := Request{
		From: []string{"viking://user/bob/memories", "viking://resources/a", "", "/", "viking://resources/{calendar:x}", "viking://temp/a"},
		To:   "viking://resources", Skill: "viking://agent/skills",
	}
	got, faults := Canonicalize(req, Caller{User: "ann"}, testTime)
	if diff := cmp.Diff(Canonical{}, got); diff != "" {
		t.Errorf("a request with faults has a canonical form:\n%s", diff)
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, fmt.Sprintf("%s %s %s", f.Field, f.Code, f))
	}
	want := []string{
		"from[0] PERMISSION_DENIED Access denied: viking://user/bob/memories (it is not the caller's own tree)",
		"from[2] INVALID_URI Invalid URI:  (from[2] must not be empty)",
		"from[4] INVALID_URI Invalid URI: viking://resources/{calendar:x} (from[4] cannot be expanded: path variable {calendar:x} is unknown)",
		`from[5] INVALID_URI Invalid URI: viking://temp/a (from[5] uses the internal scope "temp")`,
		"to INVALID_ARGUMENT Compile target must be inside a resource directory",
		"skill INVALID_ARGUMENT skill must resolve to a Skill directory or SKILL.md",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestCanonicalizeBoundsSources(t *testing.T) {
	many := make([]string, MaxSources+1)
	for i := range many {
		many[i] = fmt.Sprintf("viking://resources/%d", i)
	}
	cases := map[string]struct {
		from    []string
		wantErr string
	}{
		"none":         {from: nil, wantErr: "from must have at least one item"},
		"the most":     {from: many[:MaxSources]},
		"one too many": {from: many, wantErr: "from must not have more than 64 items"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := Canonicalize(Request{From: tc.from, To: goodTo, Skill: goodSkill}, Caller{}, testTime)
			if tc.wantErr == "" {
				if len(faults) > 0 || len(got.From) != len(tc.from) {
					t.Errorf("got %d sources, %v", len(got.From), faults)
				}
				return
			}
			want := []*FieldError{{Field: "from", Code: CodeInvalidArgument, Reason: tc.wantErr}}
			if diff := cmp.Diff(want, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCanonicalizeRefusesLongTextBeforeExpanding(t *testing.T) {
	long := "viking://resources/" + strings.Repeat("{calendar:year}", 300)
	_, faults := Canonicalize(Request{From: goodFrom, To: long, Skill: goodSkill}, Caller{}, testTime)
	if len(faults) != 1 || !strings.Contains(faults[0].Reason, "longer than 4096 bytes") {
		t.Errorf("faults %v, want one about the length", faults)
	}
}

func TestFirstFollowsTheOrderOfEvaluation(t *testing.T) {
	denied := &FieldError{Field: "from[0]", Code: CodePermissionDenied}
	shapeTo := &FieldError{Field: "to", Code: CodeInvalidArgument}
	shapeSkill := &FieldError{Field: "skill", Code: CodeInvalidArgument}
	grammar := &FieldError{Field: "to", Code: CodeInvalidURI}
	cases := map[string]struct {
		faults []*FieldError
		want   *FieldError
	}{
		"none":                         {},
		"grammar before all":           {faults: []*FieldError{denied, shapeTo, grammar, shapeSkill}, want: grammar},
		"skill shape before target's":  {faults: []*FieldError{denied, shapeTo, shapeSkill}, want: shapeSkill},
		"permission when nothing else": {faults: []*FieldError{denied}, want: denied},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := First(tc.faults); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
