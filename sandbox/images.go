package sandbox

import (
	"context"
	"errors"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// maxImages is how many images a worker keeps; each takes up to 10 MB.
const maxImages = 16

// hold makes sure that a program's image is in the worker and stays there until release.
func (p *process) hold(ctx context.Context, program *program) error {
	p.mu.Lock()
	l := p.images[program.image]
	if l == nil {
		l = &loading{done: make(chan struct{})}
		p.images[program.image] = l
		p.evict()
		go p.fetch(program, l)
	}
	p.clock++
	l.last = p.clock
	l.used++
	p.mu.Unlock()
	var err error
	select {
	case <-l.done:
		err = l.result
	case <-ctx.Done():
		err = program.fault(ctx.Err())
	}
	if err != nil {
		p.release(program)
	}
	return err
}

// release allows the image of a program to be evicted.
func (p *process) release(program *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.images[program.image]; l != nil {
		l.used--
	}
}

// evict drops the image that was not used for longest. The caller holds p.mu.
func (p *process) evict() {
	if len(p.images) <= maxImages {
		return
	}
	var victim uint32
	for number, l := range p.images {
		if l.used == 0 && l.loaded() && (victim == 0 || l.last < p.images[victim].last) {
			victim = number
		}
	}
	if victim != 0 {
		delete(p.images, victim)
		go p.send(abi.Frame{Kind: abi.FrameDrop, Session: victim})
	}
}

func (l *loading) loaded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// drop forgets an image at once; runs in progress still end well.
func (p *process) drop(image uint32) {
	p.mu.Lock()
	_, ok := p.images[image]
	delete(p.images, image)
	p.mu.Unlock()
	if ok {
		p.send(abi.Frame{Kind: abi.FrameDrop, Session: image})
	}
}

// fetch has the worker load a program. It doesn't stop when the first that asked for it
// gives up: others may wait for the same.
func (p *process) fetch(program *program, l *loading) {
	defer close(l.done)
	id, frames := p.open()
	defer p.end(id)
	p.send(abi.Frame{Kind: abi.FrameLoad, Session: id, Payload: abi.AppendLoadOrder(nil,
		abi.LoadOrder{Image: program.image, Source: program.harness.Source})})
	f, err := program.next(context.Background(), p, id, frames)
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
	if p.images[program.image] == l {
		delete(p.images, program.image)
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
