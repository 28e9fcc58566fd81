//go:build linux

package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Link is one end of the socket between the engine's process and a worker. Reading and
// writing may go on at once, but each by one goroutine at a time.
type Link struct {
	socket   io.ReadWriter
	in       []byte
	from, to int // what was received and not yet given out
}

const (
	linkRoom  = 64 << 10 // bytes that one read takes at most, without a larger frame
	keptRoom  = 1 << 20  // larger room is given back when it is empty
	stillRead = "socket closed inside a frame"
)

// NewLink uses a connected stream socket, which stays the caller's to close.
func NewLink(socket io.ReadWriter) *Link { return &Link{socket: socket, in: make([]byte, linkRoom)} }

// Next gives a frame that was received whole; ok is false when there is none. Its payload
// is valid until the next Fill.
func (l *Link) Next() (f Frame, ok bool, err error) {
	have := l.in[l.from:l.to]
	if len(have) < headerSize {
		return Frame{}, false, nil
	}
	n := binary.LittleEndian.Uint32(have)
	if n > MaxFrame {
		return Frame{}, false, fmt.Errorf("%w: frame of %d bytes", ErrMalformed, n)
	}
	end := headerSize + int(n)
	if len(have) < end {
		return Frame{}, false, nil
	}
	l.from += end
	return Frame{Kind: Kind(have[4]), Session: binary.LittleEndian.Uint32(have[5:]), Payload: have[headerSize:end:end]}, true, nil
}

// Fill waits for bytes and takes what there is. io.EOF means that the other side closed
// between two frames.
func (l *Link) Fill() error {
	l.makeRoom()
	n, err := l.socket.Read(l.in[l.to:])
	l.to += n
	switch {
	case errors.Is(err, io.EOF) && l.from < l.to:
		return fmt.Errorf("%w: %s", ErrMalformed, stillRead)
	case err == nil || errors.Is(err, io.EOF):
		return err
	}
	return fmt.Errorf("read: %w", err)
}

// makeRoom moves what is left to the front and sees that the frame that began there fits.
func (l *Link) makeRoom() {
	left := l.in[l.from:l.to]
	need := linkRoom
	if len(left) >= headerSize {
		need = max(need, headerSize+int(min(binary.LittleEndian.Uint32(left), MaxFrame)))
	}
	if need > len(l.in) || len(left) == 0 && len(l.in) > keptRoom {
		l.in = append(make([]byte, 0, need), left...)[:need]
	} else {
		copy(l.in, left)
	}
	l.from, l.to = 0, len(left)
}

// Write writes all of b.
func (l *Link) Write(b []byte) error {
	if _, err := l.socket.Write(b); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
