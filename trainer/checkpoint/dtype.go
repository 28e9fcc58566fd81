package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the storage type of a tensor, spelled as in safetensors.
type DType string

// The storage types that turn into float32. F16 is read, never written from floats.
const (
	F32  DType = "F32"
	BF16 DType = "BF16"
	F16  DType = "F16"
)

// widths holds the bytes of one element for every dtype a header may name;
// types beyond F32, BF16 and F16 are only carried.
var widths = map[DType]int{
	F32: 4, BF16: 2, F16: 2, "F64": 8,
	"F8_E4M3": 1, "F8_E5M2": 1, "BOOL": 1,
	"I8": 1, "U8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8,
}

// Width returns the bytes of one element, 0 for a type it does not know.
func (d DType) Width() int { return widths[d] }

// ToBF16 rounds x to the nearest bfloat16, ties to even. A NaN stays a NaN.
func ToBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBF16 widens a bfloat16, exactly.
func FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// FromF16 widens an IEEE half, exactly, subnormals and NaN included.
func FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// decode overwrites dst with the floats of src; len(src) is len(dst) times the width.
func decode(d DType, src []byte, dst []float32) error {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		return fmt.Errorf("dtype %s does not turn into float32: %w", d, ErrUnsupported)
	}
	return nil
}

// encode overwrites dst with the bytes of src; len(dst) is len(src) times the width.
func encode(d DType, src []float32, dst []byte) error {
	switch d {
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], ToBF16(x))
		}
	default:
		return fmt.Errorf("dtype %s is not written from float32: %w", d, ErrUnsupported)
	}
	return nil
}
