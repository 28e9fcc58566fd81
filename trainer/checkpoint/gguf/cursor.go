package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// cursor reads a header from the front and keeps the first error. Nothing is
// allocated for a length that is not left in the file.
type cursor struct {
	r        *bufio.Reader
	at, size int64
	err      error
}

func newCursor(r io.ReaderAt, size int64) *cursor {
	return &cursor{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), size: size}
}

func (c *cursor) left() int64 { return c.size - c.at }

func (c *cursor) fail(kind error, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kind)
	}
}

// bytes reads the next n bytes; nil after an error.
func (c *cursor) bytes(what string, n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > uint64(c.left()) {
		c.fail(ErrFormat, "%s of %d bytes at byte %d of a file of %d", what, n, c.at, c.size)
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		c.err = fmt.Errorf("%s: %w", what, err)
		return nil
	}
	c.at += int64(n)
	return b
}

// word reads a little-endian number of at most 8 bytes; 0 after an error.
func (c *cursor) word(what string, n uint64) uint64 {
	var b [8]byte
	copy(b[:], c.bytes(what, n))
	return binary.LittleEndian.Uint64(b[:])
}

func (c *cursor) u32(what string) uint32 { return uint32(c.word(what, 4)) }
func (c *cursor) u64(what string) uint64 { return c.word(what, 8) }

// text reads a length and that many bytes of UTF-8 or not; at most limit.
func (c *cursor) text(what string, limit uint64) string {
	n := c.u64(what + " length")
	if c.err == nil && n > limit {
		c.fail(ErrFormat, "%s of %d bytes, limit %d", what, n, limit)
	}
	return string(c.bytes(what, n))
}
