package sandbox

import (
	"context"
	"slices"
	"strings"
	"sync"
)

const (
	// compileAfter is how many runs make it worth the seconds of a compilation to find out
	// whether compiled code is faster.
	compileAfter = 1000
	// comparedRuns is how many runs of each engine decide.
	comparedRuns = 48
)

// rival is the other way to run an interpreted program that runs often: compiled aside,
// then both engines take turns in real runs, and the one whose guests take less processor
// time stays. Which one ran is in every engine.GuestUse.
type rival struct {
	ready chan struct{} // closed when runs are compared, or nothing is to be compared

	mu     sync.Mutex
	runs   int
	other  *program // the compiled one; nil before it is ready, or when it failed
	times  [2][]float64
	winner *program // nil until decided
	closed bool
}

// alike says that a source gives the same results by both engines, at any time: only then
// may timing choose between them. The interpreter agrees with Go on what the vet lets
// through; what Go itself leaves open is the order of maps and the addresses of pointers.
func alike(source string) bool {
	return !strings.Contains(source, "%p") && !(strings.Contains(source, "map[") && strings.Contains(source, "range"))
}

// pick chooses who does the next run of a program.
func (r *rival) pick(p *program) *program {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	switch {
	case r.winner != nil:
		return r.winner
	case r.runs == p.sandbox.compileAfter:
		p.sandbox.aside(func() { r.prepare(p) })
	case r.other != nil && r.runs%2 == 0:
		return r.other
	}
	return p
}

// saw takes note of a run that came to its end; p is the interpreted program.
func (r *rival) saw(p, ran *program, seconds float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.other == nil || r.winner != nil {
		return
	}
	side := 0
	if ran == r.other {
		side = 1
	}
	r.times[side] = append(r.times[side], seconds)
	if len(r.times[0]) < comparedRuns || len(r.times[1]) < comparedRuns {
		return
	}
	r.winner = p
	if middle(r.times[1]) < middle(r.times[0]) {
		r.winner = r.other
	}
	r.times = [2][]float64{}
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// prepare compiles the program. Where that can't be done it stays with the interpreter.
func (r *rival) prepare(p *program) {
	defer close(r.ready)
	s := p.sandbox
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.done:
			cancel()
		case <-ended:
		}
	}()
	other := &program{sandbox: s, harness: p.harness, engine: Compile, holders: 1}
	wasm, err := s.compile(ctx, p.harness)
	if err == nil {
		other.code = string(wasm)
		err = other.prepare(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.winner = p
	case r.closed:
		other.free()
	default:
		r.other = other
	}
}

// close frees the compiled program.
func (r *rival) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.other != nil {
		r.other.free()
	}
}
