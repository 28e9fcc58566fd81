package bm25

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"unicode"
)

func build(t testing.TB, texts ...string) []byte {
	t.Helper()
	var passages []Passage
	for i, text := range texts {
		passages = append(passages, Passage{ID: fmt.Sprint("p", i), Text: text})
	}
	data, err := Build(Key{1}, []byte("a note"), slices.Values(passages))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func index(t testing.TB, texts ...string) *Index {
	t.Helper()
	x, err := Parse(build(t, texts...))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// slow is BM25 as it is written down, in double precision over every passage.
func slow(texts []string, query string) []float64 {
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
		})
	}
	var lists [][]string
	total := 0.0
	for _, text := range texts {
		lists = append(lists, words(text))
		total += float64(len(words(text)))
	}
	scores := make([]float64, len(texts))
	for _, word := range words(query) {
		n := 0.0
		for _, list := range lists {
			if slices.Contains(list, word) {
				n++
			}
		}
		for i, list := range lists {
			count := 0.0
			for _, w := range list {
				if w == word {
					count++
				}
			}
			if count > 0 {
				norm := 0.9 * (1 - 0.4 + 0.4*float64(len(list))/(total/float64(len(texts))))
				scores[i] += math.Log(1+(float64(len(texts))-n+0.5)/(n+0.5)) * count * 1.9 / (count + norm)
			}
		}
	}
	return scores
}

// Random passages and queries: the same scores as the slow way and the same order, where
// the scores are not as good as equal.
func TestAgainstSlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("the The of city, River É été İx 12 3 a-b naïve x. Salt moon über 日本")
	text := func(n int) string {
		var words []string
		for range n {
			words = append(words, vocabulary[min(rng.IntN(len(vocabulary)), rng.IntN(len(vocabulary)))])
		}
		return strings.Join(words, " ")
	}
	for round := range 40 {
		var texts []string
		for range 1 + rng.IntN(30) {
			texts = append(texts, text(rng.IntN(20)))
		}
		x := index(t, texts...)
		for range 10 {
			query := text(rng.IntN(8))
			want := slow(texts, query)
			var order []int
			for i := range texts {
				if want[i] > 0 {
					order = append(order, i)
				}
			}
			sort.SliceStable(order, func(a, b int) bool { return want[order[a]] > want[order[b]]+1e-5 })
			hits := x.Search(query, len(texts))
			if len(hits) != len(order) {
				t.Fatalf("round %d, %q: %d hits, want %d", round, query, len(hits), len(order))
			}
			for i, hit := range hits {
				if math.Abs(float64(hit.Score)-want[hit.Passage]) > 1e-4 || want[order[i]]-want[hit.Passage] > 1e-4 {
					t.Errorf("round %d, %q: place %d is passage %d with %f, want %d with %f", round, query, i, hit.Passage, hit.Score, order[i], want[order[i]])
				}
			}
			for k := range 4 {
				if got := x.Search(query, k); !slices.Equal(got, hits[:min(k, len(hits))]) {
					t.Errorf("round %d, %q: the best %d are %v, of all %v", round, query, k, got, hits)
				}
			}
		}
	}
}

func TestTiesKeepTheOrder(t *testing.T) {
	x := index(t, "red stone", "blue stone", "red stone", "red stone", "stone blue")
	for _, k := range []int{1, 2, 3, 9} {
		var got []int
		for _, hit := range x.Search("RED!", k) {
			got = append(got, hit.Passage)
		}
		if want := []int{0, 2, 3}[:min(k, 3)]; !slices.Equal(got, want) {
			t.Errorf("the best %d are %v, want %v", k, got, want)
		}
	}
}

func TestSearchBounds(t *testing.T) {
	x := index(t, "red stone", "")
	for _, c := range []struct {
		query string
		k     int
		hits  int
	}{{"red", 1, 1}, {"red", 0, 0}, {"red", -1, 0}, {"", 5, 0}, {"green", 5, 0}, {" .,;", 5, 0}, {"\xff red", 5, 1},
		{strings.Repeat("green ", maxQueryWords) + "red", 5, 0}, {strings.Repeat("red ", 1<<16), 5, 1}} {
		if got := x.Search(c.query, c.k); len(got) != c.hits {
			t.Errorf("%.20q, %d: %v", c.query, c.k, got)
		}
	}
	if p := x.Passage(0); p != (Passage{ID: "p0", Text: "red stone"}) || x.Len() != 2 || string(x.Note()) != "a note" {
		t.Errorf("%+v of %d, note %q", p, x.Len(), x.Note())
	}
	if got := index(t).Search("red", 3); got != nil {
		t.Errorf("nothing indexed: %v", got)
	}
	if !bytes.Equal(build(t, "red", "a b"), build(t, "red", "a b")) {
		t.Error("the same passages make other bytes")
	}
}

// A stored index is mapped; another key, a cut and a changed byte are noticed.
func TestStore(t *testing.T) {
	data := build(t, "red stone", "blue stone")
	path := filepath.Join(t.TempDir(), "deep", "x.idx")
	if err := Store(path, data); err != nil {
		t.Fatal(err)
	}
	x, err := Open(path, Key{1})
	if err != nil || !x.Mapped() {
		t.Fatal(err)
	}
	if hits := x.Search("blue", 3); len(hits) != 1 || x.Passage(hits[0].Passage).ID != "p1" {
		t.Errorf("%v", hits)
	}
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Error(err)
	}
	if _, err := Open(path, Key{2}); !errors.Is(err, ErrKey) {
		t.Errorf("another key: %v", err)
	}
	if _, err := Open(path+"x", Key{1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, n := range []int{0, 1, headerSize - 1, headerSize, len(data) - 1} {
		if err := Store(path, data[:n]); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Key{1}); !errors.Is(err, ErrFormat) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x10
		if y, err := Parse(bad); err == nil && y.header.key == (Key{1}) {
			t.Errorf("byte %d changed and nobody noticed", i)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := Store(filepath.Join(path, "below"), data); err == nil {
		t.Error("stored below a file")
	}
}

// Many goroutines share one index and get what one gets.
func TestSideBySide(t *testing.T) {
	x := index(t, "red stone", "blue stone", "red red moon", "moon")
	queries := []string{"red", "stone moon", "blue moon red", "none"}
	var want [][]Hit
	for _, q := range queries {
		want = append(want, x.Search(q, 3))
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := range 400 {
				if got := x.Search(queries[i%4], 3); !slices.Equal(got, want[i%4]) {
					t.Errorf("%q: %v, alone %v", queries[i%4], got, want[i%4])
				}
			}
		})
	}
	wait.Wait()
}

// Bytes that are no index are refused; what passes can be searched to its end, whatever
// stands in it. The checksum is set right so that the checks behind it are reached.
func FuzzParse(f *testing.F) {
	f.Add(build(f, "red stone", "", "blue"), "red blue")
	f.Add(build(f), "x")
	f.Fuzz(func(t *testing.T, data []byte, query string) {
		if len(data) >= headerSize {
			data = bytes.Clone(data)
			h, err := decodeHeader(data)
			if err == nil {
				h.sum = checksum(data[headerSize:])
				copy(data, h.encode())
			}
		}
		x, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v", err)
			}
			return
		}
		for _, hit := range x.Search(query, 5) {
			x.Passage(hit.Passage)
		}
	})
}
