package extractive

import (
	"strings"
	"unicode/utf8"
)

// readPlain finds the paragraphs of a plain text. A short line that stands alone and
// does not end like a sentence is a heading, the first one the title.
func readPlain(source string) prose {
	var p prose
	for _, paragraph := range paragraphs(source) {
		heading, ok := headingLine(paragraph)
		switch {
		case !ok:
			p.blocks = append(p.blocks, block{raw: paragraph, plain: paragraph})
		case p.title == "" && len(p.blocks) == 0:
			p.title = heading
		default:
			p.headings = append(p.headings, heading)
		}
	}
	return p
}

// paragraphs splits a text at blank lines. What it returns are slices of it.
func paragraphs(source string) []string {
	var out []string
	start, offset := -1, 0
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.TrimRight(source[start:end], "\r\n"))
		}
		start = -1
	}
	for line := range strings.Lines(source) {
		if strings.TrimSpace(line) == "" {
			flush(offset)
		} else if start < 0 {
			start = offset
		}
		offset += len(line)
	}
	flush(offset)
	return out
}

const maxHeadingRunes = 80

func headingLine(paragraph string) (string, bool) {
	first, rest, two := strings.Cut(paragraph, "\n")
	if two && strings.Trim(rest, "=-~ \r\n") != "" {
		return "", false
	}
	first = strings.TrimSpace(first)
	if utf8.RuneCountInString(first) > maxHeadingRunes || endsSentence(first) {
		return "", false
	}
	heading := strings.TrimRight(strings.TrimLeft(first, "# "), ":")
	return heading, strings.ContainsFunc(heading, isWordRune)
}
