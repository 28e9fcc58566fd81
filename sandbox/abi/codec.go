package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is what every decoder returns for bytes that are not a message.
var ErrMalformed = errors.New("abi: malformed message")

// decoder reads values off the front of b; after the first fault it returns zero values
// and keeps the fault.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("byte missing")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) string() string {
	n, w := binary.Uvarint(d.b)
	if w <= 0 || n > uint64(len(d.b)-w) {
		d.fail("text length")
		return ""
	}
	v := string(d.b[w : w+int(n)])
	d.b = d.b[w+int(n):]
	return v
}

// count reads the length of a list whose elements take at least least bytes each, so a
// small message can't ask for a large allocation.
func (d *decoder) count(least int) int {
	n, w := binary.Uvarint(d.b)
	if w <= 0 || n > uint64(len(d.b)-w)/uint64(least) {
		d.fail("list length")
		return 0
	}
	d.b = d.b[w:]
	return int(n)
}

// end closes a message: bytes left over are a fault too.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail("bytes left over")
	}
	return d.err
}

func appendInt(b []byte, v int) []byte { return binary.AppendVarint(b, int64(v)) }

func appendCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
