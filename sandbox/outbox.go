package sandbox

import (
	"sync"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// outbox writes frames: what comes while somebody writes goes with that one's next write, and
// what comes while it is corked goes with the write of whoever takes the cork off.
type outbox struct {
	link   *abi.Link
	broken func() // called when nothing can be written any more

	mu      sync.Mutex
	idle    *sync.Cond // on mu: nobody writes and nobody will
	corked  bool
	writing bool
	closed  bool
	frames  []byte // to be written
	spare   []byte
}

func newOutbox(link *abi.Link, broken func()) *outbox {
	o := &outbox{link: link, broken: broken}
	o.idle = sync.NewCond(&o.mu)
	return o
}

func (o *outbox) send(f abi.Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.frames = abi.AppendFrame(o.frames, f)
	if o.writing || o.corked && len(o.frames) < largeFrame {
		return
	}
	o.write()
}

// cork keeps what is sent until uncork, unless it is much.
func (o *outbox) cork() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = true
}

// uncork writes what was kept.
func (o *outbox) uncork() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = false
	if !o.writing && len(o.frames) > 0 {
		o.write()
	}
}

// write writes until nothing is left. The caller holds o.mu and nobody else writes.
func (o *outbox) write() {
	o.writing = true
	for len(o.frames) > 0 && !o.closed {
		frames := o.frames
		o.frames = o.spare[:0]
		o.mu.Unlock()
		err := o.link.Write(frames)
		o.mu.Lock()
		if err != nil {
			o.broken()
			o.closed = true
		}
		if o.spare = frames; cap(frames) > 1<<20 {
			o.spare = nil
		}
	}
	o.writing = false
	if o.closed {
		o.idle.Broadcast()
	}
}

// close returns when nobody writes any more. The worker is dead by then, so writing fails.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for o.writing {
		o.idle.Wait()
	}
}

// largeFrame is what may not fit into the socket's buffer.
const largeFrame = 16 << 10
