package sandbox

import (
	"errors"
	"runtime"
	"time"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// Who reads a worker's frames: the only session of a process reads the socket itself, so a
// rollout alone on its worker costs no wake of another goroutine. Of several none does, since
// the thread that waits in a read keeps a processor that the others need; a goroutine on standby
// reads while any waits, hands out what came and lets those sessions go on before it reads again.

// seat is a session's place with its process.
type seat struct {
	// frames takes the frame that somebody else read, one at a time, since the worker waits for
	// an answer after each; closed when the process is dead.
	frames chan abi.Frame
	in     []byte // payload of the last frame; the reader's while waits, else the session's
	out    []byte // room for the session's next payload
	// The rest is guarded by process.mu.
	waits bool // for a frame
	ended bool // the worker said so
}

const (
	maxFreeSeats = 64
	keptPayload  = 64 << 10 // bytes; a seat with a larger one is not used again
)

// open begins a session.
func (p *process) open() (uint32, *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s *seat
	if n := len(p.seats); n > 0 {
		s, p.seats = p.seats[n-1], p.seats[:n-1]
	} else {
		s = &seat{frames: make(chan abi.Frame, 1)}
	}
	if p.gone() {
		close(s.frames)
	}
	p.last++
	p.sessions[p.last] = s
	return p.last, s
}

func (p *process) end(session uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[session]
	delete(p.sessions, session)
	if s.waits {
		p.waiting--
	}
	whole := s.ended && len(s.frames) == 0 && !p.gone()
	if whole && len(p.seats) < maxFreeSeats && max(cap(s.in), cap(s.out)) <= keptPayload {
		s.ended = false
		p.seats = append(p.seats, s)
	}
}

// cancel gives a session up: the worker ends it and says so.
func (p *process) cancel(session uint32) {
	p.mu.Lock()
	s := p.sessions[session]
	late := s == nil || s.ended || p.cancelled[session]
	if !late {
		p.cancelled[session] = true
		if p.running != nil {
			p.running.Interrupt(session)
		}
	}
	p.mu.Unlock()
	if !late {
		p.outbox.send(abi.Frame{Kind: abi.FrameCancel, Session: session})
	}
}

// exchange sends a session's frame and waits for the worker's next one; ok is false when the
// process died before. The payload is valid until the next exchange.
func (p *process) exchange(id uint32, s *seat, f abi.Frame) (answer abi.Frame, ok bool) {
	p.mu.Lock()
	if p.waiting == 0 {
		p.heard = time.Now()
	}
	p.waiting++
	s.waits = true
	// While a large frame is written the worker may write too and read only after that: then
	// somebody else must read.
	lead := !p.reading && len(p.sessions) == 1 && len(f.Payload) <= largeFrame
	if lead {
		p.reading = true
	} else if !p.reading {
		p.wake()
	}
	p.mu.Unlock()
	p.outbox.send(f)
	if lead {
		p.lead(s)
	}
	answer, ok = <-s.frames
	return answer, ok
}

// lead reads until the session has its frame.
func (p *process) lead(s *seat) {
	for p.receive() == nil && len(s.frames) == 0 {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = false
	p.free.Signal()
	if p.waiting > 0 {
		p.wake()
	}
}

// wake calls standby.
func (p *process) wake() {
	select {
	case p.call <- struct{}{}:
	default: // it was called already
	}
}

// standby reads while sessions wait and none of them reads. At the start it is the reader
// until the worker is ready.
func (p *process) standby() {
	starting := true
	for {
		var failed error
		p.mu.Lock()
		if starting || !p.reading && p.waiting > 0 {
			p.reading = true
			for failed == nil && (p.waiting > 0 || starting) {
				p.mu.Unlock()
				p.outbox.uncork()
				failed = p.receive()
				// Sessions that answer at once do so now, and their answers go together.
				p.outbox.cork()
				runtime.Gosched()
				select {
				case <-p.ready:
					starting = false
				default:
				}
				p.mu.Lock()
			}
			p.reading = false
			p.free.Signal()
		}
		p.mu.Unlock()
		p.outbox.uncork()
		if failed != nil {
			return
		}
		select {
		case <-p.call:
		case <-p.dead:
			return
		}
	}
}

// receive reads once and delivers what came. After an error nothing can be read any more
// and the worker is on its way out. The caller is the reader.
func (p *process) receive() error {
	err := p.link.Fill()
	p.mu.Lock()
	p.heard = time.Now()
	for err == nil {
		f, ok, malformed := p.link.Next()
		if malformed == nil && !ok {
			p.mu.Unlock()
			return nil
		}
		if err = malformed; err == nil {
			err = p.deliver(f)
		}
	}
	p.mu.Unlock()
	p.kill() // a worker that can't be heard is of no use
	return err
}

// deliver hands a frame out. The caller holds p.mu.
func (p *process) deliver(f abi.Frame) (err error) {
	switch f.Kind {
	case abi.FrameReady:
		p.report, err = abi.DecodeReport(f.Payload)
		if err == nil && p.report.Fault != "" {
			err = errors.New(p.report.Fault)
			p.stderr.add(p.report.Fault)
		}
		if err == nil {
			close(p.ready)
		}
		return err
	case abi.FrameDone, abi.FrameLoaded:
		delete(p.cancelled, f.Session)
	}
	s, ok := p.sessions[f.Session]
	if !ok {
		return nil // given up before
	}
	if !s.waits {
		return errors.New("worker speaks out of turn")
	}
	s.in = append(s.in[:0], f.Payload...)
	f.Payload = s.in
	p.waiting--
	s.waits, s.ended = false, f.Kind != abi.FrameCall
	s.frames <- f
	return nil
}
