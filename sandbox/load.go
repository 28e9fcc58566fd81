package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/compile"
	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

// How a candidate runs: Config.Engine, and the last two in engine.GuestUse.
const (
	// Auto interprets what the vet lets through and compiles the rest, where there is Go. A
	// source that runs a thousand times is compiled too, and both engines take turns until it
	// is clear which is faster; only where the engine can't make a difference to its results.
	Auto = "auto"
	// Interpret refuses what the interpreter gets wrong.
	Interpret = "interpret"
	// Compile needs the Go toolchain. A load takes seconds, a rollout a fifth. A compiled
	// guest that doesn't end costs its worker, and runs beside it are tried again.
	Compile = "compile"
)

// Load implements engine.Sandbox: vet, then an image in one of the workers.
func (s *Sandbox) Load(ctx context.Context, h engine.Harness) (engine.Program, error) {
	p, err := s.held(h.ID)
	if err != nil {
		return nil, err
	}
	if p == nil {
		made := &program{sandbox: s, harness: h}
		if err = s.translate(ctx, made); err != nil {
			return nil, err
		}
		began := time.Now()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			made.cost.Image = time.Since(began)
		}()
		if p, err = s.hold(made); err != nil {
			return nil, err
		}
	}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// LoadCost is where the time of a Load went.
type LoadCost struct {
	Vet     time.Duration // lowering, types and rules
	Compile time.Duration // by the Go toolchain, or from its cache; 0 = interpreted
	Image   time.Duration // in a worker
}

// CostOf is what loading a program of this package took; nothing for others.
func CostOf(p engine.Program) LoadCost {
	if p, ok := p.(*program); ok {
		p.sandbox.mu.Lock()
		defer p.sandbox.mu.Unlock()
		return p.cost
	}
	return LoadCost{}
}

// translate vets a program's source and makes what workers load.
func (s *Sandbox) translate(ctx context.Context, p *program) error {
	began := time.Now()
	lowered, refused := vet.Prepare(p.harness.Source)
	p.cost.Vet = time.Since(began)
	p.engine, p.code = Interpret, lowered
	var refusal *engine.LoadError
	if errors.As(refused, &refusal) && s.config.Engine != Interpret && interpretersFault(refusal) || refused == nil && s.config.Engine == Compile {
		wasm, err := s.compile(ctx, p.harness)
		p.engine, p.code = Compile, string(wasm)
		p.cost.Compile = time.Since(began) - p.cost.Vet
		if errors.Is(err, compile.ErrNoGo) && refusal != nil {
			more := *refusal
			more.Hint += "; with Go on PATH it would be compiled"
			return &more
		}
		return err
	}
	if refused == nil && s.config.Engine != Interpret && alike(p.harness.Source) {
		p.rival = &rival{ready: make(chan struct{})}
	}
	return refused
}

// interpretersFault says whether a source is refused only because the interpreter would
// run it wrong: what may not run at all is refused by other rules, before.
func interpretersFault(refusal *engine.LoadError) bool {
	return slices.ContainsFunc(vet.Rules, func(r vet.Rule) bool { return r.Name == refusal.Rule })
}

// compile builds a candidate's own guest.
func (s *Sandbox) compile(ctx context.Context, h engine.Harness) ([]byte, error) {
	c, err := s.toolchain(ctx)
	if err != nil {
		return nil, engine.Fail(engine.AtSandbox, "compile", err)
	}
	wasm, err := c.Build(ctx, h)
	var refusal *engine.LoadError
	if err == nil || errors.As(err, &refusal) {
		return wasm, err
	}
	return nil, engine.Fail(engine.AtSandbox, string(h.ID), fmt.Errorf("compile: %w", err))
}

func (s *Sandbox) toolchain(ctx context.Context) (*compile.Compiler, error) {
	s.building.Lock()
	defer s.building.Unlock()
	if s.compiler == nil {
		c, err := compile.Open(ctx, filepath.Join(s.config.CacheDir, "go"))
		if err != nil {
			return nil, err
		}
		s.compiler = c
	}
	return s.compiler, nil
}

// whyNot says why candidates can't be compiled here.
func (s *Sandbox) whyNot(ctx context.Context) string {
	if s.config.Engine == Interpret {
		return "not asked for"
	}
	if _, err := s.toolchain(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// held finds the open program of a source and counts one more holder; nil if there is none.
func (s *Sandbox) held(id engine.HarnessID) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, engine.Fail(engine.AtSandbox, string(id), errClosed)
	}
	p := s.programs[id]
	if p != nil {
		p.holders++
	}
	return p, nil
}

// hold adds a program, or finds one that was added meanwhile, and counts its holders.
func (s *Sandbox) hold(made *program) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, engine.Fail(engine.AtSandbox, string(made.harness.ID), errClosed)
	}
	p := s.programs[made.harness.ID]
	if p == nil {
		p = made
		s.programs[made.harness.ID] = p
	}
	p.holders++
	return p, nil
}
