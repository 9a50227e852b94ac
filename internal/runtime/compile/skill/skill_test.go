package skill

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func doc(front string) string { return "---\n" + front + "\n---\n\nDo the work.\n" }

func TestParse(t *testing.T) {
	const base = "name: wiki\ndescription: Makes a wiki."
	plain := Skill{Name: "wiki", Description: "Makes a wiki.", Body: "Do the work."}
	with := func(change func(*Skill)) Skill {
		s := plain
		change(&s)
		return s
	}
	cases := map[string]struct {
		content string
		want    Skill
	}{
		"the least there can be": {doc(base), plain},
		"tools as a string": {
			doc(base + "\nallowed-tools: Read, Bash(git log, git show) Write"),
			with(func(s *Skill) { s.AllowedTools = []string{"Read", "Bash(git log, git show)", "Write"} }),
		},
		"tools as a list": {
			doc(base + "\nallowed-tools: [Read, 'Bash(x)']"),
			with(func(s *Skill) { s.AllowedTools = []string{"Read", "Bash(x)"} }),
		},
		"tags":        {doc(base + "\ntags: [a, b]"), with(func(s *Skill) { s.Tags = []string{"a", "b"} })},
		"empty lists": {doc(base + "\ntags:\nallowed-tools:\nmetadata:"), plain},
		"a kind": {
			doc(base + "\nmetadata:\n  compile:\n    kind: llm-wiki"),
			with(func(s *Skill) { s.Kind = "llm-wiki" }),
		},
		"requirements at any depth": {
			doc(base + "\nmetadata:\n  requires: {bins: [jq]}\n  vendor:\n    requires: {bins: [git], env: [HOME]}"),
			with(func(s *Skill) { s.Requires = Requirements{Bins: []string{"git", "jq"}, Env: []string{"HOME"}} }),
		},
		"CR LF": {strings.ReplaceAll(doc(base), "\n", "\r\n"), plain},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const base = "name: wiki\ndescription: Makes a wiki.\n"
	cases := map[string]struct{ content, want string }{
		"no front matter":             {"# Wiki", "front matter"},
		"nothing":                     {"", "front matter"},
		"no end":                      {"---\nname: x\n", "no closing"},
		"not UTF-8":                   {"---\nname: \xff\n---\n", "UTF-8"},
		"no mapping":                  {doc("- a"), "mapping"},
		"a key twice":                 {doc(base + "name: other"), "already defined"},
		"no name":                     {doc("description: d"), "name"},
		"a name with a slash":         {doc("name: a/b\ndescription: d"), "name"},
		"a long name":                 {doc("name: " + strings.Repeat("a", 65) + "\ndescription: d"), "name"},
		"no description":              {doc("name: a"), "description"},
		"a blank description":         {doc("name: a\ndescription: '  '"), "description"},
		"a description that is a map": {doc("name: a\ndescription: {a: b}"), "front matter"},
		"an open parenthesis":         {doc(base + "allowed-tools: Bash(git"), "unbalanced"},
		"a closing parenthesis":       {doc(base + "allowed-tools: Bash)git("), "unbalanced"},
		"tools that are a map":        {doc(base + "allowed-tools: {a: b}"), "allowed-tools"},
		"tools that are not strings":  {doc(base + "allowed-tools: [{a: b}]"), "allowed-tools"},
		"metadata that is text":       {doc(base + "metadata: text"), "metadata"},
		"requires that is a list":     {doc(base + "metadata: {requires: [git]}"), "requires"},
		"bins that are text":          {doc(base + "metadata: {requires: {bins: git}}"), "bins"},
		"a bin with a space":          {doc(base + "metadata: {requires: {bins: ['git log']}}"), "bins"},
		"an env that is a number":     {doc(base + "metadata: {requires: {env: [1]}}"), "env"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.content))
			if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want an InvalidError with %q", err, tc.want)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	s, err := Parse([]byte(doc("name: a\ndescription: d\nmetadata: {requires: {bins: [jq, git], env: [TOKEN]}}")))
	if err != nil {
		t.Fatal(err)
	}
	got := s.Available()
	if _, ok := errors.AsType[*UnavailableError](got); !ok || !strings.Contains(got.Error(), "TOKEN, git, jq") {
		t.Errorf("Available() = %v", got)
	}
	if err := (&Skill{Name: "b"}).Available(); err != nil {
		t.Errorf("Available() without requirements = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(doc("name: a\ndescription: d\nallowed-tools: Bash(a, b) c")))
	f.Add([]byte("---\na: &a [*a]\n---\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := Parse(content)
		if (s == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", s, err)
		}
		if s != nil && (!namePattern.MatchString(s.Name) || s.Description == "") {
			t.Errorf("accepted %+v", s)
		}
	})
}
