package bm25

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
)

// An index file, all numbers little-endian:
//
//	magic, key, passages N uint64, terms T uint64, the ends of the sections uint64 each,
//	CRC-32C of all that follows uint32; then the sections, one after the other:
//	note            what Build was given
//	textEnds        N times uint64: where the text of a passage ends in textSection
//	idEnds          N times uint64
//	termEnds        T times uint64: where a term ends in termSection
//	postingEnds     T times uint64: where its postings end in postingSection
//	postingSection  passage uint32, weight float32; in the order of the passages
//	termSection     the terms in byte order
//	idSection, textSection
const (
	magic       = "whale-bm25-1\n\x00\x00\x00"
	postingSize = 8
	endSize     = 8
)

const (
	noteSection = iota
	textEnds
	idEnds
	termEnds
	postingEnds
	postingSection
	termSection
	idSection
	textSection
	sections
)

const headerSize = len(magic) + len(Key{}) + 2*8 + sections*8 + 4

type header struct {
	key             Key
	passages, terms uint64
	ends            [sections]uint64 // within the body, which begins after the header
	sum             uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// encode writes the header in front of a body.
func (h header) encode() []byte {
	b := append([]byte(magic), h.key[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.passages)
	b = binary.LittleEndian.AppendUint64(b, h.terms)
	for _, end := range h.ends {
		b = binary.LittleEndian.AppendUint64(b, end)
	}
	return binary.LittleEndian.AppendUint32(b, h.sum)
}

func decodeHeader(b []byte) (header, error) {
	var h header
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return h, ErrFormat
	}
	b = b[len(magic):]
	b = b[copy(h.key[:], b):]
	h.passages, h.terms = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	b = b[16:]
	for i := range h.ends {
		h.ends[i] = binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	h.sum = binary.LittleEndian.Uint32(b)
	return h, nil
}

// Parse makes an index of the bytes of a file, which it keeps. It returns ErrFormat for
// anything that Build did not write as it is.
func Parse(data []byte) (*Index, error) {
	h, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	x := &Index{data: data, header: h, passages: int(h.passages)}
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return x, nil
}

// check makes sure that no search can leave the bytes.
func (x *Index) check() error {
	body := x.data[headerSize:]
	last := uint64(0)
	for _, end := range x.header.ends {
		if end < last || end > uint64(len(body)) {
			return errors.New("sections out of order")
		}
		last = end
	}
	n, t := x.header.passages, x.header.terms
	switch {
	case last != uint64(len(body)):
		return fmt.Errorf("%d bytes of %d", len(body), last)
	case n > math.MaxUint32 || n > last || t > last: // so that the products below don't overflow
		return errors.New("more entries than bytes")
	case checksum(body) != x.header.sum:
		return errors.New("wrong checksum")
	}
	for _, pair := range [][3]uint64{{textEnds, textSection, n}, {idEnds, idSection, n}, {termEnds, termSection, t}, {postingEnds, postingSection, t}} {
		if err := ends(x.section(int(pair[0])), pair[2], len(x.section(int(pair[1])))); err != nil {
			return err
		}
	}
	postings := x.section(postingSection)
	if len(postings)%postingSize != 0 {
		return errors.New("half a posting")
	}
	for ; len(postings) > 0; postings = postings[postingSize:] {
		if uint64(binary.LittleEndian.Uint32(postings)) >= n {
			return errors.New("posting of an unknown passage")
		}
	}
	for i := range int(t) {
		if (x.cellEnd(postingEnds, i)-x.cellStart(postingEnds, i))%postingSize != 0 {
			return errors.New("half a posting")
		}
		if i > 0 && bytes.Compare(x.term(i-1), x.term(i)) >= 0 {
			return errors.New("terms out of order")
		}
	}
	return nil
}

// ends checks a list of ends: n of them, rising, the last at the end of its section.
func ends(list []byte, n uint64, size int) error {
	if uint64(len(list)) != n*endSize {
		return errors.New("section of another length")
	}
	last := uint64(0)
	for ; len(list) > 0; list = list[endSize:] {
		end := binary.LittleEndian.Uint64(list)
		if end < last {
			return errors.New("entries out of order")
		}
		last = end
	}
	if last != uint64(size) {
		return errors.New("entries of another length")
	}
	return nil
}

func (x *Index) section(i int) []byte {
	start := uint64(0)
	if i > 0 {
		start = x.header.ends[i-1]
	}
	return x.data[headerSize:][start:x.header.ends[i]]
}

func (x *Index) cellEnd(list, i int) uint64 {
	return binary.LittleEndian.Uint64(x.section(list)[i*endSize:])
}

func (x *Index) cellStart(list, i int) uint64 {
	if i == 0 {
		return 0
	}
	return x.cellEnd(list, i-1)
}

func (x *Index) cell(section, list, i int) string {
	return string(x.section(section)[x.cellStart(list, i):x.cellEnd(list, i)])
}

func (x *Index) term(i int) []byte {
	return x.section(termSection)[x.cellStart(termEnds, i):x.cellEnd(termEnds, i)]
}

func (x *Index) postings(i int) []byte {
	return x.section(postingSection)[x.cellStart(postingEnds, i):x.cellEnd(postingEnds, i)]
}

// find returns the number of a term, -1 when the index has none.
func (x *Index) find(word []byte) int {
	low, high := 0, int(x.header.terms)
	for low < high {
		middle := int(uint(low+high) >> 1)
		switch bytes.Compare(x.term(middle), word) {
		case 0:
			return middle
		case -1:
			low = middle + 1
		default:
			high = middle
		}
	}
	return -1
}

// Open maps the index in a file. It returns ErrKey when the file is an index of
// something else and ErrFormat when it is damaged.
func Open(path string, key Key) (*Index, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	x, err := Parse(data)
	if err == nil && x.header.key != key {
		err = ErrKey
	}
	if err != nil {
		return nil, errors.Join(err, unmap())
	}
	x.unmap, x.mapped = unmap, true
	return x, nil
}

// Store publishes the bytes of Build under a path: another process sees the whole file
// or none.
func Store(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".bm25-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
