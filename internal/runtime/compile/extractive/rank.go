package extractive

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Bounds of a summary.
const (
	minSummary = 4
	maxSummary = 7
	// maxCandidates bounds what is kept of a document until its summary is chosen.
	maxCandidates = 60
	// maxOverlap is how much of a sentence's words another one may share.
	maxOverlap = 0.7
)

// sentence is a candidate for a summary.
type sentence struct {
	text string
	// stems are the keys of its words, sorted, each once.
	stems []string
	// lead marks the first sentence of a paragraph.
	lead  bool
	order int
	score float64
}

// nominate finds the sentences a summary is chosen from. When none qualifies, a
// block that is short enough may stand whole.
func (d *document) nominate(words *stemmer, blocks []block) {
	candidates := findSentences(words, blocks)
	rank(candidates, stemsOf(words.tokens(d.title)))
	// A longer text gets a longer summary, up to a bound.
	d.summaryLimit = min(max((len(candidates)+2)/3, minSummary), maxSummary)
	if len(candidates) == 0 {
		candidates = findFragments(words, blocks)
		d.summaryLimit = 1
	}
	slices.SortStableFunc(candidates, func(a, b sentence) int { return cmp.Compare(b.score, a.score) })
	d.candidates = slices.Clone(candidates[:min(len(candidates), maxCandidates)])
}

// summarise chooses the summary among the candidates, once the key terms are known.
// keys are those of the key terms, the best first.
func (d *document) summarise(keys []string) {
	chosen := choose(d.candidates, keys, d.summaryLimit)
	d.candidates = nil
	if len(chosen) == 0 {
		return
	}
	best := slices.MaxFunc(chosen, func(a, b sentence) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(b.order, a.order))
	})
	slices.SortFunc(chosen, func(a, b sentence) int { return cmp.Compare(a.order, b.order) })
	// A document's first sentence most often says what it is about.
	if chosen[0].order == 0 {
		best = chosen[0]
	}
	d.lead = leadOf(best.text)
	for _, s := range chosen {
		d.summary = append(d.summary, s.text)
	}
}

// findSentences returns the first sentences that are fit to be quoted by length and
// ending.
func findSentences(words *stemmer, blocks []block) []sentence {
	var out []sentence
	seen := make(map[string]bool)
	for _, b := range blocks {
		for i, text := range splitSentences(b.raw) {
			if len(out) == maxSentences {
				return out
			}
			// Longer in bytes than any quotable one can be: not worth a look.
			if len(text) > 4*maxSentenceRunes || seen[text] || !endsSentence(text) {
				continue
			}
			tokens := words.tokens(text)
			if !isQuotableLength(text, tokens) {
				continue
			}
			seen[text] = true
			out = append(out, sentence{text: text, stems: stemsOf(tokens), lead: i == 0, order: len(out)})
		}
	}
	return out
}

// findFragments returns short blocks whole, whatever their ending.
func findFragments(words *stemmer, blocks []block) []sentence {
	var out []sentence
	for _, b := range blocks[:min(len(blocks), maxSentences)] {
		if text := strings.TrimSpace(b.raw); text != "" && len(text) <= maxSentenceRunes {
			out = append(out, sentence{text: text, stems: stemsOf(words.tokens(text)), order: len(out)})
		}
	}
	return out
}

// stemsOf returns the keys of tokens that say something. Characters of scripts
// without spaces count in pairs.
func stemsOf(tokens []token) []string {
	var stems []string
	for i, t := range tokens {
		switch {
		case t.stop:
		case !t.cjk:
			stems = append(stems, t.key)
		case i > 0 && t.joined && tokens[i-1].cjk && !tokens[i-1].stop:
			stems = append(stems, tokens[i-1].key+t.key)
		}
	}
	slices.Sort(stems)
	return slices.Compact(stems)
}

