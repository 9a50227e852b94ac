package viking

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mustParse reads a canonical URI of a test.
func mustParse(t *testing.T, raw string) URI {
	t.Helper()
	u, fault := Parse("test", raw)
	if fault != nil {
		t.Fatalf("Parse(%q): %v", raw, fault)
	}
	return u
}

func TestURIAccessors(t *testing.T) {
	cases := map[string]struct {
		raw, wantScope, wantBase, wantParent, wantUser string
		wantSegments                                   []string
	}{
		"the root has nothing": {raw: "viking://", wantParent: "viking://"},
		"a scope is its own base": {
			raw: "viking://resources", wantScope: "resources", wantBase: "resources",
			wantParent: "viking://", wantSegments: []string{"resources"},
		},
		"the user scope has no user": {
			raw: "viking://user", wantScope: "user", wantBase: "user",
			wantParent: "viking://", wantSegments: []string{"user"},
		},
		"a deep path in a user's tree": {
			raw: "viking://user/ann/memories/facts", wantScope: "user", wantBase: "facts",
			wantParent: "viking://user/ann/memories", wantUser: "ann",
			wantSegments: []string{"user", "ann", "memories", "facts"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := mustParse(t, tc.raw)
			got := []any{u.String(), u.Scope(), u.Base(), u.Parent().String(), u.User(), u.Segments(), u.IsRoot()}
			want := []any{tc.raw, tc.wantScope, tc.wantBase, tc.wantParent, tc.wantUser, tc.wantSegments, tc.raw == Scheme}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("accessors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSegmentsAreACopy(t *testing.T) {
	u := mustParse(t, "viking://resources/a")
	u.Segments()[1] = "b"
	if got := u.String(); got != "viking://resources/a" {
		t.Errorf("changing the segments changed the URI to %s", got)
	}
}

func TestWithinAndRel(t *testing.T) {
	cases := map[string]struct {
		uri, root, wantRel string
		want               bool
	}{
		"itself":                         {uri: "viking://resources/a", root: "viking://resources/a", want: true},
		"a child":                        {uri: "viking://resources/a/b/c", root: "viking://resources/a", want: true, wantRel: "b/c"},
		"everything is within the root":  {uri: "viking://agent/x", root: "viking://", want: true, wantRel: "agent/x"},
		"a sibling with the same prefix": {uri: "viking://resources/ab", root: "viking://resources/a", wantRel: "b"},
		"the parent":                     {uri: "viking://resources", root: "viking://resources/a"},
		"another letter case":            {uri: "viking://resources/A", root: "viking://resources/a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u, root := mustParse(t, tc.uri), mustParse(t, tc.root)
			rel, ok := u.Rel(root)
			if ok != tc.want || u.Within(root) != tc.want {
				t.Fatalf("Rel = %v, Within = %v, want %v", ok, u.Within(root), tc.want)
			}
			if ok && rel != tc.wantRel {
				t.Errorf("Rel = %q, want %q", rel, tc.wantRel)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	cases := map[string]struct {
		root, rel, want string
		wantErr         bool
	}{
		"a file below a directory":    {root: "viking://resources/wiki", rel: "a/b.md", want: "viking://resources/wiki/a/b.md"},
		"a scope below the root":      {root: "viking://", rel: "resources/a", want: "viking://resources/a"},
		"no scope below the root":     {root: "viking://", rel: "nowhere/a", wantErr: true},
		"no way up":                   {root: "viking://resources/wiki", rel: "../x", wantErr: true},
		"not longer than a URI":       {root: "viking://resources", rel: strings.Repeat(strings.Repeat("a", 200)+"/", 20) + strings.Repeat("b", 76), wantErr: true},
		"not deeper than a URI":       {root: "viking://resources/a", rel: strings.Repeat("b/", 62) + "c", wantErr: true},
		"as deep as a URI":            {root: "viking://resources", rel: strings.Repeat("b/", 62) + "c", want: "viking://resources/" + strings.Repeat("b/", 62) + "c"},
		"no invalid user below users": {root: "viking://user", rel: "a@b@c", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := mustParse(t, tc.root).Join(tc.rel)
			if (err != nil) != tc.wantErr {
				t.Fatalf("Join error = %v, want an error: %v", err, tc.wantErr)
			}
			if err == nil && got.String() != tc.want {
				t.Errorf("Join = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	none := Class{Type: TypeResource, Index: NoIndex}
	cases := map[string]Class{
		"viking://":                                      none,
		"viking://resources":                             none,
		"viking://resources/memories/x":                  none,
		"viking://user":                                  none,
		"viking://user/ann":                              none,
		"viking://user/ann/sessions/1":                   none,
		"viking://user/ann/privacy/skills":               none,
		"viking://user/ann/peers/bob":                    none,
		"viking://user/ann/peers/bob/skills/x":           none,
		"viking://user/ann/peers/memories":               none,
		"viking://agent":                                 none,
		"viking://agent/bot":                             none,
		"viking://agent/bot/other/skills":                none,
		"viking://agent/skills":                          {Type: TypeSkill, Index: 1, NamespaceDir: true},
		"viking://agent/skills/memories":                 {Type: TypeSkill, Index: 1, SkillRoot: true},
		"viking://agent/skills/wiki/SKILL.md":            {Type: TypeSkill, Index: 1},
		"viking://agent/bot/skills":                      {Type: TypeSkill, Index: 2, NamespaceDir: true},
		"viking://agent/bot/skills/wiki":                 {Type: TypeSkill, Index: 2, SkillRoot: true},
		"viking://agent/bot/memories/facts":              {Type: TypeMemory, Index: 2},
		"viking://agent/bot/resources":                   {Type: TypeResource, Index: 2, NamespaceDir: true},
		"viking://user/ann/memories":                     {Type: TypeMemory, Index: 2, NamespaceDir: true},
		"viking://user/ann/memories/facts":               {Type: TypeMemory, Index: 2},
		"viking://user/ann/resources":                    {Type: TypeResource, Index: 2, NamespaceDir: true},
		"viking://user/ann/resources/x":                  {Type: TypeResource, Index: 2},
		"viking://user/ann/skills/wiki":                  {Type: TypeSkill, Index: 2, SkillRoot: true},
		"viking://user/ann/peers/bob/memories":           {Type: TypeMemory, Index: 4, NamespaceDir: true},
		"viking://user/ann/peers/bob/memories/facts/x":   {Type: TypeMemory, Index: 4},
		"viking://user/ann/peers/bob/resources/research": {Type: TypeResource, Index: 4},
	}
	for raw, want := range cases {
		t.Run(raw, func(t *testing.T) {
			if diff := cmp.Diff(want, mustParse(t, raw).Classify()); diff != "" {
				t.Errorf("class (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckRelativePath(t *testing.T) {
	long := strings.Repeat("a", MaxSegmentBytes)
	good := []string{
		"index.md", "concept/a b.md", "图/概念.md", "ab:c", "100%", "50%25.md", "a..b", "x.abstract.md",
		"~", "café.md", "{calendar:year}", long, strings.Repeat("a/", MaxDepth-1) + "a",
	}
	for _, p := range good {
		t.Run("accepts "+p[:min(len(p), 20)], func(t *testing.T) {
			if err := CheckRelativePath(p); err != nil {
				t.Error(err)
			}
		})
	}
	bad := map[string]string{
		"an empty path":             "",
		"an absolute path":          "/etc/passwd",
		"a drive letter":            "C:/x",
		"a lower-case drive letter": "c:x",
		"a way up":                  "a/../b",
		"a way up first":            "../b",
		"a dot segment":             "a/./b",
		"a hidden segment":          "a/.git/config",
		"an empty segment":          "a//b",
		"a trailing slash":          "a/",
		"a backslash":               `a\b`,
		"an escaped dot":            "%2e%2e/x",
		"an escaped slash":          "a%2Fb",
		"an escaped backslash":      "a%5cb",
		"a doubly escaped dot":      "%252e%252e",
		"a mixed escape":            "%%32e",
		"a deeply escaped slash":    "a%25252fb",
		"an escaped NUL":            "a%00",
		"a query":                   "a?b",
		"a fragment":                "a#b",
		"a NUL":                     "a\x00b",
		"a newline":                 "a\nb",
		"a delete character":        "a\x7f",
		"a C1 control":              "a\u0085b",
		"a line separator":          "a\u2028b",
		"a direction override":      "a\u202egpj.md",
		"invalid UTF-8":             "a\xffb",
		"a leading space":           " a",
		"a trailing space":          "a /b",
		"a long segment":            long + "a",
		"a long path":               strings.Repeat(long[:100]+"/", 41) + "a",
		"a deep path":               strings.Repeat("a/", MaxDepth) + "a",
		"a sidecar":                 "a/.abstract.md",
		"an overview":               ".overview.md",
		"relations":                 ".relations.json",
		"a source record":           ".source.json",
		"a sidecar in capitals":     "a/.ABSTRACT.MD",
		"a sidecar as a directory":  ".Source.json/a",
	}
	for name, p := range bad {
		t.Run("refuses "+name, func(t *testing.T) {
			err := CheckRelativePath(p)
			var fault *PathError
			if !errors.As(err, &fault) {
				t.Fatalf("CheckRelativePath(%q) = %v, want a PathError", p, err)
			}
			if strings.ContainsFunc(err.Error(), unsafeRune) {
				t.Errorf("the message %q has control characters", err)
			}
		})
	}
}

func TestDerivedNamesSayWhy(t *testing.T) {
	err := CheckRelativePath("a/.Overview.md")
	if err == nil || !strings.Contains(err.Error(), "reserved for derived files") {
		t.Errorf("got %v, want the reason of derived names", err)
	}
}

func TestUserID(t *testing.T) {
	same := []string{
		"ann", "ann@example.com", "Ann_B.c-d", "default", "x--y", "42", "-a",
		"a--" + strings.Repeat("w", hashChars), strings.Repeat("a", MaxUserIDBytes),
	}
	for _, name := range same {
		t.Run("keeps "+name[:min(len(name), 20)], func(t *testing.T) {
			if got := UserID(name); got != name {
				t.Errorf("UserID = %q, want the name itself", got)
			}
		})
	}
	mapped := map[string]struct{ name, wantPrefix string }{
		"a service account":           {"system:serviceaccount:docs:builder", "sa-docs-builder--"},
		"a name with two ats":         {"a@b@c", "a-b-c--"},
		"a dot":                       {".", "user--"},
		"two dots":                    {"..", "user--"},
		"a hidden name":               {".abstract.md", "abstract.md--"},
		"a reserved word":             {"memories", "memories--"},
		"a path":                      {"../../etc", "etc--"},
		"a long name":                 {strings.Repeat("a", MaxUserIDBytes+1), strings.Repeat("a", prefixBytes) + "--"},
		"a name of another alphabet":  {"安", "user--"},
		"an OIDC subject":             {"https://id.example.com#42", "https---id.example.com-42--"},
		"invalid UTF-8":               {"\xff\xfe", "user--"},
		"a name that looks mapped":    {"ann--" + strings.Repeat("0", hashChars), "ann--0"},
		"the mapping of another name": {UserID("a@b@c"), "a-b-c--"},
	}
	for name, tc := range mapped {
		t.Run("maps "+name, func(t *testing.T) {
			got := UserID(tc.name)
			if got == tc.name || !strings.HasPrefix(got, tc.wantPrefix) || !ValidID(got) || len(got) > MaxUserIDBytes {
				t.Errorf("UserID(%q) = %q, want another valid id that begins with %q", tc.name, got, tc.wantPrefix)
			}
			if slices.Contains(reservedUserWords, got) {
				t.Errorf("UserID(%q) = %q, a reserved word", tc.name, got)
			}
		})
	}
	if got := UserID(""); got != "" {
		t.Errorf("UserID of nobody = %q, want nothing", got)
	}
}

// The mapping decides whose tree is whose, so it must never change.
func TestUserIDIsStable(t *testing.T) {
	const want = "sa-docs-builder--2kpalatij43dkrflpe5s09iq0pu87rve"
	if got := UserID("system:serviceaccount:docs:builder"); got != want {
		t.Errorf("UserID = %q, want %q", got, want)
	}
}
