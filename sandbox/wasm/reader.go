package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrForm: bytes that are no module, or hold what this package does not cover.
var ErrForm = errors.New("wasm: form")

// Reader reads bytes from front to back and keeps the first fault; after one it has no more.
// A copy reads on by itself.
type Reader struct {
	b   []byte
	at  int
	err error
}

// NewReader reads b, which it shares.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Fail notes a fault, unless there is one.
func (r *Reader) Fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at %#x", ErrForm, what, r.at)
	}
	r.at = len(r.b)
}

// Err is the first fault.
func (r *Reader) Err() error { return r.err }

// More says that there are bytes left and was no fault.
func (r *Reader) More() bool { return r.err == nil && r.at < len(r.b) }

// At is how many bytes were read.
func (r *Reader) At() int { return r.at }

// Rest are the bytes that are left.
func (r *Reader) Rest() []byte { return r.b[r.at:] }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.at >= len(r.b) {
		r.Fail("cut short")
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// Skip steps over n bytes.
func (r *Reader) Skip(n int) {
	if n > len(r.b)-r.at {
		r.Fail("cut short")
		return
	}
	r.at += n
}

// Uint reads an unsigned number of 32 bits.
func (r *Reader) Uint() uint32 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 || v > 1<<32-1 {
		r.Fail("number")
		return 0
	}
	r.at += n
	return uint32(v)
}

// Int reads a signed number of up to 64 bits.
func (r *Reader) Int() (v int64) {
	for shift := 0; shift < 70; shift += 7 {
		c := r.Byte()
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.Fail("number")
	return 0
}

// Bytes reads a number and as many bytes, which share those of the reader.
func (r *Reader) Bytes() []byte {
	n := r.Uint()
	if uint64(n) > uint64(len(r.b)-r.at) {
		r.Fail("cut short")
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at : r.at]
}

// Accept steps over these bytes if they come next.
func (r *Reader) Accept(want ...byte) bool {
	if len(r.b)-r.at < len(want) || string(r.b[r.at:r.at+len(want)]) != string(want) {
		return false
	}
	r.at += len(want)
	return true
}

// AppendInt appends a signed number.
func AppendInt(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// AppendUint appends an unsigned number.
func AppendUint[N ~uint32 | ~uint64 | ~int](b []byte, v N) []byte {
	return binary.AppendUvarint(b, uint64(v))
}

// AppendBytes appends bytes with their number in front.
func AppendBytes(b, more []byte) []byte { return append(AppendUint(b, len(more)), more...) }

// AppendVector appends elements with their number in front.
func AppendVector[E any](b []byte, list []E, add func([]byte, E) []byte) []byte {
	b = AppendUint(b, len(list))
	for _, e := range list {
		b = add(b, e)
	}
	return b
}
