package extractive

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxGram = 3
	// maxTermTokens bounds the words of a document that terms are counted over.
	maxTermTokens = 40_000
	headingWeight = 2
	titleWeight   = 3
)

// term is a word or a phrase of a document.
type term struct {
	key string
	// text is the form that the document uses most.
	text  string
	count int
	words int
}

// gramWeight prefers phrases: they occur less often than their words and say more.
func gramWeight(words int) float64 { return []float64{1, 1, 1.7, 2}[min(words, 3)] }

// weight is how much a term says for its form: phrases, and names such as
// SubjectAccessReview, RBAC or server-side, more than plain words.
func (t term) weight() float64 {
	const name = 1.8
	if isName(t.text) {
		return name * gramWeight(t.words)
	}
	return gramWeight(t.words)
}

// isName reports whether a word has a capital letter, a digit, a hyphen or a dot
// inside.
func isName(text string) bool {
	for word := range strings.FieldsSeq(text) {
		_, size := utf8.DecodeRuneInString(word)
		if strings.ContainsFunc(word[size:], func(r rune) bool {
			return unicode.IsUpper(r) || unicode.IsDigit(r) || r == '-' || r == '.'
		}) {
			return true
		}
	}
	return false
}

type tally struct {
	count    int
	words    int
	marked   bool
	surfaces map[string]int
}

// countTerms returns the most frequent terms of a document.
func countTerms(words *stemmer, title string, p prose) []term {
	c := termCounter{words: words, tallies: make(map[string]*tally), left: maxTermTokens}
	c.add(title, titleWeight)
	for _, heading := range p.headings {
		c.add(heading, headingWeight)
	}
	for _, b := range p.blocks {
		c.add(b.plain, 1)
	}
	return c.terms()
}

type termCounter struct {
	words   *stemmer
	tallies map[string]*tally
	left    int
}

func (c *termCounter) add(text string, weight int) {
	// Words have two bytes at least; the rest could not be counted anyway.
	const bytesPerToken = 16
	if limit := c.left * bytesPerToken; len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	tokens := c.words.tokens(text)
	tokens = tokens[:min(len(tokens), c.left)]
	c.left -= len(tokens)
	for i := range tokens {
		for n := 1; n <= maxGram && i+n <= len(tokens); n++ {
			last := tokens[i+n-1]
			if last.stop || n > 1 && (!last.joined || last.cjk != tokens[i].cjk) {
				break
			}
			c.count(tokens[i:i+n], weight)
		}
	}
}

func (c *termCounter) count(gram []token, weight int) {
	separator := " "
	if gram[0].cjk {
		separator = ""
	}
	keys, texts := make([]string, len(gram)), make([]string, len(gram))
	for i, t := range gram {
		keys[i], texts[i] = t.key, t.text
	}
	key := strings.Join(keys, separator)
	if !worthCounting(gram, key) {
		return
	}
	t := c.tallies[key]
	if t == nil {
		t = &tally{words: len(gram), surfaces: make(map[string]int, 1)}
		c.tallies[key] = t
	}
	t.count += weight
	t.marked = t.marked || weight > 1
	t.surfaces[strings.Join(texts, separator)]++
}

func worthCounting(gram []token, key string) bool {
	if !strings.ContainsFunc(key, unicode.IsLetter) {
		return false
	}
	if len(gram) > 1 {
		return true
	}
	if gram[0].cjk {
		return false
	}
	return utf8.RuneCountInString(gram[0].text) >= 3 || gram[0].text == strings.ToUpper(gram[0].text)
}

func (c *termCounter) terms() []term {
	terms := make([]term, 0, len(c.tallies))
	for key, t := range c.tallies {
		if t.words > 1 && t.count < 2 && !t.marked {
			continue
		}
		terms = append(terms, term{key: key, text: surface(t.surfaces), count: t.count, words: t.words})
	}
	slices.SortFunc(terms, func(a, b term) int {
		return cmp.Or(
			cmp.Compare(float64(b.count)*b.weight(), float64(a.count)*a.weight()),
			cmp.Compare(a.key, b.key))
	})
	return slices.Clone(terms[:min(len(terms), maxTerms)])
}

// surface returns the most frequent form; of equal ones the one with the fewest
// capitals, which is least likely to come from the beginning of a sentence.
func surface(surfaces map[string]int) string {
	best := ""
	for text, n := range surfaces {
		if best == "" || cmp.Or(
			cmp.Compare(n, surfaces[best]), cmp.Compare(capitals(best), capitals(text)), cmp.Compare(best, text)) > 0 {
			best = text
		}
	}
	return best
}

func capitals(s string) int {
	n := 0
	for _, r := range s {
		if unicode.IsUpper(r) {
			n++
		}
	}
	return n
}

// pickKeyTerms takes the best terms that do not repeat each other. ranked is sorted.
func pickKeyTerms(ranked []term) []term {
	var picked []term
	for _, t := range ranked {
		if len(picked) == maxKeyTerms {
			break
		}
		inside := slices.ContainsFunc(picked, func(p term) bool {
			return containsWords(p.key, t.key) && t.count < 2*p.count
		})
		if !inside && len(t.text) <= maxLabel {
			picked = append(picked, t)
		}
	}
	return picked
}

// containsWords reports whether the words of part follow each other in whole.
func containsWords(whole, part string) bool {
	if !strings.Contains(whole, " ") {
		return strings.Contains(whole, part)
	}
	return strings.Contains(" "+whole+" ", " "+part+" ")
}
