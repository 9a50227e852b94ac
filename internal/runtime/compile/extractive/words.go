package extractive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// token is a word of a text, or one character of a script that has no spaces.
type token struct {
	// text is as written.
	text string
	// key is the same for forms of one word.
	key string
	// stop is set for words that say nothing on their own.
	stop bool
	cjk  bool
	// joined is set when only a space lies between this token and the one before.
	joined bool
}

// maxWordBytes bounds a word; longer ones are no words.
const maxWordBytes = 64

// maxStems bounds the stemmer's memory.
const maxStems = 50_000

// stemmer finds the keys of words and remembers them.
type stemmer struct{ known map[string]string }

func newStemmer() *stemmer { return &stemmer{known: make(map[string]string)} }

func (s *stemmer) key(word string) string {
	if key, ok := s.known[word]; ok {
		return key
	}
	key := strings.ToLower(word)
	if isASCIIWord(key) {
		key = english.Stem(key, true)
	}
	if len(s.known) < maxStems {
		s.known[word] = key
	}
	return key
}

func isASCIIWord(word string) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}

// tokens returns the words of a text.
func (s *stemmer) tokens(text string) []token {
	var out []token
	end := 0
	for start := 0; start < len(text); {
		r, size := utf8.DecodeRuneInString(text[start:])
		if !isWordRune(r) {
			start += size
			continue
		}
		stop := start + size
		if !isCJK(r) {
			stop = start + wordLength(text[start:])
		}
		word := strings.TrimRight(text[start:stop], "-'’_.")
		if len(word) <= maxWordBytes {
			t := token{text: word, key: s.key(word), cjk: isCJK(r), joined: len(out) > 0 && isGap(text[end:start])}
			t.stop = stopWords[strings.ToLower(word)]
			out = append(out, t)
			end = start + len(word)
		}
		start = stop
	}
	return out
}

// isGap reports whether what lies between two words keeps them together: nothing,
// or blanks and the marks of code and emphasis.
func isGap(between string) bool {
	return strings.Trim(between, " \t\r\n`*_") == "" && len(between) <= 8
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func isCJK(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

// wordLength returns how far a word at the beginning of text goes. Hyphens,
// apostrophes, underscores and dots are inside a word when a letter follows.
func wordLength(text string) int {
	for i, r := range text {
		if isCJK(r) {
			return i
		}
		if isWordRune(r) || unicode.IsMark(r) {
			continue
		}
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(max(r, 0)):])
		if !strings.ContainsRune("-'’_.", r) || !isWordRune(next) || isCJK(next) {
			return i
		}
	}
	return len(text)
}

// stopWords say nothing of what a text is about.
var stopWords = wordSet(`
a about above across after again against all almost alone along already also although always am among an and another any
anyone anything are around as at away back be became because become becomes been before began behind being below between
both but by came can cannot come comes could did do does doing done down during each either else enough even ever every
everything example few first for from further gave get gets give given gives go goes going got had has have having he her
here hers herself him himself his how however i if in instead into is it its itself just keep keeps kept last later least
less let lets like likely long made make makes many may me might mine more most much must my myself need needs neither
never next no nobody none nor not nothing now of off often on once one only onto or other others our ours ourselves out
over own per perhaps put rather really same say says second see seem seems seen several shall she should since so some
someone something soon still such take takes taken than that the their theirs them themselves then there therefore these
they thing things this those though three through thus to together too took toward two under until up upon us use used
uses using usually very via was way ways we well went were what whatever when whenever where whether which while who
whole whom whose why will with within without would yet you your yours yourself don't doesn't isn't aren't can't won't
it's that's there's didn't
new newer newest old older oldest try tries tried trying good better best bad big small large nearly exactly simply quite
ten five four thousand hundred first second third half day days hour hours minute minutes seconds time times want wants
的 了 和 是 在 也 就 都 而 及 与 与 或 一 个 不 有 这 那 我 你 他 她 它 们 为 以 于 之 其 被 把 会 要 可 到 从 对 吗 呢 吧 着
の に は を が と で も へ や から まで です ます する した
`)

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
