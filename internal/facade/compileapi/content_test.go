package compileapi

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestContentIsLookedUpBeforeATaskIsCreated(t *testing.T) {
	const (
		source, other = "viking://resources/a", "viking://resources/b"
		to, skill     = "viking://resources/w", "viking://agent/skills/s"
		skillFile     = skill + "/SKILL.md"
	)
	body := bodyOf(`"`+source+`","`+other+`"`, to, skill)
	good := files{source: "dir", other: "dir", to: "dir", skill: "dir", skillFile: "file"}
	cases := map[string]struct {
		change      files
		wantStatus  int
		wantCode    string
		wantMessage string
		wantDetails map[string]any
	}{
		"all as it should be":             {},
		"the target may be missing":       {change: files{to: ""}},
		"a source is missing":             {files{other: ""}, 404, "NOT_FOUND", other, map[string]any{"resource": other, "type": "directory"}},
		"a source is a file":              {files{source: "file"}, 400, "INVALID_ARGUMENT", "Compile source must be a directory: " + source, nil},
		"a source is closed to the user":  {files{source: "PERMISSION_DENIED"}, 403, "PERMISSION_DENIED", source, nil},
		"the skill is missing":            {files{skill: "", skillFile: ""}, 404, "NOT_FOUND", skill, map[string]any{"resource": skill, "type": "skill"}},
		"the skill is a file":             {files{skill: "file"}, 400, "INVALID_ARGUMENT", "skill must resolve to a Skill directory or SKILL.md", nil},
		"the skill has no SKILL.md":       {files{skillFile: ""}, 404, "NOT_FOUND", skillFile, map[string]any{"resource": skillFile, "type": "file"}},
		"SKILL.md is a directory":         {files{skillFile: "dir"}, 400, "INVALID_ARGUMENT", "Skill directory must contain a SKILL.md file", nil},
		"the target is closed":            {files{to: "PERMISSION_DENIED"}, 403, "PERMISSION_DENIED", to, nil},
		"the target is a file":            {files{to: "file"}, 400, "INVALID_ARGUMENT", "Compile target must be a directory", nil},
		"sources come before the skill":   {files{source: "file", skill: "", to: "file"}, 400, "INVALID_ARGUMENT", source, nil},
		"the skill comes before target":   {files{skill: "", to: "file"}, 404, "NOT_FOUND", skill, nil},
		"the first source comes first":    {files{source: "", other: "file"}, 404, "NOT_FOUND", source, nil},
		"the store fails":                 {files{source: "INTERNAL"}, 503, "UNAVAILABLE", "", map[string]any{"service": "content store", "reason": "unavailable"}},
		"the store wants another key":     {files{source: "UNAUTHENTICATED"}, 401, "UNAUTHENTICATED", "", nil},
		"the store is away":               {files{source: "UNAVAILABLE"}, 503, "UNAVAILABLE", "", nil},
		"a fault comes before a failure":  {files{source: "file", to: "INTERNAL"}, 400, "INVALID_ARGUMENT", source, nil},
		"the store does not answer a bit": {files{to: "hangs"}, 503, "UNAVAILABLE", "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				content := maps.Clone(good)
				maps.Copy(content, tc.change)
				r.runtimes.content = content
				got := r.call(http.MethodPost, "/api/v1/compile", body)
				if tc.wantCode == "" {
					got.result(t, http.StatusAccepted)
					return
				}
				told := got.fails(t, tc.wantStatus, tc.wantCode)
				if !strings.Contains(told.Message, tc.wantMessage) || strings.Contains(got.body, "/dev/secret") {
					t.Errorf("message %q", told.Message)
				}
				for key, want := range tc.wantDetails {
					if told.Details[key] != want {
						t.Errorf("details %v, want %v", told.Details, tc.wantDetails)
					}
				}
				if len(r.tasks.all()) != 0 || r.tasks.creates != 0 {
					t.Error("a task was created")
				}
			})
		})
	}
}

// What is in a content store is told to nobody whom the API server would refuse the
// task.
func TestContentIsShownOnlyToThoseWhoMayCreate(t *testing.T) {
	cases := map[string]struct {
		taken       string
		rightsErr   error
		wantStatus  int
		wantCode    string
		wantMessage string
	}{
		"no right to create":         {"alice create", nil, 403, "PERMISSION_DENIED", `grant the verb "create" on compiletasks`},
		"no right to the runtime":    {"alice use", nil, 403, "PERMISSION_DENIED", `grant the verb "use" on agentruntimes`},
		"nobody can say who may":     {"", errors.New("no answer"), 503, "UNAVAILABLE", "access can't be checked"},
		"a right to all but sources": {"alice get own", nil, 404, "NOT_FOUND", "viking://resources/a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.runtimes.content = files{}
			r.rights.set(tc.taken, false)
			r.rights.fail(tc.rightsErr)
			body := bodyOf(`"viking://resources/a"`, "viking://resources/w", "viking://agent/skills/s")
			told := r.call(http.MethodPost, "/api/v1/compile", body).fails(t, tc.wantStatus, tc.wantCode)
			if !strings.Contains(told.Message, tc.wantMessage) || len(r.tasks.all()) != 0 {
				t.Errorf("message %q, want %q", told.Message, tc.wantMessage)
			}
		})
	}
}

func TestRuntimesThatCantBeRead(t *testing.T) {
	r := newRig(t)
	r.runtimes.err = errors.New("cache /secret is down")
	for _, got := range []answer{
		r.call(http.MethodPost, "/api/v1/compile", plainBody), r.call(http.MethodGet, "/api/v1/compile/capabilities", ""),
	} {
		got.fails(t, http.StatusServiceUnavailable, "UNAVAILABLE")
		if strings.Contains(got.body, "secret") {
			t.Errorf("shown: %s", got.body)
		}
	}
}
