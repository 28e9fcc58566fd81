package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"unicode/utf8"
)

var (
	// ErrFormat marks a file whose claims contradict each other or its size.
	ErrFormat = errors.New("malformed checkpoint")
	// ErrUnsupported marks a well-formed file that asks for what is not computed here.
	ErrUnsupported = errors.New("unsupported checkpoint")
	// ErrMissing marks a tensor or file that is not there.
	ErrMissing = errors.New("missing from checkpoint")
)

const (
	maxHeader = 100 << 20 // bytes; the limit of the reference implementation
	maxRank   = 8
	metadata  = "__metadata__"
)

// Tensor describes one stored tensor. Row-major, little-endian.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
}

// Elements returns the product of the shape; 1 for a scalar.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the stored length.
func (t Tensor) Bytes() int { return t.Elements() * t.DType.Width() }

// extent is a tensor and where its bytes lie, counted from the end of the header.
type extent struct {
	Tensor
	begin, end int64
}

// layout is one parsed header. Extents are in file order and tile the data
// section [0, size - start) without gap or overlap.
type layout struct {
	extents []extent
	start   int64 // file offset of the data section
}

// readLayout parses and checks the header of a file of the given size.
// It allocates at most a small multiple of the header's real length.
func readLayout(r io.ReaderAt, size int64) (layout, error) {
	var prefix [8]byte
	if size < 8 {
		return layout{}, fmt.Errorf("%d bytes are too few for a header length: %w", size, ErrFormat)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return layout{}, fmt.Errorf("header length: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader || length > uint64(size-8) {
		return layout{}, fmt.Errorf("header length %d in a file of %d bytes (limit %d): %w", length, size, maxHeader, ErrFormat)
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, 8); err != nil && !(errors.Is(err, io.EOF) && size == 8+int64(length)) {
		return layout{}, fmt.Errorf("header: %w", err)
	}
	extents, err := parseHeader(text)
	if err != nil {
		return layout{}, err
	}
	start := 8 + int64(length)
	if err := tile(extents, size-start); err != nil {
		return layout{}, err
	}
	return layout{extents: extents, start: start}, nil
}

// tile sorts extents by place and checks that they cover [0, size) exactly once.
func tile(extents []extent, size int64) error {
	sort.Slice(extents, func(i, j int) bool {
		a, b := extents[i], extents[j]
		if a.begin != b.begin {
			return a.begin < b.begin
		}
		if a.end != b.end {
			return a.end < b.end
		}
		return a.Name < b.Name
	})
	at := int64(0)
	for _, e := range extents {
		switch {
		case e.end > size:
			return fmt.Errorf("tensor %q ends at byte %d of a data section of %d (truncated or out of bounds): %w", e.Name, e.end, size, ErrFormat)
		case e.begin < at:
			return fmt.Errorf("tensor %q begins at byte %d and overlaps the one before, which ends at %d: %w", e.Name, e.begin, at, ErrFormat)
		case e.begin > at:
			return fmt.Errorf("bytes %d to %d before tensor %q belong to none: %w", at, e.begin, e.Name, ErrFormat)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("%d bytes after the last tensor belong to none: %w", size-at, ErrFormat)
	}
	return nil
}

// parseHeader reads the JSON by token, because only so are duplicate names seen.
func parseHeader(text []byte) ([]extent, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("header is not UTF-8: %w", ErrFormat)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var extents []extent
	seen := map[string]bool{}
	err := object(d, func(name string) error {
		if seen[name] {
			return fmt.Errorf("name %q appears twice: %w", name, ErrFormat)
		}
		seen[name] = true
		if name == metadata {
			var m map[string]string
			return d.Decode(&m)
		}
		e, err := parseTensor(d, name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		extents = append(extents, e)
		return nil
	})
	if err == nil {
		if _, tail := d.Token(); tail != io.EOF {
			err = fmt.Errorf("text after the header object: %w", ErrFormat)
		}
	}
	if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
		err = fmt.Errorf("header JSON: %w: %w", err, ErrFormat)
	}
	return extents, err
}

// object walks one JSON object; field must consume the value of each name.
func object(d *json.Decoder, field func(name string) error) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return fmt.Errorf("a name is %v: %w", t, ErrFormat)
		}
		if err := field(name); err != nil {
			return err
		}
	}
	return delim(d, '}')
}

func delim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("%v where %v should be: %w", t, want, ErrFormat)
	}
	return nil
}

// parseTensor reads {dtype, shape, data_offsets} and checks that they agree.
func parseTensor(d *json.Decoder, name string) (extent, error) {
	e := extent{Tensor: Tensor{Name: name}}
	var offsets []int64
	var shape []int64
	seen := map[string]bool{}
	err := object(d, func(field string) error {
		if seen[field] {
			return fmt.Errorf("field %q appears twice: %w", field, ErrFormat)
		}
		seen[field] = true
		var err error
		switch field {
		case "dtype":
			err = d.Decode((*string)(&e.DType))
		case "shape":
			shape, err = integers(d, maxRank)
		case "data_offsets":
			offsets, err = integers(d, 2)
		default:
			err = fmt.Errorf("unknown field %q: %w", field, ErrFormat)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if !seen["dtype"] || !seen["shape"] || len(offsets) != 2 {
		return e, fmt.Errorf("needs dtype, shape and two data_offsets: %w", ErrFormat)
	}
	width := e.DType.Width()
	if width == 0 {
		return e, fmt.Errorf("unknown dtype %q: %w", e.DType, ErrUnsupported)
	}
	bytes := int64(width)
	for _, n := range shape {
		if n != 0 && bytes > math.MaxInt64/n {
			return e, fmt.Errorf("shape %v overflows: %w", shape, ErrFormat)
		}
		bytes *= n
		e.Shape = append(e.Shape, int(n))
	}
	e.begin, e.end = offsets[0], offsets[1]
	if e.end < e.begin || e.end-e.begin != bytes {
		return e, fmt.Errorf("offsets %v hold %d bytes, shape %v of %s needs %d: %w", offsets, e.end-e.begin, shape, e.DType, bytes, ErrFormat)
	}
	return e, nil
}

// integers reads a JSON array of at most limit whole numbers, none negative.
func integers(d *json.Decoder, limit int) ([]int64, error) {
	if err := delim(d, '['); err != nil {
		return nil, err
	}
	var list []int64
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		number, _ := t.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%v is no size: %w", t, ErrFormat)
		}
		if len(list) == limit {
			return nil, fmt.Errorf("more than %d numbers: %w", limit, ErrFormat)
		}
		list = append(list, n)
	}
	return list, delim(d, ']')
}
