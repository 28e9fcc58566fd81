package sandbox

import (
	"errors"
	"runtime"
	"time"

	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// Who reads a worker's frames: a session that waits for one reads the socket itself, if
// nobody does, and hands out what isn't its own. So a rollout alone on its worker costs
// no wake of another goroutine. A goroutine on standby takes over when the reader got its
// frame while others wait, and gives up when nobody waits any more.

// seat is a session's place with its process.
type seat struct {
	// frames takes the frame that somebody else read. A session gets one at a time, since
	// the worker waits for an answer after each.
	frames chan abi.Frame
	// The rest is guarded by process.mu.
	waits  bool // for a frame
	parked bool // counted in process.waiting
	ended  bool // the worker said so
}

// open begins a session.
func (p *process) open() (uint32, *seat) {
	s := &seat{frames: make(chan abi.Frame, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.sessions[p.last] = s
	return p.last, s
}

func (p *process) end(session uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, session)
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
		p.send(abi.Frame{Kind: abi.FrameCancel, Session: session})
	}
}

// next waits for the worker's next frame of a session; ok is false when the process died
// before.
func (p *process) next(id uint32, s *seat) (f abi.Frame, ok bool) {
	p.mu.Lock()
	if !p.owes() {
		p.heard = time.Now()
	}
	s.waits = true
	lead := !p.reading && len(p.sessions) == 1
	if lead {
		p.reading = true
	} else if len(s.frames) == 0 {
		s.parked = true
		p.waiting++
		if !p.reading {
			p.wake()
		}
	}
	for lead && len(s.frames) == 0 {
		p.mu.Unlock()
		err := p.receive()
		p.mu.Lock()
		if err != nil {
			break
		}
	}
	if lead {
		p.reading = false
		p.free.Signal()
		if p.waiting > 0 {
			p.wake()
		}
	}
	p.mu.Unlock()
	return p.park(s)
}

// park waits until somebody else delivers.
func (p *process) park(s *seat) (f abi.Frame, ok bool) {
	select {
	case f := <-s.frames:
		return f, true
	case <-p.dead:
	}
	select {
	case f := <-s.frames: // its last word
		return f, true
	default:
		return abi.Frame{}, false
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
	for err == nil {
		f, ok, malformed := p.link.Next()
		if malformed == nil && !ok {
			return nil
		}
		if err = malformed; err == nil {
			err = p.deliver(f)
		}
	}
	p.kill() // a worker that can't be heard is of no use
	return err
}

func (p *process) deliver(f abi.Frame) (err error) {
	f.Payload = append([]byte(nil), f.Payload...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
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
	select {
	case s.frames <- f:
	default:
		return errors.New("worker speaks out of turn")
	}
	s.waits, s.ended = false, f.Kind != abi.FrameCall
	if s.parked {
		s.parked = false
		p.waiting--
	}
	return nil
}
