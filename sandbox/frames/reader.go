package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errShape: a function, or a module, that is not what Go's compiler makes.
var errShape = errors.New("not Go's shape")

// reader reads a module, or a function, from front to back and keeps the first fault.
type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at %#x", errShape, what, r.at)
	}
	r.at = len(r.b)
}

func (r *reader) more() bool { return r.err == nil && r.at < len(r.b) }

func (r *reader) byte() byte {
	if r.at >= len(r.b) {
		r.fail("cut short")
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// uint reads an unsigned number of 32 bits.
func (r *reader) uint() uint32 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 || v > 1<<32-1 {
		r.fail("number")
		return 0
	}
	r.at += n
	return uint32(v)
}

// int reads a signed number.
func (r *reader) int() (v int64) {
	for shift := 0; shift < 70; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift < 57 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail("number")
	return 0
}

func (r *reader) bytes() []byte {
	n := int(r.uint())
	if n > len(r.b)-r.at {
		r.fail("cut short")
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

// accept steps over a run of bytes if it comes next.
func (r *reader) accept(want ...byte) bool {
	if len(r.b)-r.at < len(want) || string(r.b[r.at:r.at+len(want)]) != string(want) {
		return false
	}
	r.at += len(want)
	return true
}

func appendInt(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
