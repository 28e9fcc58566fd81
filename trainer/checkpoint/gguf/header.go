package gguf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
)

var (
	// ErrFormat marks a file whose claims contradict each other or its size.
	ErrFormat = errors.New("malformed GGUF")
	// ErrUnsupported marks a well-formed file that asks for what is not read here.
	ErrUnsupported = errors.New("unsupported GGUF")
)

const (
	magic        = "GGUF"
	alignmentKey = "general.alignment"

	defaultAlignment = 32
	maxAlignment     = 1 << 16
	maxName          = 64 // bytes of a tensor's name; the limit of the format's own library
	maxKey           = 1 << 16
	maxRank          = 4
	minPair          = 8 + 4 + 1         // bytes of the shortest key and value
	minTensor        = 8 + 4 + 8 + 4 + 8 // bytes of the shortest tensor entry
)

// Tensor describes one stored tensor.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // row-major: the last size is the one that lies contiguous
	begin int64 // file offset of the first byte
}

// Elements returns the product of the shape.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the stored length.
func (t Tensor) Bytes() int64 {
	b := t.Type.block()
	return int64(t.Elements()/b.elements) * int64(b.bytes)
}

// File is a parsed GGUF file over its bytes. Immutable, safe for concurrent
// use as far as the reader is.
type File struct {
	Tensors []Tensor // in file order, which tiles the data section
	meta    map[string]value
	data    io.ReaderAt
}

// Read parses and checks the header of a file of the given size. It allocates
// at most a small multiple of the header's real length; tensors stay in r.
func Read(r io.ReaderAt, size int64) (*File, error) {
	c := newCursor(r, size)
	file := &File{meta: map[string]value{}, data: r}
	tensors, pairs := c.preamble()
	if c.err != nil {
		return nil, c.err
	}
	for i := range pairs {
		key := c.text("key", maxKey)
		if c.err != nil {
			return nil, fmt.Errorf("key %d of %d: %w", i, pairs, c.err)
		}
		if _, ok := file.meta[key]; ok {
			return nil, fmt.Errorf("key %q appears twice: %w", key, ErrFormat)
		}
		v := c.value()
		if c.err != nil {
			return nil, fmt.Errorf("key %q: %w", key, c.err)
		}
		file.meta[key] = v
	}
	align, err := file.alignment()
	if err != nil {
		return nil, err
	}
	for i := range tensors {
		t := c.tensor(align)
		if c.err != nil {
			return nil, fmt.Errorf("tensor %d of %d: %w", i, tensors, c.err)
		}
		file.Tensors = append(file.Tensors, t)
	}
	return file, file.place(padded(c.at, align), size, align)
}

// preamble reads magic, version and the two counts.
func (c *cursor) preamble() (tensors, pairs uint64) {
	if m := string(c.bytes("magic", 4)); c.err == nil && m != magic {
		c.fail(ErrFormat, "magic %q, not %q", m, magic)
	}
	version := c.u32("version")
	switch {
	case c.err != nil:
	case version == 2<<24 || version == 3<<24:
		c.fail(ErrUnsupported, "big-endian file")
	case version != 2 && version != 3:
		c.fail(ErrUnsupported, "version %d, not 2 or 3", version)
	}
	tensors, pairs = c.u64("tensor count"), c.u64("key count")
	switch {
	case c.err != nil:
	case pairs > uint64(c.left())/minPair:
		c.fail(ErrFormat, "%d keys in the %d bytes that are left", pairs, c.left())
	case tensors > uint64(c.left())/minTensor:
		c.fail(ErrFormat, "%d tensors in the %d bytes that are left", tensors, c.left())
	}
	return tensors, pairs
}

// tensor reads one entry of the tensor list; its begin is still relative to
// the data section.
func (c *cursor) tensor(align int64) Tensor {
	t := Tensor{Name: c.text("name", maxName)}
	rank := c.u32("rank")
	if c.err == nil && (rank < 1 || rank > maxRank) {
		c.fail(ErrFormat, "%q has %d dimensions, not 1 to %d", t.Name, rank, maxRank)
	}
	elements := uint64(1)
	for i := uint32(0); i < rank && c.err == nil; i++ {
		n := c.u64("size")
		if c.err == nil && (n < 1 || n > math.MaxInt64/elements) {
			c.fail(ErrFormat, "%q: size %d of dimension %d", t.Name, n, i)
			break
		}
		elements *= n
		t.Shape = append(t.Shape, int(n))
	}
	t.Type = Type(c.u32("type"))
	offset := c.u64("offset")
	if c.err != nil {
		return t
	}
	b := t.Type.block()
	switch {
	case b.bytes == 0:
		c.fail(ErrUnsupported, "%q is stored as %v", t.Name, t.Type)
	case t.Shape[0]%b.elements != 0:
		c.fail(ErrFormat, "%q has rows of %d, %v needs a multiple of %d", t.Name, t.Shape[0], t.Type, b.elements)
	case elements/uint64(b.elements) > uint64(c.size)/uint64(b.bytes):
		c.fail(ErrFormat, "%q of shape %v as %v is larger than the file", t.Name, t.Shape, t.Type)
	case offset > uint64(c.size) || offset%uint64(align) != 0:
		c.fail(ErrFormat, "%q begins at byte %d of the data, which is outside the file or not aligned to %d", t.Name, offset, align)
	}
	slices.Reverse(t.Shape) // the file names the contiguous size first
	t.begin = int64(offset)
	return t
}

// place sorts the tensors by their place, turns begin into file offsets and
// checks that they lie in [start, size) one behind the other.
func (f *File) place(start, size, align int64) error {
	sort.SliceStable(f.Tensors, func(i, j int) bool { return f.Tensors[i].begin < f.Tensors[j].begin })
	seen := map[string]bool{}
	at := start
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if seen[t.Name] {
			return fmt.Errorf("tensor %q appears twice: %w", t.Name, ErrFormat)
		}
		seen[t.Name] = true
		t.begin += start
		end := t.begin + t.Bytes()
		switch {
		case end > size:
			return fmt.Errorf("tensor %q ends at byte %d of a file of %d (truncated or out of bounds): %w", t.Name, end, size, ErrFormat)
		case t.begin < at:
			return fmt.Errorf("tensor %q begins at byte %d and overlaps the one before: %w", t.Name, t.begin, ErrFormat)
		case t.begin-at >= align:
			return fmt.Errorf("bytes %d to %d before tensor %q belong to none: %w", at, t.begin, t.Name, ErrFormat)
		}
		at = end
	}
	if size-at >= align {
		return fmt.Errorf("%d bytes after the last tensor belong to none: %w", size-at, ErrFormat)
	}
	return nil
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

func (f *File) alignment() (int64, error) {
	n, ok, err := f.Uint(alignmentKey)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return defaultAlignment, nil
	case n < 8 || n > maxAlignment || n%8 != 0:
		return 0, fmt.Errorf("%s is %d: %w", alignmentKey, n, ErrFormat)
	}
	return int64(n), nil
}

func padded(at, align int64) int64 { return (at + align - 1) / align * align }

// Keys returns the metadata keys that begin with prefix, sorted.
func (f *File) Keys(prefix string) []string {
	var keys []string
	for key := range f.meta {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}
