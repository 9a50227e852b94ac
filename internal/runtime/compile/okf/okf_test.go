package okf

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		content  string
		wantPage bool
		wantErr  string
	}{
		"a page":                          {"---\ntype: concept\ntitle: T\ndescription: D\n---\nbody", true, ""},
		"a page with CR LF and a mark":    {"\ufeff---\r\ntype: concept\r\ntitle: T\r\ndescription: D\r\n---\r\nbody", true, ""},
		"unknown fields are kept":         {"---\ntype: concept\ntitle: T\ndescription: D\nx: {a: [1]}\n---\n", true, ""},
		"no front matter":                 {"# Title", false, ""},
		"front matter without a type":     {"---\ntitle: T\n---\n", false, ""},
		"a rule, not a front matter":      {"---\nsome text", false, ""},
		"broken YAML without a type":      {"---\na: [\n---\n", false, ""},
		"broken YAML with a type":         {"---\ntype: x\na: [\n---\n", false, "no valid YAML"},
		"a type and no end":               {"---\ntype: x\ntitle: T\n", false, "no closing"},
		"a list":                          {"---\n- type: x\n---\n", false, ""},
		"an empty type":                   {"---\ntype: ''\ntitle: T\ndescription: D\n---\n", false, `"type"`},
		"a type that is a number":         {"---\ntype: 1\ntitle: T\ndescription: D\n---\n", false, `"type"`},
		"a type that is a mapping":        {"---\ntype: {a: b}\ntitle: T\ndescription: D\n---\n", false, `"type"`},
		"no title":                        {"---\ntype: x\ndescription: D\n---\n", false, `"title"`},
		"a blank title":                   {"---\ntype: x\ntitle: '  '\ndescription: D\n---\n", false, `"title"`},
		"no description":                  {"---\ntype: x\ntitle: T\n---\n", false, `"description"`},
		"a description of two lines":      {"---\ntype: x\ntitle: T\ndescription: |\n  a\n  b\n---\n", false, "one line"},
		"a key twice":                     {"---\ntype: x\ntype: y\ntitle: T\ndescription: D\n---\n", false, "no valid YAML"},
		"a front matter beyond the limit": {"---\ntype: x\n" + strings.Repeat("a", MaxFrontBytes) + "\n---\n", false, "no closing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			page, err := Parse([]byte(tc.content))
			if (page != nil) != tc.wantPage {
				t.Errorf("page = %+v", page)
			}
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("err = %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestRenderKeepsWhatOthersAdded(t *testing.T) {
	old, err := Parse([]byte("---\ntype: a\ntitle: Old\ndescription: D\ntags: [x, y]\nalias: &a 1\nuse: *a\nowner: me\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	fields := []Field{{FieldType, "concept"}, {FieldTitle, "New"}, {FieldDescription, "D"}}
	got, err := Render(fields, old, "# New\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "---\ntype: concept\ntitle: New\ndescription: D\ntags: [x, y]\nowner: me\n---\n\n# New\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever a title holds, a rendered page reads back as what was written, and
// rendering it again changes nothing.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{"plain", `"quoted": 'x'`, "a\n---\nb", "---", "null", "1.5", "# not a comment", "\x00\ufeff\u202e", "{{", "- x", "é：中"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, title string) {
		title = strings.ToValidUTF8(title, "?")
		if strings.TrimSpace(title) == "" || len(title) > 1000 {
			t.Skip()
		}
		fields := []Field{{FieldType, "concept"}, {FieldTitle, title}, {FieldDescription, "one line"}}
		first, err := Render(fields, nil, "body\n")
		if err != nil {
			t.Fatal(err)
		}
		page, err := Parse(first)
		if err != nil || page == nil {
			t.Fatalf("%q does not read back: %v", first, err)
		}
		if page.Title != title {
			t.Errorf("title %q reads back as %q", title, page.Title)
		}
		second, err := Render(fields, page, "body\n")
		if err != nil || string(second) != string(first) {
			t.Errorf("rendered again: %q, %v", second, err)
		}
	})
}
