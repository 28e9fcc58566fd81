package lookup

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench"
)

// score is BM25 by the book (spec/nano.md section 3.1), passage by passage.
func score(query string, passage int, passages [][]string) float64 {
	length := 0
	for _, p := range passages {
		length += len(p)
	}
	mean := float64(length) / float64(len(passages))
	sum := 0.0
	for _, word := range words(query) {
		holding, count := 0.0, 0.0
		for i, p := range passages {
			if slices.Contains(p, word) {
				holding++
			}
			for _, w := range p {
				if i == passage && w == word {
					count++
				}
			}
		}
		idf := math.Log(1 + (float64(len(passages))-holding+.5)/(holding+.5))
		sum += idf * count * 1.9 / (count + .9*(.6+.4*float64(len(passages[passage]))/mean))
	}
	return sum
}

// A search finds what the formula puts in front, the earlier passage of equals.
func TestSearch_formula(t *testing.T) {
	texts := []string{
		"red red red blue", "red green", "green red", "blue blue grey and much else that makes this one long, red too",
		"grey", "Grey blue!", "red", "nothing of it", "blue red green grey", "red red", "green", "red 7", "red 8", "red 9"}
	var passages [][]string
	for _, text := range texts {
		passages = append(passages, words(text))
	}
	x := newIndex(texts)
	rng := bench.Rand(5, "queries")
	colours := strings.Fields("red green blue grey red-blue 7 pink")
	for range 200 {
		var query []string
		for range 1 + rng.IntN(4) {
			query = append(query, colours[rng.IntN(len(colours))])
		}
		text := strings.Join(query, " ")
		var want []int
		for i := range texts {
			if score(text, i, passages) > 0 {
				want = append(want, i)
			}
		}
		slices.SortStableFunc(want, func(a, b int) int {
			switch d := score(text, a, passages) - score(text, b, passages); {
			case d > 1e-9:
				return -1
			case d < -1e-9:
				return 1
			}
			return 0
		})
		want = want[:min(5, len(want))]
		if got := x.search(text, 5); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q finds %v, want %v", text, got, want)
		}
	}
}
