package wasm

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

// What is appended is read again, and nothing is left over.
func TestNumbers(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 127, 128, 1 << 31, -1 << 31, math.MaxInt64, math.MinInt64} {
		r := NewReader(AppendInt(nil, v))
		if got := r.Int(); got != v || r.More() || r.Err() != nil {
			t.Errorf("%d: %d, %v", v, got, r.Err())
		}
	}
	for _, v := range []uint32{0, 1, 127, 128, math.MaxUint32} {
		r := NewReader(AppendUint(nil, v))
		if got := r.Uint(); got != v || r.More() || r.Err() != nil {
			t.Errorf("%d: %d, %v", v, got, r.Err())
		}
	}
	r := NewReader(AppendUint(nil, uint64(math.MaxUint32)+1))
	if r.Uint(); !errors.Is(r.Err(), ErrForm) {
		t.Errorf("33 bits: %v", r.Err())
	}
}

// Instructions with everything that may follow one, each read to its end, and those refused.
func TestImmediates(t *testing.T) {
	for _, code := range [][]byte{
		{OpNop}, {OpBlock, NoResult}, {OpLoop, TypeI32}, {OpIf, 0x05}, {OpElse}, {OpEnd}, {OpBr, 1}, {OpBrIf, 0x81, 1}, {OpBrTable, 2, 0, 1, 0},
		{OpReturn}, {OpCall, 3}, {OpCallIndirect, 0, 0}, {OpDrop}, {OpSelect}, {0x1c, 1, TypeI32}, {OpLocalGet, 0}, {OpGlobalSet, 1},
		{OpLoad8U, 0, 0x91, 0x11}, {OpStoreLast, 2, 0}, {OpMemorySize, 0}, {OpMemoryGrow, 0}, {OpI32Const, 0x91, 0x7f}, {OpI64Const, 0},
		{OpF32Const, 1, 2, 3, 4}, {OpF64Const, 1, 2, 3, 4, 5, 6, 7, 8}, {OpI32Add}, {OpLast}, {OpPrefix, 3}, {OpPrefix, OpMemoryCopy, 0, 0}, {OpPrefix, OpMemoryFill, 0},
	} {
		r := NewReader(code)
		if r.Immediates(r.Byte()); r.More() || r.Err() != nil {
			t.Errorf("% x: read %d bytes, %v", code, r.At(), r.Err())
		}
		if r := NewReader(code[:len(code)-1]); len(code) > 1 {
			if r.Immediates(r.Byte()); r.Err() == nil {
				t.Errorf("% x: read without its end", code)
			}
		}
	}
	for _, op := range []byte{0x06, 0x0a, 0x12, 0x19, 0x1d, 0x25, 0x26, 0x27, 0xc5, 0xd2, 0xfb, 0xfd, 0xfe} {
		r := NewReader([]byte{0, 0, 0, 0})
		if r.Immediates(op); !errors.Is(r.Err(), ErrForm) {
			t.Errorf("%#x: %v", op, r.Err())
		}
	}
}

// Sections come back as they were, whatever the bytes.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(Header))
	f.Add(Join([]Section{{SectionType, AppendVector(nil, []Signature{{"\x7f", "\x7f"}}, func(b []byte, s Signature) []byte { return s.Append(b) })},
		{SectionImport, []byte("\x01\x01m\x01n\x00\x00")}, {SectionCode, []byte{1, 2, 0, OpEnd}}}))
	f.Fuzz(func(t *testing.T, module []byte) {
		sections, err := Split(module)
		if err != nil {
			if !errors.Is(err, ErrForm) {
				t.Fatal(err)
			}
			return
		}
		if len(sections) == 0 {
			return
		}
		again, err := Split(Join(sections))
		if err != nil || !reflect.DeepEqual(again, sections) {
			t.Fatalf("%v became %v, %v", sections, again, err)
		}
		for _, s := range sections {
			r := NewReader(s.Body)
			for left := r.Uint(); left > 0 && r.Err() == nil; left-- {
				r.Import()
			}
			r = NewReader(s.Body)
			Signatures(&r)
			for r = NewReader(s.Body); r.More(); {
				r.Immediates(r.Byte())
			}
			r = NewReader(s.Body)
			r.Constant()
		}
	})
}
