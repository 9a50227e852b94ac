package extractive

import (
	"html"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/agentruntime/operator/internal/runtime/compile/okf"
)

// Bounds of a stretch of lines without a blank one in Markdown: its bytes, the
// characters in it that may be inline markup, and those in one line that may open a
// block. The time to parse them can grow with the square of their number; prose never
// comes near.
const (
	maxRunBytes   = 128 << 10
	maxRunMarks   = 1000
	maxLineBlocks = 200
)

// newParser returns a Markdown parser that knows tables, so that their cells are
// not taken for sentences.
func newParser() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.Table)).Parser()
}

// readMarkdown finds the prose of a Markdown document: paragraphs and list items,
// without front matter, code, tables and HTML.
func readMarkdown(source string) prose {
	var p prose
	if front, body, found, err := okf.Split([]byte(source)); found && err == nil {
		if mapping, err := okf.Mapping(front); err == nil {
			source = string(body)
			for i := 0; i+1 < len(mapping.Content); i += 2 {
				if key, value := mapping.Content[i], mapping.Content[i+1]; key.Value == okf.FieldTitle {
					p.title = value.Value
				}
			}
		}
	}
	if isTangled(source) {
		plain := readPlain(source)
		if p.title != "" {
			plain.title = p.title
		}
		return plain
	}
	bytes := []byte(source)
	root := newParser().Parse(text.NewReader(bytes))
	// The walker's error can only come from the callback, which has none.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		return p.visit(node, bytes), nil
	})
	return p
}

func (p *prose) visit(node ast.Node, source []byte) ast.WalkStatus {
	switch n := node.(type) {
	case *ast.Heading:
		heading := plainText(n, source)
		if n.Level == 1 && p.title == "" {
			p.title = heading
		}
		p.headings = append(p.headings, heading)
		return ast.WalkSkipChildren
	case *ast.Paragraph, *ast.TextBlock:
		if lines := n.Lines(); lines.Len() > 0 {
			raw := source[lines.At(0).Start:lines.At(lines.Len()-1).Stop]
			p.blocks = append(p.blocks, block{raw: string(raw), plain: plainText(n, source)})
		}
		return ast.WalkSkipChildren
	case *ast.Document, *ast.List, *ast.ListItem, *ast.Blockquote:
		return ast.WalkContinue
	default:
		return ast.WalkSkipChildren
	}
}

// isTangled reports whether a text has a stretch of lines over the bounds.
func isTangled(source string) bool {
	size, marks := 0, 0
	for line := range strings.Lines(source) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" {
			size, marks = 0, 0
			continue
		}
		// An item of a list is parsed on its own.
		if strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ") {
			marks = 0
		}
		size += len(line)
		for i := range len(line) {
			if strings.IndexByte("[]*_`<>", line[i]) >= 0 {
				marks++
			}
		}
		blocks := strings.Count(line, ">") + strings.Count(line, "- ") + strings.Count(line, "* ") + strings.Count(line, "+ ")
		if size > maxRunBytes || marks > maxRunMarks || blocks > maxLineBlocks {
			return true
		}
	}
	return false
}

// plainText returns the text of inline nodes without markup.
func plainText(node ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			segment := string(n.Segment.Value(source))
			if n.Parent().Kind() != ast.KindCodeSpan {
				segment = unescape(segment)
			}
			out.WriteString(segment)
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte('\n')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// maxEntity bounds the name of a character entity.
const maxEntity = 40

// unescape resolves backslash escapes and character entities, each once.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]):
			i++
			out.WriteByte(s[i])
		case s[i] == '&':
			end := strings.IndexByte(s[i:min(len(s), i+maxEntity)], ';')
			if end < 0 {
				out.WriteByte(s[i])
				continue
			}
			out.WriteString(html.UnescapeString(s[i : i+end+1]))
			i += end
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String()
}
