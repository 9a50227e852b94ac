package extractive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hostile are documents that try to break pages, each with what its page must or must
// not hold.
var hostile = map[string]string{
	"empty.md":             "",
	"blank.txt":            " \n\t\n",
	"short.md":             "Hello.",
	"word.txt":             "word",
	"fake-front.md":        "---\ntype: concept\ntitle: \"Fake\\n---\\ntype: index\"\ndescription: |\n  a\n  b\n---\n\nThe body of the document is here for all to read.\n",
	"open-front.md":        "---\ntype: concept\n\nThis front matter never ends, and the text goes on.\n",
	"bomb.md":              "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\ntitle: *e\n---\n# Bomb\n",
	"html.md":              "# <script>alert(1)</script>\n\nA sentence with <b>markup</b> in the middle of it. A sentence without any markup is here too.\n\n<div>\nRaw block text that must not be quoted anywhere.\n</div>\n",
	"comment.txt":          "This sentence opens <!-- a comment and never closes it. This one is entirely harmless and may be quoted.",
	"links.md":             "# Title with [link](x.md) and ](\n\nRead [the guide](guide_(1).md) before you do anything else. See <https://example.com> for more of the same kind. A plain sentence about guides stands here.\n\n[ref]: nowhere.md\n\nA reference to [ref][ref] is no link in a wiki page.\n",
	"title-bracket.md":     "# ](evil.md) and [x\n\nSome sentence to quote in the page of this document.\n",
	"title-quotes.md":      "# \"Quotes\": 'and' colons: # and --- \\ `code` *stars* _under_ #\n\nAnother sentence to quote in the page of this document.\n",
	"headings.md":          "# Sources\n\n## Sources\n\n## Summary\n\nA document may have headings that our pages have too.\n",
	"lists.txt":            "1. First of all there is a numbered line that reads like a sentence.\n\n- Then there is a dash that reads like a sentence too.\n\n# A number sign opens this line of ordinary text, it does.\n\n> A mark of quotation opens this line of ordinary text.\n\n    Four spaces open this line of ordinary plain text here.\n\n===\n\n```\nA fence opens before this line and never closes again.\n",
	"setext.txt":           "An ordinary sentence is followed by a line of dashes.\n---\nThe text goes on below it as if nothing had happened.\n",
	"nul.txt":              "A sentence with a NUL \x00 byte in the middle of it. A sentence without one follows right after it.\x00",
	"crlf.md":              "# Line ends\r\n\r\nA sentence that goes\r\nover two lines of the file. Another one that does not.\r\n",
	"bom.md":               "\ufeff# Byte order\n\nA file may begin with a byte order mark and be fine.\n",
	"rtl.md":               "# \u202eoverride\u202c title\n\nThis sentence hides \u202eits own end\u202c from those who read. هذه جملة عربية طويلة بما يكفي لكي تقتبس في الصفحة.\n",
	"cjk.md":               "# 控制器\n\n控制器比较期望状态和实际状态。它每次只向期望状态迈出一步！如果对象已经不存在，那么就无事可做。控制器必须可以重复执行？是的，控制器必须可以重复执行。\n",
	"japanese.txt":         "コントローラは状態を比較します。状態が異なる場合は、一歩だけ近づけます。\n",
	"code.md":              "# Code\n\n```go\nfunc main() { panic(\"This sentence is code and must not be quoted.\") }\n```\n\n| A cell that reads like a sentence. | Another cell that reads like one. |\n| --- | --- |\n| One more cell that reads like a sentence. | x |\n\nUse `a.B(c). D` inside of code spans without fear of the full stop.\n",
	"data.json":            `{"key": "This sentence lies in a data file and is not quoted."}`,
	"dup/a.md":             "# Same title\n\nThe first of two documents that share a title is here.\n",
	"dup/b.md":             "# same TITLE\n\nThe second of two documents that share a title is here.\n",
	"wiki.md":              "# Wiki\n\nA document may be called what the index is called too.\n",
	"index.md":             "# Index\n\nA document may be called index like the index itself.\n",
	"Upper.md":             "no title here, and no sentence either",
	"upper.md":             "no title here, and no sentence at all",
	"a b (1) [x] %20.md":   "# Odd name\n\nThe name of this file has brackets, blanks and a percent sign.\n",
	"名前.md":                "# 名前\n\nこの文書のファイル名は漢字です。\n",
	"emoji-\U0001F600.md":  "# \U0001F600\n\nA title may consist of a single picture and nothing else.\n",
	"dots.md":              "# ...\n\nA title may consist of full stops and nothing else at all.\n",
	"long-title.md":        "# " + strings.Repeat("long ", 400) + "\n\nA title may be very long and must be cut somewhere.\n",
	"entities.md":          "# A &amp; B &lt;c&gt; &#35;\n\nEntities like &amp; may stand in a title, and in a sentence too.\n",
	"trailing-hash.md":     "# C\\#\n\nA title may end in a number sign that must not vanish.\n",
	"one-line.txt":         strings.Repeat("no stop here, only words without an end ", 50_000),
	"one-line-stops.md":    strings.Repeat("This is one of very many sentences on one line. ", 40_000),
	"huge.md":              strings.Repeat("A line of a file that is larger than what is read. It goes on.\n", 100_000),
	"brackets.md":          strings.Repeat("[", 30_000),
	"many-brackets.md":     strings.Repeat(strings.Repeat("[a](", 499)+"\n\n", 20),
	"more-brackets.md":     strings.Repeat(strings.Repeat("[a](", 7000)+"\n\n", 20),
	"stars.md":             strings.Repeat(strings.Repeat("*a **b ", 300)+"\n\n", 20),
	"ticks.md":             strings.Repeat("`a ``b ```c ", 2500),
	"quotes.md":            strings.Repeat(">", 30_000) + " deep",
	"nested-list.md":       strings.Repeat("- ", 10_000) + "deep",
	"indent.md":            deepIndent(400),
	"angle.md":             strings.Repeat("<a ", 10_000) + strings.Repeat("<!--", 2000),
	"references.md":        strings.Repeat("[a]: b\n", 4000) + strings.Repeat("[a]", 4000),
	"tabs.md":              "# Tabs\n\nA sentence\twith tabs\tin it is a sentence still.\n",
	"surrogates.txt":       "A sentence with the replacement character \ufffd in it is fine.",
	"separators.txt":       "A sentence with a line separator\u2028in the middle of it is odd. A sentence without one is not odd at all.",
	"abbreviations.txt":    "Use a tool, e.g. Make, to build it. Dr. Who has seen version 1.2 of it. It is made by a.B and C. Others follow it.\n",
	"list-items.md":        "- An item of a list that goes\n  over two lines is a sentence.\n- Another item of the same list is one as well.\n\n> A quotation that goes\n> over two lines is a sentence too.\n",
	"wikilink.md":          "A sentence with [[a wiki link]] leads nowhere in a wiki of ours. A sentence without one leads nowhere either.\n",
	"task.md":              "- [ ] This is a task that still has to be done by somebody.\n- [x] This is a task that has been done by somebody.\n",
	"heading-markup.md":    "# Normal\n\n## 1. Numbered\n\n## - dash\n\n## > quote\n\n## ```\n\n## ---\n\n## + plus\n\n## * star - of _x_\n\n## ___\n\n## | bar\n\n## [x]: y\n\nA sentence under so many odd headings is needed too.\n",
	"\u200bzero-width.md":  "# \u200b\n\nA title may consist of characters that nobody can see.\n",
	"colon.yaml":           "a: b\n",
	"dir/deep/er/page.rst": "Title\n=====\n\nA text of another format is read as plain text, which it nearly is.\n",
}

