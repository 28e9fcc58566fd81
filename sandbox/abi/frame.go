package abi

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Kind of a frame between the engine's process and a worker.
type Kind byte

// Frames to a worker.
const (
	FrameSetup  Kind = 1 + iota // Setup, the first frame; answered by FrameReady
	FrameLoad                   // LoadOrder; answered by FrameLoaded
	FrameRun                    // RunOrder; answered by FrameCalls, then one FrameDone
	FrameAnswer                 // Answer to the session's pending FrameCall
	FrameCancel                 // empty: end the session's run; FrameDone still comes
	FrameDrop                   // empty: forget the image whose number is in Session; its runs have ended
)

// Frames from a worker.
const (
	FrameReady  Kind = 64 + iota // Report, once, when guests can run
	FrameLoaded                  // LoadResult
	FrameCall                    // Request, as the guest wrote it
	FrameDone                    // RunResult
)

// MaxFrame is the most bytes of a frame's payload.
const MaxFrame = 64 << 20

const headerSize = 9 // length of the payload, kind, session

// Frame is one message on the socket. Session ties the frames of one load or run
// together.
type Frame struct {
	Kind    Kind
	Session uint32
	Payload []byte
}

// AppendFrame adds the encoded form of a frame to b.
func AppendFrame(b []byte, f Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Payload)))
	b = append(b, byte(f.Kind))
	b = binary.LittleEndian.AppendUint32(b, f.Session)
	return append(b, f.Payload...)
}

// ReadFrame reads one frame; the payload is the caller's. io.EOF means that the other
// side closed between two frames.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("%w: frame of %d bytes", ErrMalformed, n)
	}
	f := Frame{Kind: Kind(head[4]), Session: binary.LittleEndian.Uint32(head[5:]), Payload: make([]byte, n)}
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		return Frame{}, fmt.Errorf("%w: frame cut short: %w", ErrMalformed, err)
	}
	return f, nil
}
