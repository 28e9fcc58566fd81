// Package bm25 is a full-text index over passages that fits one file: built once,
// stored under a key, mapped into memory and searched from many goroutines.
//
// Scores are Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework",
// 2009) with the always positive idf log(1 + (N-n+.5)/(n+.5)). Words are runs of letters
// and digits in lower case; there are no stop words and no stemming. Equal scores are
// ranked in the order of the passages, and sums are made in one fixed order, so that an
// index gives one answer to a query, whoever asks how often.
//
// What it may not know: questions, tasks, file formats of a corpus.
// What it does not cover: corpora that don't fit into memory while they are indexed (a
// passage takes about three times its text), phrases, and changes to an index.
package bm25

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"unicode"
)

// Parameters of BM25, as in shared/data/README.md.
const (
	K1 = 0.9
	B  = 0.4
)

// maxQueryWords bounds a query; the words after the first so many count for nothing.
const maxQueryWords = 256

// Errors of an index file.
var (
	// ErrFormat: the bytes are no index, or a damaged one.
	ErrFormat = errors.New("not a whole index file")
	// ErrKey: the index was made from other passages.
	ErrKey = errors.New("the index belongs to other passages")
)

// Key names what an index was made from.
type Key [32]byte

// Passage is one entry of a corpus.
type Passage struct {
	ID   string
	Text string
}

// Hit is one passage that a search found.
type Hit struct {
	Passage int // its number, from 0
	Score   float32
}

// Index searches passages. It is read-only and safe for concurrent use.
type Index struct {
	data     []byte
	header   header
	scores   sync.Pool // *[]float32, one score per passage, all zero
	unmap    func() error
	mapped   bool
	passages int
}

// Len is the number of passages.
func (x *Index) Len() int { return x.passages }

// Note is what Build was given to keep beside the index. It is valid until Close.
func (x *Index) Note() []byte { return x.section(noteSection) }

// Mapped tells whether the index lies in a file that the system pages in on demand.
func (x *Index) Mapped() bool { return x.mapped }

// Passage returns the passage of a hit; its strings stay valid after Close.
func (x *Index) Passage(i int) Passage {
	return Passage{ID: x.cell(idSection, idEnds, i), Text: x.cell(textSection, textEnds, i)}
}

// Close gives a mapped file back. No search may be running or follow.
func (x *Index) Close() error {
	if x.unmap == nil {
		return nil
	}
	unmap := x.unmap
	x.unmap, x.data = nil, nil
	return unmap()
}

// Search returns at most k passages that hold a word of the query, best first, equal
// scores in the order of the passages. Every repetition of a word in the query counts.
func (x *Index) Search(query string, k int) []Hit {
	if k < 1 || x.passages == 0 {
		return nil
	}
	scores, _ := x.scores.Get().(*[]float32)
	if scores == nil {
		fresh := make([]float32, x.passages)
		scores = &fresh
	}
	for _, term := range x.terms(query) {
		add(*scores, term.postings, term.count)
	}
	hits := best(*scores, k)
	clear(*scores)
	x.scores.Put(scores)
	return hits
}

// term is a word of a query with its postings.
type term struct {
	at       int // in the dictionary
	count    float32
	postings []byte
}

// terms are the words of a query that the index knows, in the order in which they first
// occur in the query.
func (x *Index) terms(query string) []term {
	var list []term
	n := 0
	Words(query, func(word []byte) bool {
		n++
		at := x.find(word)
		if at < 0 {
			return n < maxQueryWords
		}
		for i := range list {
			if list[i].at == at {
				list[i].count++
				return n < maxQueryWords
			}
		}
		list = append(list, term{at: at, count: 1, postings: x.postings(at)})
		return n < maxQueryWords
	})
	return list
}

// add adds the weights of one word: scores[p] += count * weight.
func add(scores []float32, postings []byte, count float32) {
	for len(postings) >= postingSize {
		passage := binary.LittleEndian.Uint32(postings)
		weight := math.Float32frombits(binary.LittleEndian.Uint32(postings[4:]))
		// The conversion keeps compilers from fusing the two operations, which would
		// round differently on other machines.
		scores[passage] += float32(count * weight)
		postings = postings[postingSize:]
	}
}

// best picks the k highest positive scores.
func best(scores []float32, k int) []Hit {
	hits := make([]Hit, 0, min(k, 16)+1)
	least := float32(0)
	for i, score := range scores {
		if score <= least {
			continue
		}
		at := len(hits)
		for at > 0 && hits[at-1].Score < score {
			at--
		}
		hits = append(hits, Hit{})
		copy(hits[at+1:], hits[at:])
		hits[at] = Hit{Passage: i, Score: score}
		if len(hits) > k {
			hits = hits[:k]
		}
		if len(hits) == k {
			least = hits[k-1].Score
		}
	}
	return hits
}

// Words calls use with each word of a text: the runs of letters, digits and marks, in
// lower case, until use returns false. The bytes are valid during the call only.
func Words(text string, use func(word []byte) bool) {
	var buffer [64]byte
	word := buffer[:0]
	for _, r := range text {
		switch {
		case r < 0x80 && ascii[r] != 0:
			word = append(word, ascii[r])
			continue
		case r >= 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			word = append(word, strings.ToLower(string(r))...)
			continue
		case len(word) == 0:
			continue
		}
		if !use(word) {
			return
		}
		word = word[:0]
	}
	if len(word) > 0 {
		use(word)
	}
}

// ascii maps a byte to its form in words, 0 for what ends a word.
var ascii = func() (table [0x80]byte) {
	for c := range table {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			table[c] = byte(c)
		case c >= 'A' && c <= 'Z':
			table[c] = byte(c) + 'a' - 'A'
		}
	}
	return table
}()
