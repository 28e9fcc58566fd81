package lookup

import (
	"math"
	"sort"
	"strings"
	"unicode"
)

// BM25 as in spec/nano.md section 3.1.
const (
	bm25K = 0.9
	bm25B = 0.4
)

// index ranks passages by BM25 over lower-cased words. It is read-only once built.
type index struct {
	postings map[string][]posting
	lengths  []float64 // words of each passage
	mean     float64   // words of a passage on average
}

type posting struct {
	passage int
	count   float64
}

func newIndex(passages []string) *index {
	x := &index{postings: map[string][]posting{}, lengths: make([]float64, len(passages))}
	total := 0.0
	for i, passage := range passages {
		list := words(passage)
		x.lengths[i] = float64(len(list))
		total += x.lengths[i]
		for _, word := range list {
			found := x.postings[word]
			if len(found) > 0 && found[len(found)-1].passage == i {
				found[len(found)-1].count++
				continue
			}
			x.postings[word] = append(found, posting{passage: i, count: 1})
		}
	}
	x.mean = total / float64(max(len(passages), 1))
	return x
}

// words are the runs of letters and digits, lower-cased.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// search returns the numbers of at most k passages that hold a word of the query, best
// first; equal scores in the order of the passages.
func (x *index) search(query string, k int) []int {
	scores := make([]float64, len(x.lengths))
	for _, word := range words(query) {
		list := x.postings[word]
		if len(list) == 0 {
			continue
		}
		n := float64(len(list))
		idf := math.Log(1 + (float64(len(x.lengths))-n+0.5)/(n+0.5))
		for _, p := range list {
			norm := bm25K * (1 - bm25B + bm25B*x.lengths[p.passage]/x.mean)
			scores[p.passage] += idf * p.count * (bm25K + 1) / (p.count + norm)
		}
	}
	var found []int
	for i, score := range scores {
		if score > 0 {
			found = append(found, i)
		}
	}
	sort.SliceStable(found, func(a, b int) bool { return scores[found[a]] > scores[found[b]] })
	return found[:min(k, len(found))]
}
