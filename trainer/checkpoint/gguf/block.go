package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Type is a storage type, numbered as in the file.
type Type uint32

// The storage types that are read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
	Q4_K Type = 12
	Q6_K Type = 14
	BF16 Type = 30
)

// block is the unit of storage of a type: so many elements in so many bytes.
type block struct {
	name            string
	elements, bytes int
	decode          func(src []byte, dst []float32) // whole blocks; overwrites dst
}

var blocks = map[Type]block{
	F32:  {"F32", 1, 4, decodeF32},
	F16:  {"F16", 1, 2, decodeF16},
	BF16: {"BF16", 1, 2, decodeBF16},
	Q8_0: {"Q8_0", 32, 34, each(32, 34, decodeQ8x0)},
	Q4_0: {"Q4_0", 32, 18, each(32, 18, decodeQ4x0)},
	Q4_1: {"Q4_1", 32, 20, each(32, 20, decodeQ4x1)},
	Q4_K: {"Q4_K", 256, 144, each(256, 144, decodeQ4K)},
	Q6_K: {"Q6_K", 256, 210, each(256, 210, decodeQ6K)},
}

func (t Type) block() block { return blocks[t] }

// Block returns how many elements one block holds; 0 for a type that is not read.
func (t Type) Block() int { return blocks[t].elements }

// String names the type, or gives its number.
func (t Type) String() string {
	if b, ok := blocks[t]; ok {
		return b.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Floats overwrites dst with the elements of t from position at on, which like
// len(dst) must be a multiple of the type's block.
func (f *File) Floats(t Tensor, at int, dst []float32) error {
	b := t.Type.block()
	if at%b.elements != 0 || len(dst)%b.elements != 0 || at < 0 || at > t.Elements()-len(dst) {
		return fmt.Errorf("tensor %q: elements %d to %d are not whole blocks of %d in %d: %w", t.Name, at, at+len(dst), b.elements, t.Elements(), ErrFormat)
	}
	src := make([]byte, len(dst)/b.elements*b.bytes)
	if err := f.Raw(t, int64(at/b.elements*b.bytes), src); err != nil {
		return err
	}
	b.decode(src, dst)
	return nil
}

// Raw overwrites dst with the stored bytes of t from offset at on.
func (f *File) Raw(t Tensor, at int64, dst []byte) error {
	if n, err := f.data.ReadAt(dst, t.begin+at); n < len(dst) {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

func decodeF32(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func decodeBF16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// half widens the IEEE half at the front of b, exactly.
func half(b []byte) float32 {
	h := binary.LittleEndian.Uint16(b)
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		return math.Float32frombits(math.Float32bits(float32(fraction)*(1.0/(1<<24))) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// each applies the decoder of one block to all.
func each(elements, bytes int, one func(src []byte, dst []float32)) func([]byte, []float32) {
	return func(src []byte, dst []float32) {
		for len(dst) > 0 {
			one(src[:bytes], dst[:elements])
			src, dst = src[bytes:], dst[elements:]
		}
	}
}

// The float32 conversions below round every product, so that no machine fuses
// it with the sum that follows.

// decodeQ8x0: scale f16, 32 signed bytes. x = scale q.
func decodeQ8x0(src []byte, dst []float32) {
	scale := half(src)
	for i := range dst {
		dst[i] = scale * float32(int8(src[2+i]))
	}
}

// decodeQ4x0: scale f16, 16 bytes of which the low halves are elements 0-15 and
// the high ones 16-31. x = scale (q - 8).
func decodeQ4x0(src []byte, dst []float32) {
	scale := half(src)
	for i, b := range src[2:] {
		dst[i] = scale * float32(int(b&15)-8)
		dst[i+16] = scale * float32(int(b>>4)-8)
	}
}

// decodeQ4x1: scale f16, minimum f16, 16 bytes as in Q4_0. x = scale q + minimum.
func decodeQ4x1(src []byte, dst []float32) {
	scale, low := half(src), half(src[2:])
	for i, b := range src[4:] {
		dst[i] = float32(scale*float32(b&15)) + low
		dst[i+16] = float32(scale*float32(b>>4)) + low
	}
}

// decodeQ4K: scale of scales f16, scale of minima f16, 12 bytes with eight
// 6-bit scales and minima, 128 bytes of which each 32 hold two sub-blocks of
// 32: low halves, then high halves. x = d s q - dmin m.
func decodeQ4K(src []byte, dst []float32) {
	d, dmin, packed, quants := half(src), half(src[2:]), src[4:16], src[16:]
	for sub := range 8 {
		s, m := scaleAndMin(packed, sub)
		scale, low := d*float32(s), dmin*float32(m)
		for i, b := range quants[sub/2*32:][:32] {
			q := b & 15
			if sub%2 == 1 {
				q = b >> 4
			}
			dst[sub*32+i] = float32(scale*float32(q)) - low
		}
	}
}

// scaleAndMin unpacks the 6-bit pair of sub-block i: of the first four whole in
// the low bits of a byte, of the others in two pieces.
func scaleAndMin(p []byte, i int) (scale, low byte) {
	if i < 4 {
		return p[i] & 63, p[i+4] & 63
	}
	return p[i+4]&15 | p[i-4]>>6<<4, p[i+4]>>4 | p[i]>>6<<4
}

// decodeQ6K: 128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 signed scales
// of 16 elements each, scale of scales f16. Either half of the block takes 64,
// 32 and 8 of them; within it, quarter k of 32 elements has its low bits in
// bytes (k mod 2) 32 on, low halves first, its high bits at shift 2k.
// x = d s (q - 32).
func decodeQ6K(src []byte, dst []float32) {
	d := half(src[208:])
	for h := range 2 {
		low, high, scales := src[h*64:], src[128+h*32:], src[192+h*8:]
		for k := range 4 {
			for i := range 32 {
				q := low[k%2*32+i]
				if k < 2 {
					q &= 15
				} else {
					q >>= 4
				}
				q |= high[i] >> (2 * k) & 3 << 4
				scale := d * float32(int8(scales[2*k+i/16]))
				dst[h*128+k*32+i] = scale * float32(int(q)-32)
			}
		}
	}
}
