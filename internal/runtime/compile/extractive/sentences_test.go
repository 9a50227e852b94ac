package extractive

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitSentences(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"nothing":                      {"", nil},
		"blanks":                       {" \n ", nil},
		"one without a stop":           {"no stop", []string{"no stop"}},
		"two":                          {"One is here. Two is there!", []string{"One is here.", "Two is there!"}},
		"a line end is no end":         {"One goes\non here. Two\r\ntoo.", []string{"One goes\non here.", "Two\r\ntoo."}},
		"abbreviations":                {"Use it, e.g. Make. See Fig. Two of Dr. Who.", []string{"Use it, e.g. Make.", "See Fig. Two of Dr. Who."}},
		"initials":                     {"By J. R. Smith. Next.", []string{"By J. R. Smith.", "Next."}},
		"versions and names":           {"Go 1.26 has os.Root. It is new.", []string{"Go 1.26 has os.Root.", "It is new."}},
		"a call":                       {"Call f().Close() first. Then go.", []string{"Call f().Close() first.", "Then go."}},
		"a stop in code":               {"Write `a. B` here. Done.", []string{"Write `a. B` here.", "Done."}},
		"quotation marks":              {"He said “no.” She left.", []string{"He said “no.”", "She left."}},
		"Chinese":                      {"控制器。它？好！完", []string{"控制器。", "它？", "好！", "完"}},
		"Chinese with quotation marks": {"他说：“好。”她走了。", []string{"他说：“好。”", "她走了。"}},
		"a line separator is no end":   {"One\u2028two. Three.", []string{"One\u2028two.", "Three."}},
		"Hindi":                        {"यह एक वाक्य है। यह दूसरा है।", []string{"यह एक वाक्य है।", "यह दूसरा है।"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, splitSentences(tc.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQuotable(t *testing.T) {
	cases := map[string]struct {
		sentence string
		want     bool
	}{
		"plain":              {"A plain sentence.", true},
		"over two lines":     {"A plain\nsentence.", true},
		"code and emphasis":  {"Use `code` and *stress* it.", true},
		"a comparison":       {"If a < b then stop.", true},
		"a link":             {"See [this](x.md).", false},
		"a reference":        {"See [this][x].", false},
		"a wiki link":        {"See [[this]].", false},
		"half a link":        {"See this](x.md).", false},
		"an address":         {"See <https://example.com>.", false},
		"HTML":               {"A <b>bold</b> word.", false},
		"a comment":          {"An open <!-- comment.", false},
		"an image":           {"An ![image](x.png).", false},
		"a list":             {"- An item.", false},
		"a numbered list":    {"1. An item.", false},
		"a heading":          {"# A heading.", false},
		"a quotation":        {"> A quotation.", false},
		"a second paragraph": {"One.\n\nTwo.", false},
		"a list inside":      {"One\n- two.", false},
		"a definition":       {"[a]: b.c", false},
		"a fence":            {"```\nx.", false},
		"only marks":         {"...", false},
		"a NUL byte":         {"A NUL \x00 byte.", false},
		"an override":        {"An \u202eoverride.", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := quotable(tc.sentence); got != tc.want {
				t.Errorf("quotable(%q) = %v", tc.sentence, got)
			}
		})
	}
}

func TestCleanLine(t *testing.T) {
	cases := map[string]struct {
		line string
		want string
	}{
		"as it is":      {"A title", "A title"},
		"white space":   {"  A\t\n title\u2028 ", "A title"},
		"control":       {"A\x00\x1b[0m title", "A[0m title"},
		"overrides":     {"\u202eA\u200b title", "A title"},
		"cut at a word": {strings.Repeat("word ", 10), "word word word word…"},
		"cut in a word": {strings.Repeat("x", 30), strings.Repeat("x", 21) + "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cleanLine(tc.line, 22); got != tc.want {
				t.Errorf("cleanLine(%q) = %q, want %q", tc.line, got, tc.want)
			}
		})
	}
}

func TestSlug(t *testing.T) {
	cases := map[string]string{
		"Leader election": "leader-election", "  A/B: C! ": "a-b-c", "../../etc": "etc", "": "page", "...": "page", "Index": "index-page",
		"控制器": "控制器", "Éte\u0301": "été", strings.Repeat("a", 200): strings.Repeat("a", 79),
	}
	for title, want := range cases {
		if got := slug(title); got != want {
			t.Errorf("slug(%q) = %q, want %q", title, got, want)
		}
	}
}

func TestRelative(t *testing.T) {
	cases := []struct{ from, to, want string }{
		{"index.md", "concept/a.md", "concept/a.md"},
		{"concept/a.md", "concept/b.md", "b.md"},
		{"concept/a.md", "index.md", "../index.md"},
		{"concept/x/a.md", "concept/b.md", "../../concept/b.md"},
	}
	for _, tc := range cases {
		if got := relative(tc.from, tc.to); got != tc.want {
			t.Errorf("relative(%q, %q) = %q, want %q", tc.from, tc.to, got, tc.want)
		}
	}
}
