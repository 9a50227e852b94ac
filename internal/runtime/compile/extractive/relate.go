package extractive

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
)

const (
	// maxVector bounds the terms a document is compared by.
	maxVector = 64
	// maxNeighbours bounds what is kept of the comparison.
	maxNeighbours = 24
	// maxRelated bounds the related pages a page lists.
	maxRelated = 5
	// minRelated is how alike two pages are that are called related at all, and
	// minTogether how alike two are that belong together.
	minRelated  = 0.04
	minTogether = 0.12
	// commonPart of the documents is how many a term may occur in and still tell
	// them apart; small sets of documents have no common terms.
	commonPart = 0.4
	smallSet   = 8
	minGroup   = 4
)

// weight is a term of a document's vector, in the order of term numbers.
type weight struct {
	term  int
	value float64
	text  string
}

// neighbour is a document that is like another.
type neighbour struct {
	doc   int
	value float64
}

// cluster is a group of related documents.
type cluster struct {
	label string
	docs  []int
}

// relate compares all documents by their terms. All sums run in a fixed order.
func (w *wiki) relate(ctx context.Context) error {
	df := make(map[string]int)
	for _, d := range w.docs {
		for _, t := range d.terms {
			df[t.key]++
		}
	}
	numbers := make(map[string]int, len(df))
	for _, d := range w.docs {
		d.weigh(df, numbers, len(w.docs))
	}
	if err := w.findNeighbours(ctx, len(numbers)); err != nil {
		return err
	}
	w.cluster()
	return nil
}

// weigh ranks a document's terms by TF-IDF, and sets what follows from that: its key
// terms, summary and vector.
func (d *document) weigh(df, numbers map[string]int, total int) {
	idf := func(t term) float64 { return math.Log(1 + float64(total)/float64(df[t.key])) }
	score := func(t term) float64 { return (1 + math.Log(float64(t.count))) * idf(t) * t.weight() }
	ranked := slices.Clone(d.terms)
	slices.SortFunc(ranked, func(a, b term) int {
		return cmp.Or(
			cmp.Compare(score(b), score(a)),
			cmp.Compare(a.key, b.key))
	})
	var keys []string
	for _, t := range pickKeyTerms(ranked) {
		d.keyTerms, keys = append(d.keyTerms, t.text), append(keys, t.key)
	}
	d.summarise(keys)
	var norm float64
	for _, t := range ranked {
		// What no other document has makes this one like no other: it would only
		// drown what they share.
		if df[t.key] == 1 && total > 1 || len(d.vector) == maxVector {
			continue
		}
		number, known := numbers[t.key]
		if !known {
			number = len(numbers)
			numbers[t.key] = number
		}
		value := score(t)
		norm += value * value
		d.vector = append(d.vector, weight{term: number, value: value, text: t.text})
	}
	norm = math.Sqrt(norm)
	for i := range d.vector {
		d.vector[i].value /= norm
	}
	slices.SortFunc(d.vector, func(a, b weight) int { return cmp.Compare(a.term, b.term) })
	d.terms = nil
}

func (w *wiki) findNeighbours(ctx context.Context, terms int) error {
	postings := make([][]neighbour, terms)
	w.spread = make([]int, terms)
	for i, d := range w.docs {
		for _, t := range d.vector {
			postings[t.term] = append(postings[t.term], neighbour{doc: i, value: t.value})
			w.spread[t.term]++
		}
	}
	limit := max(smallSet, int(commonPart*float64(len(w.docs))))
	sums := make([]float64, len(w.docs))
	for i, d := range w.docs {
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(sums)
		for _, t := range d.vector {
			if len(postings[t.term]) > limit {
				continue
			}
			for _, other := range postings[t.term] {
				sums[other.doc] += t.value * other.value
			}
		}
		d.neighbours = nearest(sums, i)
	}
	return nil
}

func nearest(sums []float64, self int) []neighbour {
	var out []neighbour
	for i, value := range sums {
		if i != self && value >= minRelated {
			out = append(out, neighbour{doc: i, value: value})
		}
	}
	slices.SortFunc(out, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.doc, b.doc))
	})
	return slices.Clone(out[:min(len(out), maxNeighbours)])
}