func deepIndent(levels int) string {
	var out strings.Builder
	for i := range levels {
		fmt.Fprintf(&out, "%s- item\n", strings.Repeat("  ", i))
	}
	return out.String()
}

// small returns the hostile documents that are quick to read, to be read together.
func small() map[string]string {
	files := maps.Clone(hostile)
	maps.DeleteFunc(files, func(_, content string) bool { return len(content) > 50_000 })
	return files
}

func TestHostileDocumentsGiveValidPages(t *testing.T) {
	sources := small()
	_, files := run(t, workspace(t, sources, nil))
	checkWiki(t, sources, nil, files)
	for _, banned := range []string{"must not be quoted", "reads like a sentence.", "hides \u202e", "opens <!--", "\x00"} {
		for name, content := range files {
			if strings.Contains(content, banned) && !strings.Contains(name, "numbered") {
				t.Errorf("%s holds %q", name, banned)
			}
		}
	}
}

func TestHostileDocumentsOneByOne(t *testing.T) {
	for name, content := range hostile {
		t.Run(name, func(t *testing.T) {
			sources := map[string]string{name: content}
			start := time.Now()
			_, files := run(t, workspace(t, sources, nil))
			checkWiki(t, sources, nil, files)
			// Generous, for a busy machine; what is quadratic takes minutes.
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	for name, sources := range map[string]map[string]string{"sample corpus": corpus(t), "hostile documents": small()} {
		t.Run(name, func(t *testing.T) {
			_, first := run(t, workspace(t, sources, nil))
			_, again := run(t, workspace(t, sources, nil))
			if diff := cmp.Diff(first, again); diff != "" {
				t.Errorf("the same input gave other bytes: %s", diff)
			}
			_, second := run(t, workspace(t, sources, first))
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("a second run changed: %s", diff)
			}
		})
	}
}

func TestPagesKeepTheirPlace(t *testing.T) {
	sources := map[string]string{
		"a.md": "# First title\n\nThe first document has a sentence to be quoted.\n",
		"z.md": "# Last title\n\nThe last document has a sentence to be quoted.\n",
	}
	_, target := run(t, workspace(t, sources, nil))
	sources["a.md"] = "# Renamed\n\nThe first document has a sentence to be quoted.\n"
	sources["0.md"] = "# Last title\n\nA new document takes the title of another one.\n"
	delete(sources, "none")
	_, files := run(t, workspace(t, sources, target))
	checkWiki(t, sources, target, files)
	if !strings.Contains(files["concept/first-title.md"], "# Renamed\n") {
		t.Errorf("the page of a.md moved: %q", files)
	}
	if !strings.Contains(files["concept/last-title.md"], "/z.md") {
		t.Errorf("the page of z.md was taken by another: %s", files["concept/last-title.md"])
	}
	maps.Copy(target, files)
	delete(sources, "z.md")
	_, files = run(t, workspace(t, sources, target))
	if _, rewritten := files["concept/last-title.md"]; rewritten {
		t.Error("the page of a source that is gone was written")
	}
	if !strings.Contains(files["index.md"], "concept/last-title.md") {
		t.Error("the index lost the page of a source that is gone")
	}
}

func TestWhatOthersWroteStays(t *testing.T) {
	sources := map[string]string{"a.md": "# Topic\n\nThe only document has a sentence to be quoted.\n"}
	target := map[string]string{
		"index.md":         "# By hand\n",
		"concept/topic.md": "---\ntype: concept\ntitle: '[By](hand)'\ndescription: Mine.\n---\n",
		"notes.txt":        "mine",
	}
	bundle, files := run(t, workspace(t, sources, target))
	checkWiki(t, sources, target, files)
	for name := range target {
		if _, written := files[name]; written {
			t.Errorf("%s would be overwritten", name)
		}
	}
	if len(bundle.Warnings) != 2 {
		t.Errorf("warnings %q", bundle.Warnings)
	}
	maps.Copy(target, files)
	_, second := run(t, workspace(t, sources, target))
	if diff := cmp.Diff(files, second); diff != "" {
		t.Errorf("a second run changed: %s", diff)
	}
	for name, content := range files {
		target[name] = strings.Replace(content, "generator:", "tags: [mine]\ngenerator:", 1)
	}
	_, third := run(t, workspace(t, sources, target))
	for name, content := range third {
		if !strings.Contains(content, "tags: [mine]\n") {
			t.Errorf("%s lost a field that somebody added", name)
		}
	}
}

func TestSourcesThatAreSkipped(t *testing.T) {
	ws := workspace(t, map[string]string{"a.md": "# A\n\nA document with one sentence to be quoted.\n", "b.bin": "\xff\xfe"}, nil)
	ws.Sources = append(ws.Sources, ws.Sources[0])
	gone := ws.Sources[0].Files[0]
	gone.URI, gone.Path, gone.Open = sourceRoot+"/gone.md", "gone.md", nil
	_, files := run(t, ws)
	if len(files) != 2 {
		t.Errorf("wrote %d files, want one page and the index", len(files))
	}
	if n := strings.Count(files["index.md"], "](concept/"); n != 1 {
		t.Errorf("the index lists %d pages", n)
	}
}

func TestNoSourcesGiveNothing(t *testing.T) {
	bundle, files := run(t, workspace(t, nil, nil))
	if len(files) != 0 || bundle.LinkCount != 0 {
		t.Errorf("wrote %v", files)
	}
}

func TestACancelledCompileStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New().Compile(ctx, workspace(t, hostile, nil))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

// Whatever a document holds, its page and the index are valid.
func FuzzPage(f *testing.F) {
	for name, content := range hostile {
		if len(content) < 2000 {
			f.Add(name, content)
		}
	}
	f.Fuzz(func(t *testing.T, name, content string) {
		if len(content) > 1<<16 {
			t.Skip()
		}
		ext := ".md"
		if len(name)%2 == 1 {
			ext = ".txt"
		}
		sources := map[string]string{"x" + ext: strings.ToValidUTF8(content, "?"), "other.md": "# " + strings.ToValidUTF8(name, "?")}
		_, files := run(t, workspace(t, sources, nil))
		checkWiki(t, sources, nil, files)
		_, second := run(t, workspace(t, sources, files))
		if diff := cmp.Diff(files, second); diff != "" {
			t.Errorf("a second run changed: %s", diff)
		}
	})
}

// Sentences are slices of the paragraph, in order, and nothing but white space is
// lost between them.
func FuzzSplitSentences(f *testing.F) {
	for _, content := range hostile {
		if len(content) < 2000 {
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, paragraph string) {
		if !strings.Contains(strings.ToValidUTF8(paragraph, ""), paragraph) {
			t.Skip()
		}
		rest := paragraph
		for _, sentence := range splitSentences(paragraph) {
			before, after, found := strings.Cut(rest, sentence)
			if !found || strings.TrimSpace(before) != "" {
				t.Fatalf("sentence %q of %q after %q", sentence, paragraph, before)
			}
			rest = after
		}
		if strings.TrimSpace(rest) != "" {
			t.Errorf("%q is lost of %q", rest, paragraph)
		}
	})
}