// choose takes, one after the other, the sentence with the best score and the most
// key terms that no earlier one has, among those that can be quoted and do not
// repeat an earlier one.
func choose(candidates []sentence, keys []string, limit int) []sentence {
	var chosen []sentence
	left := slices.Clone(candidates)
	covered := make([]bool, len(keys))
	for len(chosen) < limit && len(left) > 0 {
		best, bestGain := 0, -1.0
		for i, s := range left {
			if gain := s.score + newTerms(s, keys, covered); gain > bestGain {
				best, bestGain = i, gain
			}
		}
		s := left[best]
		left = slices.Delete(left, best, best+1)
		repeats := slices.ContainsFunc(chosen, func(c sentence) bool { return overlap(s.stems, c.stems) > maxOverlap })
		if repeats || !quotable(s.text) {
			continue
		}
		chosen = append(chosen, s)
		for i, key := range keys {
			covered[i] = covered[i] || s.holds(key)
		}
	}
	return chosen
}

// newTerms weighs the key terms a sentence would add to a summary.
func newTerms(s sentence, keys []string, covered []bool) float64 {
	const each = 0.2
	sum := 0.0
	for i, key := range keys {
		if !covered[i] && s.holds(key) {
			sum += each
		}
	}
	return sum
}

// holds reports whether a sentence has all words of a term.
func (s sentence) holds(key string) bool {
	for word := range strings.FieldsSeq(key) {
		if _, found := slices.BinarySearch(s.stems, word); !found {
			return false
		}
	}
	return true
}

// overlap returns which part of the smaller set the other one shares.
func overlap(a, b []string) float64 {
	smaller := min(len(a), len(b))
	if smaller == 0 {
		return 0
	}
	return float64(shared(a, b)) / float64(smaller)
}

// shared counts the common items of two sorted lists.
func shared(a, b []string) int {
	n := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch order := strings.Compare(a[i], b[j]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			n, i, j = n+1, i+1, j+1
		}
	}
	return n
}

// rank scores sentences: by TextRank (how much they share with sentences that
// themselves share much), by place, and by words of the title.
func rank(sentences []sentence, title []string) {
	const (
		openingBonus = 0.7
		leadBonus    = 0.15
		titleBonus   = 0.25
	)
	central := textRank(sentences)
	for i := range sentences {
		s := &sentences[i]
		s.score = central[i] + titleBonus*overlap(title, s.stems)
		if s.lead {
			s.score += leadBonus
		}
		if i == 0 {
			s.score += openingBonus
		}
	}
}

// textRank returns the rank of each sentence, the highest being 1. It runs over
// slices in order only, so that sums come out the same each time.
func textRank(sentences []sentence) []float64 {
	const (
		damping = 0.85
		rounds  = 30
	)
	n := len(sentences)
	weights := make([]float64, n*n)
	sums := make([]float64, n)
	for i := range n {
		for j := range i {
			w := similarity(sentences[i].stems, sentences[j].stems)
			weights[i*n+j], weights[j*n+i] = w, w
			sums[i] += w
			sums[j] += w
		}
	}
	ranks, next := make([]float64, n), make([]float64, n)
	for i := range ranks {
		ranks[i] = 1
	}
	for range rounds {
		for i := range n {
			in := 0.0
			for j := range n {
				if w := weights[i*n+j]; w > 0 {
					in += w / sums[j] * ranks[j]
				}
			}
			next[i] = 1 - damping + damping*in
		}
		ranks, next = next, ranks
	}
	highest := 1.0
	if n > 0 {
		highest = slices.Max(ranks)
	}
	for i := range ranks {
		ranks[i] /= highest
	}
	return ranks
}

func similarity(a, b []string) float64 {
	common := shared(a, b)
	if common == 0 {
		return 0
	}
	// Adding one keeps sentences of one word from dividing by zero.
	return float64(common) / (math.Log(float64(len(a)+1)) + math.Log(float64(len(b)+1)))
}