// sharedTerms returns the terms that make two documents alike, best first.
func sharedTerms(a, b *document, limit int) []string {
	var common []weight
	for i, j := 0, 0; i < len(a.vector) && j < len(b.vector); {
		switch x, y := a.vector[i], b.vector[j]; {
		case x.term < y.term:
			i++
		case x.term > y.term:
			j++
		default:
			common = append(common, weight{term: x.term, value: x.value * y.value, text: x.text})
			i, j = i+1, j+1
		}
	}
	slices.SortFunc(common, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.term, b.term))
	})
	return distinct(common, limit)
}

// distinct returns the texts of the first weights of which none is part of another.
// A phrase takes the place of a word of it that weighs little more.
func distinct(weights []weight, limit int) []string {
	const littleMore = 0.5
	var out []weight
	for _, c := range weights {
		if len(c.text) > maxLabel {
			continue
		}
		near := slices.IndexFunc(out, func(o weight) bool {
			a, b := strings.ToLower(o.text), strings.ToLower(c.text)
			return strings.Contains(a, b) || strings.Contains(b, a)
		})
		switch {
		case near < 0 && len(out) < limit:
			out = append(out, c)
		case near >= 0 && len(c.text) > len(out[near].text) && c.value > littleMore*out[near].value:
			out[near] = c
		}
	}
	texts := make([]string, len(out))
	for i, o := range out {
		texts[i] = o.text
	}
	return texts
}

// cluster groups documents around those that are like most others. What is left
// alone joins the group of its nearest neighbour, if it has one.
func (w *wiki) cluster() {
	group := make([]int, len(w.docs))
	for i := range group {
		group[i] = -1
	}
	// Groups of about the root of all keep both the groups and their number small.
	largest := max(minGroup, int(math.Ceil(math.Sqrt(float64(len(w.docs)))))+1)
	var members [][]int
	for _, center := range w.byCentrality() {
		if group[center] >= 0 {
			continue
		}
		found := []int{center}
		for _, n := range w.docs[center].neighbours {
			if n.value >= minTogether && group[n.doc] < 0 && len(found) < largest {
				found = append(found, n.doc)
			}
		}
		if len(found) == 1 {
			continue
		}
		for _, doc := range found {
			group[doc] = len(members)
		}
		members = append(members, found)
	}
	var alone []int
	for i, d := range w.docs {
		if group[i] >= 0 {
			continue
		}
		home := slices.IndexFunc(d.neighbours, func(n neighbour) bool { return group[n.doc] >= 0 })
		if home < 0 {
			alone = append(alone, i)
			continue
		}
		at := group[d.neighbours[home].doc]
		members[at] = append(members[at], i)
	}
	for _, docs := range members {
		w.clusters = append(w.clusters, cluster{label: w.label(docs), docs: w.byTitle(docs)})
	}
	if len(alone) > 0 {
		w.clusters = append(w.clusters, cluster{docs: w.byTitle(alone)})
	}
}

func (w *wiki) byCentrality() []int {
	order, central := make([]int, len(w.docs)), make([]float64, len(w.docs))
	for i, d := range w.docs {
		order[i] = i
		for _, n := range d.neighbours {
			central[i] += n.value
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(central[b], central[a]), cmp.Compare(a, b))
	})
	return order
}

func (w *wiki) byTitle(docs []int) []int {
	slices.SortFunc(docs, func(a, b int) int {
		return cmp.Or(cmp.Compare(w.docs[a].title, w.docs[b].title), cmp.Compare(a, b))
	})
	return docs
}

// label names a cluster by terms of at least two members.
func (w *wiki) label(docs []int) string { return strings.Join(w.topTerms(docs, 2, 2), ", ") }

// topTerms returns terms of at least shared of the documents: those that weigh most
// there and occur least elsewhere.
func (w *wiki) topTerms(docs []int, shared, limit int) []string {
	sums := make(map[int]weight)
	members := make(map[int]int)
	for _, doc := range docs {
		for _, t := range w.docs[doc].vector {
			sum, known := sums[t.term]
			if !known {
				sum = weight{term: t.term, text: t.text}
			}
			sum.value += t.value
			sums[t.term] = sum
			members[t.term]++
		}
	}
	var weights []weight
	for number, sum := range sums {
		if members[number] >= shared {
			sum.value *= float64(members[number]) / float64(w.spread[number])
			weights = append(weights, sum)
		}
	}
	slices.SortFunc(weights, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.term, b.term))
	})
	return distinct(weights, limit)
}
