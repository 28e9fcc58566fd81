package gguf

import (
	"fmt"
	"math"
)

// kind is the type of a metadata value, numbered as in the file.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindText
	kindArray
	kindU64
	kindI64
	kindF64
)

// widths holds the bytes of one number; text and arrays carry their own length.
var widths = map[kind]uint64{kindU8: 1, kindI8: 1, kindU16: 2, kindI16: 2, kindU32: 4, kindI32: 4,
	kindF32: 4, kindBool: 1, kindU64: 8, kindI64: 8, kindF64: 8}

// maxText bounds one metadata text; chat templates have some 10 KB.
const maxText = 16 << 20

// value is one metadata value: a number by its bits, a text, or an array of
// either.
type value struct {
	kind  kind
	array bool
	bits  []uint64 // numbers; one unless array
	texts []string // texts; one unless array
}

// value reads a type and what follows it.
func (c *cursor) value() value {
	v := value{kind: kind(c.u32("type"))}
	n := uint64(1)
	if v.kind == kindArray {
		v.array = true
		v.kind = kind(c.u32("type of an array"))
		n = c.u64("array length")
	}
	width, known := widths[v.kind]
	switch {
	case c.err != nil:
	case v.kind == kindArray:
		c.fail(ErrUnsupported, "array of arrays")
	case v.kind == kindText && n > uint64(c.left())/8:
		c.fail(ErrFormat, "%d texts in the %d bytes that are left", n, c.left())
	case v.kind == kindText:
		v.texts = make([]string, n)
		for i := range v.texts {
			v.texts[i] = c.text("text", maxText)
		}
	case !known:
		c.fail(ErrFormat, "unknown type %d", v.kind)
	case n > uint64(c.left())/width:
		c.fail(ErrFormat, "%d numbers of %d bytes in the %d bytes that are left", n, width, c.left())
	default:
		v.bits = make([]uint64, n)
		for i := range v.bits {
			v.bits[i] = c.word("number", width)
			if v.kind == kindBool && v.bits[i] > 1 {
				c.fail(ErrFormat, "truth value %d", v.bits[i])
			}
		}
	}
	return v
}

// integer returns number i as a signed integer; false when it is none or does
// not fit.
func (v value) integer(i int) (int64, bool) {
	b := v.bits[i]
	switch v.kind {
	case kindU8, kindU16, kindU32:
		return int64(b), true
	case kindU64:
		return int64(b), b <= math.MaxInt64
	case kindI8:
		return int64(int8(b)), true
	case kindI16:
		return int64(int16(b)), true
	case kindI32:
		return int64(int32(b)), true
	case kindI64:
		return int64(b), true
	}
	return 0, false
}

// Text returns the text under key; false when there is no such key, an error
// when its value is something else.
func (f *File) Text(key string) (string, bool, error) {
	v, ok := f.meta[key]
	if !ok {
		return "", false, nil
	}
	if v.kind != kindText || v.array {
		return "", false, fmt.Errorf("%s is no text: %w", key, ErrFormat)
	}
	return v.texts[0], true, nil
}

// Texts returns the array of texts under key, which the caller may not change.
func (f *File) Texts(key string) ([]string, bool, error) {
	v, ok := f.meta[key]
	if !ok {
		return nil, false, nil
	}
	if v.kind != kindText || !v.array {
		return nil, false, fmt.Errorf("%s is no list of texts: %w", key, ErrFormat)
	}
	return v.texts, true, nil
}

// Uint returns the whole number under key, which is not negative.
func (f *File) Uint(key string) (uint64, bool, error) {
	v, ok := f.meta[key]
	if !ok {
		return 0, false, nil
	}
	if len(v.bits) == 1 && !v.array {
		if n, ok := v.integer(0); ok && n >= 0 {
			return uint64(n), true, nil
		}
	}
	return 0, false, fmt.Errorf("%s is no whole number: %w", key, ErrFormat)
}

// Ints returns the array of whole numbers under key.
func (f *File) Ints(key string) ([]int64, bool, error) {
	v, ok := f.meta[key]
	if !ok {
		return nil, false, nil
	}
	list := make([]int64, len(v.bits))
	for i := range list {
		if list[i], ok = v.integer(i); !ok {
			break
		}
	}
	if !ok || !v.array || v.texts != nil {
		return nil, false, fmt.Errorf("%s is no list of whole numbers: %w", key, ErrFormat)
	}
	return list, true, nil
}

// Float returns the floating-point number under key. One stored in 4 bytes
// keeps its bits.
func (f *File) Float(key string) (float64, bool, error) {
	v, ok := f.meta[key]
	switch {
	case !ok:
		return 0, false, nil
	case v.kind == kindF32 && !v.array:
		return float64(math.Float32frombits(uint32(v.bits[0]))), true, nil
	case v.kind == kindF64 && !v.array:
		return math.Float64frombits(v.bits[0]), true, nil
	}
	return 0, false, fmt.Errorf("%s is no floating-point number: %w", key, ErrFormat)
}

// Bool returns the truth value under key.
func (f *File) Bool(key string) (value, ok bool, err error) {
	v, ok := f.meta[key]
	if !ok {
		return false, false, nil
	}
	if v.kind != kindBool || v.array {
		return false, false, fmt.Errorf("%s is no truth value: %w", key, ErrFormat)
	}
	return v.bits[0] == 1, true, nil
}
