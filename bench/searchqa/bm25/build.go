package bm25

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"iter"
	"math"
	"slices"
)

// ErrSize: more passages than an index can number.
var ErrSize = errors.New("too many passages for one index")

// Build indexes passages and returns the bytes of an index file for Store and Parse. The
// note is kept as it is. The same passages give the same bytes
// on processors of one kind.
func Build(key Key, note []byte, passages iter.Seq[Passage]) ([]byte, error) {
	b := builder{terms: map[string]int{}}
	for p := range passages {
		if len(b.lengths) == math.MaxUint32 {
			return nil, ErrSize
		}
		b.add(p)
	}
	return b.file(key, note), nil
}

// builder collects what an index is made of.
type builder struct {
	terms    map[string]int // word -> its place in counts
	counts   [][]occurrence // of each word, in the order of the passages
	lengths  []int          // words of each passage
	total    int
	text, id []byte
	textEnd  []byte
	idEnd    []byte
}

type occurrence struct {
	passage uint32
	count   uint32
}

func (b *builder) add(p Passage) {
	passage, length := uint32(len(b.lengths)), 0
	Words(p.Text, func(word []byte) bool {
		length++
		at, ok := b.terms[string(word)]
		if !ok {
			at = len(b.counts)
			b.terms[string(word)] = at
			b.counts = append(b.counts, nil)
		}
		list := b.counts[at]
		if n := len(list); n > 0 && list[n-1].passage == passage {
			list[n-1].count++
			return true
		}
		b.counts[at] = append(list, occurrence{passage: passage, count: 1})
		return true
	})
	b.lengths = append(b.lengths, length)
	b.total += length
	b.text = append(b.text, p.Text...)
	b.textEnd = binary.LittleEndian.AppendUint64(b.textEnd, uint64(len(b.text)))
	b.id = append(b.id, p.ID...)
	b.idEnd = binary.LittleEndian.AppendUint64(b.idEnd, uint64(len(b.id)))
}

// file lays out the sections.
func (b *builder) file(key Key, note []byte) []byte {
	words := make([]string, 0, len(b.terms))
	for word := range b.terms {
		words = append(words, word)
	}
	slices.Sort(words)
	var terms, termEnd, postings, postingEnd []byte
	mean := float64(b.total) / float64(max(len(b.lengths), 1))
	for _, word := range words {
		postings = b.weigh(postings, b.counts[b.terms[word]], mean)
		postingEnd = binary.LittleEndian.AppendUint64(postingEnd, uint64(len(postings)))
		terms = append(terms, word...)
		termEnd = binary.LittleEndian.AppendUint64(termEnd, uint64(len(terms)))
	}
	h := header{key: key, passages: uint64(len(b.lengths)), terms: uint64(len(words))}
	parts := [sections][]byte{noteSection: note, textEnds: b.textEnd, idEnds: b.idEnd, termEnds: termEnd,
		postingEnds: postingEnd, postingSection: postings, termSection: terms, idSection: b.id, textSection: b.text}
	size := uint64(0)
	for i, part := range parts {
		size += uint64(len(part))
		h.ends[i] = size
		h.sum = crc32.Update(h.sum, castagnoli, part)
	}
	data := make([]byte, 0, headerSize+int(size))
	data = append(data, h.encode()...)
	for _, part := range parts {
		data = append(data, part...)
	}
	return data
}

// weigh appends the postings of one word: what each occurrence adds to a passage's score.
func (b *builder) weigh(postings []byte, list []occurrence, mean float64) []byte {
	n := float64(len(list))
	idf := math.Log(1 + (float64(len(b.lengths))-n+0.5)/(n+0.5))
	for _, o := range list {
		count := float64(o.count)
		norm := K1 * (1 - B + B*float64(b.lengths[o.passage])/mean)
		weight := float32(idf * count * (K1 + 1) / (count + norm))
		postings = binary.LittleEndian.AppendUint32(postings, o.passage)
		postings = binary.LittleEndian.AppendUint32(postings, math.Float32bits(weight))
	}
	return postings
}
