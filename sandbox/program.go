package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// program is a loaded source. Its images live in workers, which load it on demand.
type program struct {
	sandbox *Sandbox
	harness engine.Harness
	engine  string // Interpret or Compile
	cost    LoadCost
	code    string // what its workers load: the lowered source, or a wasm module
	rival   *rival // nil: it stays with its engine
	runs    atomic.Int64
	holders int  // guarded by sandbox.mu
	closed  bool // no holder is left; guarded by sandbox.mu
}

// prepare loads the source in one worker, so that a bad one is found.
func (p *program) prepare(ctx context.Context) error {
	process, err := p.choose().process(ctx)
	if err != nil {
		return p.fault(err)
	}
	l, err := process.hold(ctx, p)
	if err != nil {
		return err
	}
	process.release(l)
	return nil
}

func (p *program) posts() []*post {
	if p.engine == Compile {
		return p.sandbox.compiling
	}
	return p.sandbox.workers
}

// loadingCosts is how many rollouts take as long as a worker takes to load an image.
const loadingCosts = 32

// choose picks the worker with the fewest sessions. A missing image weighs as many as the
// program still has to run before it was worth loading everywhere.
func (p *program) choose() *post {
	posts := p.posts()
	missing := int(max(0, loadingCosts-p.runs.Load()))
	best := posts[0]
	least := best.load(p.harness.ID, missing)
	for _, w := range posts[1:] {
		if n := w.load(p.harness.ID, missing); n < least {
			best, least = w, n
		}
	}
	return best
}

func (p *program) fault(err error) error {
	return engine.Fail(engine.AtSandbox, string(p.harness.ID), err)
}

// Run implements engine.Program. The host's methods are called on this goroutine.
func (p *program) Run(ctx context.Context, start engine.Start, host engine.Host) (engine.GuestUse, error) {
	if p.rival == nil {
		return p.run(ctx, start, host)
	}
	ran := p.rival.pick(p)
	use, err := ran.run(ctx, start, host)
	if engine.Classify(err) != engine.Infra {
		p.rival.saw(p, ran, use.Seconds+use.Fork)
	}
	return use, err
}

func (p *program) run(ctx context.Context, start engine.Start, host engine.Host) (engine.GuestUse, error) {
	use := engine.GuestUse{Engine: p.engine}
	if err := p.usable(); err != nil {
		return use, err
	}
	process, err := p.choose().process(ctx)
	if err != nil {
		return use, p.fault(err)
	}
	p.runs.Add(1)
	l, err := process.hold(ctx, p)
	if err != nil {
		return use, err
	}
	defer process.release(l)
	id, seat := process.open()
	defer process.end(id)
	defer context.AfterFunc(ctx, func() { process.cancel(id) })()
	seat.out = abi.AppendRunOrder(seat.out[:0], abi.RunOrder{Image: l.number, Start: encodeStart(start)})
	for kind := abi.FrameRun; ; kind = abi.FrameAnswer {
		f, err := p.exchange(process, id, seat, kind)
		if ctx.Err() != nil {
			process.cancel(id)
			return use, p.fault(ctx.Err())
		}
		if err != nil {
			return use, err
		}
		if f.Kind == abi.FrameDone {
			return p.done(f.Payload, use)
		}
		answer, err := serve(ctx, f.Payload, host)
		seat.out = abi.AppendAnswer(seat.out[:0], answer)
		if err == nil && len(seat.out) > abi.MaxFrame {
			err = p.fault(fmt.Errorf("answer of %d bytes", len(seat.out)))
		}
		if err != nil {
			process.cancel(id)
			return use, err
		}
	}
}

// usable fails when the program or its sandbox was closed.
func (p *program) usable() error {
	p.sandbox.mu.Lock()
	defer p.sandbox.mu.Unlock()
	if p.closed || p.sandbox.closed {
		return p.fault(errClosed)
	}
	return nil
}

// exchange sends what is in the seat's room and waits for the worker's next frame of the session.
func (p *program) exchange(process *process, id uint32, seat *seat, kind abi.Kind) (abi.Frame, error) {
	if f, ok := process.exchange(id, seat, abi.Frame{Kind: kind, Session: id, Payload: seat.out}); ok {
		return f, nil
	}
	blamed, failure := process.why()
	if blamed == id {
		limits := p.sandbox.config.Limits
		return abi.Frame{}, &engine.LimitError{Kind: engine.LimitTime,
			Value: int64(limits.Time + limits.Grace), Limit: int64(limits.Time)}
	}
	return abi.Frame{}, p.fault(failure)
}

// done turns a worker's result into the engine's errors.
func (p *program) done(payload []byte, use engine.GuestUse) (engine.GuestUse, error) {
	r, err := abi.DecodeRunResult(payload)
	if err != nil {
		return use, p.fault(err)
	}
	use.Seconds, use.Fork, use.Pages = float64(r.Nanoseconds)/1e9, float64(r.Fork)/1e9, r.Pages
	if r.Fault != "" {
		return use, p.fault(errors.New(r.Fault))
	}
	if r.Limit.Kind != "" {
		return use, limitError(r.Limit)
	}
	return use, endError(r.End)
}

func limitError(l abi.Limit) *engine.LimitError {
	return &engine.LimitError{Kind: engine.LimitKind(l.Kind), Value: int64(l.Value), Limit: int64(l.Limit)}
}

func endError(e abi.End) error {
	switch e.Status {
	case abi.OK:
		return nil
	case abi.Panic:
		return &engine.HarnessError{Panic: true, Text: e.Text}
	}
	for _, s := range sentinels {
		if s.status == e.Status {
			return fmt.Errorf("%w: %s", s.err, e.Text)
		}
	}
	return &engine.HarnessError{Text: e.Text}
}

// Close implements engine.Program. The last holder frees the images; runs in progress
// end well.
func (p *program) Close() error {
	s := p.sandbox
	s.mu.Lock()
	p.holders--
	last := p.holders <= 0
	if last {
		p.closed = true
		delete(s.programs, p.harness.ID)
	}
	s.mu.Unlock()
	if last {
		p.free()
	}
	return nil
}

// free drops the images.
func (p *program) free() {
	for _, w := range p.posts() {
		if process := w.peek(); process != nil {
			process.drop(p.harness.ID)
		}
	}
	if p.rival != nil {
		p.rival.close()
	}
}

func isDone(err error) bool { return errors.Is(err, os.ErrProcessDone) }
