package sandbox

import (
	"context"
	"errors"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// maxImages is how many images a worker keeps; each takes about 2 MB.
const maxImages = 16

// loading is an image in a worker, or on its way there. Its number is never used again,
// so an order to drop it can't hit another.
type loading struct {
	number uint32
	done   chan struct{}
	result error // when done
	used   int   // runs in progress; the image stays in the worker until it is 0
	last   int   // process.clock at the last use
	doomed bool  // drop it then
}

func (l *loading) loaded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// hold makes sure that a program's image is in the worker and stays there until release.
func (p *process) hold(ctx context.Context, program *program) (*loading, error) {
	l := p.use(program)
	var err error
	select {
	case <-l.done:
		err = l.result
	case <-ctx.Done():
		err = program.fault(ctx.Err())
	}
	if err != nil {
		p.release(l)
		return nil, err
	}
	return l, nil
}

// use counts one more user of a program's image, and has it loaded if it isn't there.
func (p *process) use(program *program) *loading {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.images[program.harness.ID]
	if l == nil {
		p.lastImage++
		l = &loading{number: p.lastImage, done: make(chan struct{})}
		p.images[program.harness.ID] = l
		p.evict()
		go p.fetch(program, l)
	}
	p.clock++
	l.last = p.clock
	l.used++
	return l
}

// release ends one use.
func (p *process) release(l *loading) {
	p.mu.Lock()
	l.used--
	drop := l.doomed && l.used == 0
	p.mu.Unlock()
	if drop {
		p.outbox.send(abi.Frame{Kind: abi.FrameDrop, Session: l.number})
	}
}

// evict forgets the image that was not used for longest, if there are too many. The
// caller holds p.mu.
func (p *process) evict() {
	if len(p.images) <= maxImages {
		return
	}
	var victim engine.HarnessID
	for id, l := range p.images {
		if l.used == 0 && l.loaded() && (victim == "" || l.last < p.images[victim].last) {
			victim = id
		}
	}
	if l := p.images[victim]; l != nil {
		delete(p.images, victim)
		go p.outbox.send(abi.Frame{Kind: abi.FrameDrop, Session: l.number})
	}
}

// drop forgets a program's image; it leaves the worker when its last run has ended.
func (p *process) drop(id engine.HarnessID) {
	p.mu.Lock()
	l := p.images[id]
	delete(p.images, id)
	now := l != nil && l.used == 0
	if l != nil {
		l.doomed = true
	}
	p.mu.Unlock()
	if now {
		p.outbox.send(abi.Frame{Kind: abi.FrameDrop, Session: l.number})
	}
}

// fetch has the worker load a program. It doesn't stop when the first that asked for it
// gives up: others may wait for the same.
func (p *process) fetch(program *program, l *loading) {
	defer close(l.done)
	id, seat := p.open()
	defer p.end(id)
	seat.out = abi.AppendLoadOrder(seat.out[:0], abi.LoadOrder{Image: l.number, Source: program.code})
	f, err := program.exchange(p, id, seat, abi.FrameLoad)
	if err == nil {
		err = program.loaded(f.Payload)
	}
	var limit *engine.LimitError
	if errors.As(err, &limit) {
		err = &engine.LoadError{Rule: "init", Reason: "package initialisation: " + limit.Error(),
			Hint: "do the work in Run, not in package variables or init"}
	}
	if err == nil {
		return
	}
	l.result = err
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.images[program.harness.ID] == l {
		delete(p.images, program.harness.ID)
	}
}

// loaded turns a worker's answer into the engine's errors.
func (p *program) loaded(payload []byte) error {
	r, err := abi.DecodeLoadResult(payload)
	switch {
	case err != nil:
		return p.fault(err)
	case r.Fault != "":
		return p.fault(errors.New(r.Fault))
	case r.Limit.Kind != "":
		return limitError(r.Limit)
	case r.Refusal.Rule != "":
		return &engine.LoadError{Line: r.Refusal.Line, Column: r.Refusal.Column, Rule: r.Refusal.Rule,
			Reason: r.Refusal.Reason, Hint: r.Refusal.Hint}
	}
	return nil
}
