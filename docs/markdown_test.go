// Package docs holds no code, only the guides and the tests that keep them true:
// what they name must exist.
package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the repository's root, as seen from this package.
const root = ".."

// guide is one Markdown file, taken apart.
type guide struct {
	// path is relative to root.
	path     string
	links    []string
	spans    []string
	blocks   []block
	headings map[string]bool
}

// block is a fenced piece of code.
type block struct{ language, text string }

// readGuides reads the README, the contributors' page and every guide.
func readGuides(t *testing.T) []guide {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
	var guides []guide
	for _, path := range paths {
		guides = append(guides, readGuide(t, path))
	}
	return guides
}

func readGuide(t *testing.T, path string) guide {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	g := guide{path: relative, headings: map[string]bool{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			g.add(node, source)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guide) add(node ast.Node, source []byte) {
	switch node := node.(type) {
	case *ast.Link:
		g.links = append(g.links, string(node.Destination))
	case *ast.CodeSpan:
		g.spans = append(g.spans, plainText(node, source))
	case *ast.FencedCodeBlock:
		g.blocks = append(g.blocks, block{string(node.Language(source)), string(node.Lines().Value(source))})
	case *ast.Heading:
		g.headings[anchor(plainText(node, source))] = true
	}
}

func plainText(node ast.Node, source []byte) string {
	var out bytes.Buffer
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if leaf, ok := child.(*ast.Text); ok {
			out.Write(leaf.Segment.Value(source))
			if leaf.SoftLineBreak() {
				out.WriteByte(' ')
			}
			continue
		}
		out.WriteString(plainText(child, source))
	}
	return out.String()
}

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// command is one program call in a guide.
type command struct {
	program   string
	arguments []string
}

// separator ends one program's words and begins another's.
var separator = regexp.MustCompile(`\|\||&&|[|;()]`)

// commands are the program calls in the guide's shell blocks and code spans.
func (g *guide) commands() []command {
	lines := append([]string(nil), g.spans...)
	for _, b := range g.blocks {
		if b.language == "sh" || b.language == "text" {
			lines = append(lines, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
		}
	}
	var out []command
	for _, line := range lines {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " # ")
		for _, part := range separator.Split(line, -1) {
			words := strings.Fields(part)
			for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
				words = words[1:] // a variable for the program
			}
			if len(words) > 0 {
				out = append(out, command{filepath.Base(words[0]), words[1:]})
			}
		}
	}
	return out
}
