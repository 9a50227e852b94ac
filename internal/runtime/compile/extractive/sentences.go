package extractive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Bounds of a sentence that can be quoted.
const (
	minSentenceRunes    = 25
	maxSentenceRunes    = 500
	minCJKSentenceRunes = 8
	minSentenceWords    = 4
)

// wideStops end a sentence without a space after them.
const wideStops = "。！？｡"

// abbreviations end in a full stop that does not end the sentence, even before a
// capital letter.
var abbreviations = map[string]bool{
	"e.g.": true, "i.e.": true, "cf.": true, "vs.": true, "viz.": true, "approx.": true, "no.": true, "fig.": true,
	"sec.": true, "ch.": true, "vol.": true, "eq.": true, "ref.": true, "dr.": true, "mr.": true, "mrs.": true, "ms.": true,
	"prof.": true, "st.": true, "jr.": true, "sr.": true, "inc.": true, "ltd.": true, "resp.": true, "al.": true,
}

// splitSentences returns the sentences of a paragraph as slices of it, without the
// white space around them. Lines may end inside a sentence.
func splitSentences(paragraph string) []string {
	// A line end would end a sentence for the segmenter. The copy has the same
	// length, so that its boundaries hold for the paragraph.
	flat := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, paragraph)
	if len(flat) != len(paragraph) {
		// Only text that is not UTF-8 changes its length. It has no sentences.
		return nil
	}
	var out []string
	start, end, state, ticks := 0, 0, -1, 0
	for rest := flat; rest != ""; {
		var piece string
		piece, rest, state = uniseg.FirstSentenceInString(rest, state)
		end += len(piece)
		ticks += strings.Count(piece, "`")
		if rest != "" && !endsHere(flat[start:end], ticks) {
			continue
		}
		if sentence := strings.TrimSpace(paragraph[start:end]); sentence != "" {
			out = append(out, sentence)
		}
		start, ticks = end, 0
	}
	return out
}

// endsHere reports whether a boundary of the segmenter after piece is one for us:
// not inside a code span, not after an abbreviation, and for Western stops only
// before white space, so that "a.B" stays whole.
func endsHere(piece string, ticks int) bool {
	trimmed := strings.TrimRightFunc(piece, unicode.IsSpace)
	// A boundary without a stop is a line or paragraph separator.
	if ticks%2 != 0 || !endsSentence(trimmed) {
		return false
	}
	if last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(trimmed, isCloser)); strings.ContainsRune(wideStops, last) {
		return true
	}
	if trimmed == piece {
		return false
	}
	word := trimmed[strings.LastIndexFunc(trimmed, unicode.IsSpace)+1:]
	word = strings.ToLower(strings.TrimLeft(word, "(["))
	return !abbreviations[word] && !isInitial(word)
}

// isInitial reports whether word is a letter and a full stop, as in a name, or a
// number and a full stop, as in a list.
func isInitial(word string) bool {
	stem, ok := strings.CutSuffix(word, ".")
	if !ok || stem == "" {
		return false
	}
	if utf8.RuneCountInString(stem) == 1 {
		return true
	}
	return len(stem) <= 2 && strings.Trim(stem, "0123456789") == ""
}

func isCloser(r rune) bool { return strings.ContainsRune("\"')]}*_`”’»」』）】》", r) }

// endsSentence reports whether text ends as a sentence does.
func endsSentence(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(text, isCloser))
	return strings.ContainsRune(".!?…؟।"+wideStops, last)
}

// isQuotableLength reports whether a sentence is long enough to say something and
// short enough to be read.
func isQuotableLength(sentence string, tokens []token) bool {
	runes := utf8.RuneCountInString(sentence)
	if runes > maxSentenceRunes {
		return false
	}
	cjk := 0
	for _, t := range tokens {
		if t.cjk {
			cjk++
		}
	}
	if cjk >= minCJKSentenceRunes {
		return true
	}
	return runes >= minSentenceRunes && len(tokens) >= minSentenceWords
}
