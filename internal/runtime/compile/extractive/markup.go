package extractive

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// maxLead bounds a description.
const maxLead = 160

// quotable reports whether a sentence, as it stands, is one list item of plain text,
// emphasis and code: nothing in it opens a block, links anywhere or is HTML.
func quotable(sentence string) bool {
	if strings.ContainsFunc(sentence, isUnsafe) || !strings.ContainsFunc(sentence, isWordRune) {
		return false
	}
	// These may be no links and no HTML here, but look like it to other readers.
	for _, mark := range []string{"](", "][", "[[", "<!", "<?", "</"} {
		if strings.Contains(sentence, mark) {
			return false
		}
	}
	item, source := parseItem(sentence)
	return item != nil && onlyInline(item, source)
}

// parseItem parses a sentence as a list item and returns the item's text block, nil
// when there is more than that.
func parseItem(sentence string) (ast.Node, []byte) {
	source := []byte("- " + sentence + "\n")
	node := newParser().Parse(text.NewReader(source))
	for _, kind := range []ast.NodeKind{ast.KindList, ast.KindListItem, ast.KindTextBlock} {
		if node.ChildCount() != 1 || node.FirstChild().Kind() != kind {
			return nil, nil
		}
		node = node.FirstChild()
	}
	return node, source
}

func onlyInline(node ast.Node, source []byte) bool {
	fine := true
	_ = ast.Walk(node, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindTextBlock, ast.KindText, ast.KindString, ast.KindEmphasis, ast.KindCodeSpan:
			return ast.WalkContinue, nil
		}
		fine = false
		return ast.WalkStop, nil
	})
	return fine && strings.TrimSpace(plainText(node, source)) != ""
}

// leadOf makes a one-line description of a sentence that is quotable.
func leadOf(sentence string) string {
	if item, source := parseItem(sentence); item != nil {
		sentence = plainText(item, source)
	}
	return cleanLine(sentence, maxLead)
}

// isUnsafe reports characters that a reader could not see, or that would reorder
// the text around them.
func isUnsafe(r rune) bool {
	if r == '\n' || r == '\r' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || isOverride(r) || r == '\u2028' || r == '\u2029'
}

// isOverride reports marks that change the direction of what follows. Those that
// only say which way a single place reads are ordinary in Arabic and Hebrew.
func isOverride(r rune) bool { return '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' }

// cleanLine makes one line of text: no control or format characters, single spaces,
// at most limit runes.
func cleanLine(line string, limit int) string {
	line = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, line)
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) <= limit {
		return line
	}
	cut := string([]rune(line)[:limit-1])
	if space := strings.LastIndexByte(cut, ' '); space > len(cut)/2 {
		cut = cut[:space]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// marks are the characters that can be markup inside a line.
const marks = "\\`*_[]<>&~|!"

// inlineText writes one line of text as Markdown that reads as that text, also
// between the brackets of a link. Text that needs no escapes has none.
func inlineText(s string) string {
	if !strings.ContainsAny(s, marks) || readsAsItself(s) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune(marks+"()", r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

func readsAsItself(s string) bool {
	if strings.ContainsAny(s, "[]<>|\\") {
		return false
	}
	source := []byte("x [" + s + "](u) x\n")
	root := newParser().Parse(text.NewReader(source))
	paragraph := root.FirstChild()
	if root.ChildCount() != 1 || paragraph.Kind() != ast.KindParagraph || paragraph.ChildCount() != 3 {
		return false
	}
	link := paragraph.FirstChild().NextSibling()
	for child := link.FirstChild(); child != nil; child = child.NextSibling() {
		if child.Kind() != ast.KindText {
			return false
		}
	}
	return link.Kind() == ast.KindLink && plainText(link, source) == s
}

// lineText is inlineText for the beginning of a line, where more is markup.
func lineText(s string) string {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if digits > 0 && digits < len(s) && strings.ContainsRune(".)", rune(s[digits])) {
		return s[:digits] + `\` + s[digits:digits+1] + inlineText(s[digits+1:])
	}
	if s != "" && strings.ContainsRune("#>-+=:`~*_|", rune(s[0])) {
		// Two marks in a row would be one if only the first were escaped.
		rest := strings.TrimLeft(s, s[:1])
		return strings.Repeat(`\`+s[:1], len(s)-len(rest)) + inlineText(rest)
	}
	return inlineText(s)
}

// headingText is inlineText for a heading, at whose end number signs vanish.
func headingText(s string) string {
	out := inlineText(s)
	if rest, ok := strings.CutSuffix(out, "#"); ok {
		return rest + `\#`
	}
	return out
}

// destination writes a path or URI as the destination of a link. Decoding its
// percent escapes gives the path back.
func destination(path string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(path) {
		c := path[i]
		plain := c >= utf8.RuneSelf || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("-._~/:@+,=;", c) >= 0
		if plain {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(hex[c>>4])
		out.WriteByte(hex[c&15])
	}
	return out.String()
}

func link(label, path string) string {
	return "[" + inlineText(cmp.Or(label, "source")) + "](" + destination(path) + ")"
}
