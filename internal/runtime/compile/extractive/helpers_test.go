package extractive

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile"
	"github.com/agentruntime/operator/internal/runtime/compile/okf"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/viking"
)

const (
	sourceRoot = "viking://resources/docs"
	targetRoot = "viking://resources/wiki"
)

func memoryFile(uri, name string, content []byte) compile.File {
	return compile.File{URI: uri, Path: name, Size: int64(len(content)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

// workspace makes a workspace of sources and a target, by path.
func workspace(tb testing.TB, sources, target map[string]string) *compile.Workspace {
	tb.Helper()
	ws := &compile.Workspace{
		Skill:      &skill.Skill{Name: "llm-wiki", Description: "d"},
		To:         targetRoot,
		TargetType: viking.TypeResource,
		Sources:    []compile.Source{{ID: "src_1", URI: sourceRoot}},
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		file := memoryFile(sourceRoot+"/"+name, name, []byte(sources[name]))
		status := compile.StatusMaterialized
		if !utf8.ValidString(sources[name]) {
			status = compile.StatusBinary
		}
		ws.Sources[0].Files = append(ws.Sources[0].Files, compile.SourceFile{File: file, Status: status})
	}
	for _, name := range slices.Sorted(maps.Keys(target)) {
		file := compile.TargetFile{File: memoryFile(targetRoot+"/"+name, name, []byte(target[name]))}
		page, err := okf.Parse([]byte(target[name]))
		if err == nil && strings.HasSuffix(name, ".md") {
			file.Page = page
		}
		ws.Target = append(ws.Target, file)
	}
	return ws
}

// run compiles and returns the files by path.
func run(tb testing.TB, ws *compile.Workspace) (*compile.Bundle, map[string]string) {
	tb.Helper()
	bundle, err := New().Compile(tb.Context(), ws)
	if err != nil {
		tb.Fatal(err)
	}
	files := make(map[string]string, len(bundle.Files))
	for _, file := range bundle.Files {
		if _, twice := files[file.Path]; twice {
			tb.Errorf("%s is written twice", file.Path)
		}
		files[file.Path] = string(file.Content)
	}
	return bundle, files
}

// checkWiki asserts everything that holds for every wiki: F.10, a page for each
// source, unique titles, links that resolve, sentences that are in their source.
func checkWiki(tb testing.TB, sources, target, files map[string]string) {
	tb.Helper()
	all := maps.Clone(target)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, files)
	pages := map[string]string{}
	titles, folded := map[string]string{}, map[string]string{}
	for name, content := range files {
		page := checkPage(tb, name, content, all, sources)
		if page == nil {
			return
		}
		if other, twice := titles[contentstore.FoldPath(page.Title)]; twice {
			tb.Errorf("%s and %s are both titled %q", name, other, page.Title)
		}
		titles[contentstore.FoldPath(page.Title)] = name
		if other, twice := folded[contentstore.FoldPath(name)]; twice {
			tb.Errorf("%s and %s differ only by case", name, other)
		}
		folded[contentstore.FoldPath(name)] = name
		if source, ok := page.String(fieldSource); ok {
			pages[source] = name
		}
	}
	for name, content := range sources {
		if _, ok := pages[sourceRoot+"/"+name]; !ok && utf8.ValidString(content) {
			tb.Errorf("%s has no page", name)
		}
	}
}

func checkPage(tb testing.TB, name, content string, all, sources map[string]string) *okf.Page {
	tb.Helper()
	if err := viking.CheckRelativePath(name); err != nil {
		tb.Errorf("path: %v", err)
	}
	if !utf8.ValidString(content) {
		tb.Errorf("%s is not UTF-8", name)
	}
	page, err := okf.Parse([]byte(content))
	if err != nil || page == nil {
		tb.Errorf("%s is no page: %v\n%s", name, err, content)
		return nil
	}
	_, body, _, err := okf.Split([]byte(content))
	if err != nil {
		tb.Errorf("%s: %v", name, err)
		return nil
	}
	root := goldmark.New().Parser().Parse(text.NewReader(body))
	checkOutline(tb, name, page.Title, root, body)
	checkLinks(tb, name, root, all, sources)
	if source, ok := page.String(fieldSource); ok {
		checkVerbatim(tb, name, string(body), sources[strings.TrimPrefix(source, sourceRoot+"/")])
	}
	return page
}

// checkOutline asserts that only our own headings are headings.
func checkOutline(tb testing.TB, name, title string, root ast.Node, body []byte) {
	tb.Helper()
	known := []string{"Summary", "Sections of the source", "Key terms", "Related pages", "Sources", "Pages", "Other pages",
		"Pages of earlier runs and other authors"}
	tops, sources := 0, 0
	for node := root.FirstChild(); node != nil; node = node.NextSibling() {
		heading, ok := node.(*ast.Heading)
		if !ok {
			if kind := node.Kind(); kind != ast.KindParagraph && !isFlatList(node) {
				tb.Errorf("%s holds a %s:\n%s", name, kind, body)
			}
			continue
		}
		switch got := plainText(heading, body); {
		case heading.Level == 1:
			tops++
			if got != title {
				tb.Errorf("%s: first heading %q, title %q", name, got, title)
			}
		case got == "Sources":
			sources++
		case !slices.Contains(known, got) && !strings.HasPrefix(got, "Topic: "):
			tb.Errorf("%s: unexpected heading %q", name, got)
		}
	}
	if tops != 1 || sources != 1 {
		tb.Errorf("%s has %d first headings and %d sections of sources:\n%s", name, tops, sources, body)
	}
}

// isFlatList reports whether a node is a list whose items are text and nothing else.
func isFlatList(node ast.Node) bool {
	if node.Kind() != ast.KindList {
		return false
	}
	for item := node.FirstChild(); item != nil; item = item.NextSibling() {
		if item.ChildCount() != 1 || item.FirstChild().Kind() != ast.KindTextBlock {
			return false
		}
	}
	return true
}

// checkLinks asserts that every link leads to a file of the wiki or to a source.
func checkLinks(tb testing.TB, name string, root ast.Node, all, sources map[string]string) {
	tb.Helper()
	evidence := 0
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to, err := url.PathUnescape(string(n.Destination))
			rel, isSource := strings.CutPrefix(to, sourceRoot)
			if isSource {
				evidence++
				_, isFile := sources[strings.TrimPrefix(rel, "/")]
				isSource = rel == "" || isFile
			} else {
				_, isSource = all[path.Join(path.Dir(name), to)]
			}
			if err != nil || !isSource {
				tb.Errorf("%s: link to %q leads nowhere", name, n.Destination)
			}
		case *ast.Image, *ast.AutoLink, *ast.RawHTML, *ast.HTMLBlock:
			tb.Errorf("%s holds a %s", name, n.Kind())
		}
		return ast.WalkContinue, nil
	})
	if evidence == 0 {
		tb.Errorf("%s has no link to a source", name)
	}
}

// checkVerbatim asserts that the quoted sentences stand in the source, byte for
// byte.
func checkVerbatim(tb testing.TB, name, body, source string) {
	tb.Helper()
	_, summary, _ := strings.Cut(body, "\n## Summary\n\n")
	summary, _, _ = strings.Cut(summary, "\n\n## ")
	if _, list, quoted := strings.Cut(summary, ":\n\n- "); quoted {
		for sentence := range strings.SplitSeq(list, "\n- ") {
			if sentence = strings.TrimSuffix(sentence, "\n"); !strings.Contains(source, sentence) {
				tb.Errorf("%s quotes %q, which its source does not hold", name, sentence)
			}
		}
	}
}
