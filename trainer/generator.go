package trainer

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
)

var (
	// errClosed: the policy was closed while the call waited.
	errClosed = errors.New("policy is closed")
	// errWeights: a call that streams its ids can't start over.
	errWeights = errors.New("the weights changed during the call")
)

// generator runs all Generate calls of a policy: one goroutine that owns the cache and
// takes one step at a time. A step is a ragged batch: one row for each sequence that is
// decoding, and pieces of the prompts of new ones.
type generator struct {
	t       *Trainer
	rows    int // most rows of a step, and most sequences at once
	valid   int // ids below it may be sampled
	stop    []int32
	scratch *scratch
	cache   *cache

	mu     sync.Mutex
	work   *sync.Cond
	queue  []*sequence // handed over by Generate
	load   Load        // before the step under way
	closed bool
	ended  chan struct{}

	waiting []*sequence // not admitted yet, in order of arrival
	live    []*sequence
	plan    plan
}

// enqueue hands a sequence to the loop.
func (g *generator) enqueue(s *sequence) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	g.queue = append(g.queue, s)
	g.work.Signal()
	return nil
}

// close ends the loop; calls in progress get errClosed.
func (g *generator) close() {
	g.mu.Lock()
	g.closed = true
	g.work.Signal()
	g.mu.Unlock()
	<-g.ended
}

// loop steps as long as there is work.
func (g *generator) loop() {
	defer close(g.ended)
	for g.collect() {
		g.t.mu.Lock()
		if err := g.step(); err != nil {
			g.fail(engine.Fail(engine.AtDevice, g.t.model.dev.Kind(), err))
		}
		g.t.mu.Unlock()
		runtime.Gosched() // callers that just got a reply may have the next request ready
	}
	g.fail(errClosed)
}

// collect takes over what arrived; it waits when there is nothing to do and answers false
// when the policy is closed.
func (g *generator) collect() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) == 0 && len(g.live) == 0 && len(g.waiting) == 0 && !g.closed {
		g.work.Wait()
	}
	g.waiting = append(g.waiting, g.queue...)
	clear(g.queue)
	g.queue = g.queue[:0]
	g.measure()
	return !g.closed
}

// fail ends every call with an error and forgets the cache, which may be half written.
func (g *generator) fail(err error) {
	for _, s := range slices.Concat(g.live, g.waiting) {
		s.reply <- reply{err: err}
	}
	g.live, g.waiting = nil, nil
	g.cache.reset(g.cache.count)
}

// step prepares, runs and books one batch. The caller holds the device.
func (g *generator) step() error {
	began := time.Now()
	g.renew()
	if err := g.prepare(); err != nil {
		return err
	}
	p := &g.plan
	if len(p.ids) == 0 {
		return nil
	}
	if err := g.scratch.run(g.t.model, g.cache, p); err != nil {
		return err
	}
	out, err := g.scratch.sample(g.t.model, p, g.valid)
	if err != nil {
		return err
	}
	id, err := g.t.model.WeightsID()
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	for _, s := range p.live {
		s.seconds += seconds * float64(s.rows) / float64(len(p.ids))
		g.cache.stored(s)
	}
	for i, s := range p.picked {
		s.ids = append(s.ids, out.id[i])
		s.logp = append(s.logp, out.logp[i])
		if s.each != nil {
			s.each(out.id[i], out.logp[i])
		}
		g.finish(s, id)
	}
	g.live = slices.DeleteFunc(g.live, func(s *sequence) bool { return s.pages == nil })
	n := &g.t.count
	n.Prefill += p.prompts
	n.Decoded += len(p.picked)
	n.GenerateFLOPs += forwardFLOPs(g.t.model.Config, len(p.ids), p.pairs, len(p.pick))
	n.GenerateSeconds += seconds
	return nil
}

// finish answers the call if its last sampled id ended it, and gives its pages back.
func (g *generator) finish(s *sequence, id engine.WeightsID) {
	last := s.ids[len(s.ids)-1]
	stop := engine.StopLength
	switch {
	case slices.Contains(g.stop, last):
		stop = engine.StopEnd
	case len(s.ids) < s.end:
		return
	}
	g.cache.leave(s)
	s.reply <- reply{completion: engine.Completion{
		Sampled: s.ids[len(s.request.Prompt):], LogProbs: s.logp, Stop: stop, Weights: id, Cached: s.cached, Seconds: s.seconds}}
}

// renew starts over when the weights changed: the cache is void, and a sequence belongs to
// one set of weights.
func (g *generator) renew() {
	if g.cache.version == g.t.model.version {
		return
	}
	g.cache.version = g.t.model.version
	var again []*sequence
	for _, s := range g.live {
		if s.each != nil && len(s.logp) > 0 { // what was told can't be taken back
			s.reply <- reply{err: errWeights}
			continue
		}
		s.restart()
		again = append(again, s)
	}
	g.waiting = slices.Concat(again, g.waiting)
	g.live = g.live[:0]
	g.cache.reset(g.cache.count)
}

// prepare fills the plan: sequences that decode first, then prompts that are under way,
// then new sequences as far as rows and pages go.
func (g *generator) prepare() error {
	p := &g.plan
	p.reset()
	g.dropGone()
	budget := g.rows
	for _, prefill := range []bool{false, true} {
		for _, s := range g.live {
			if (len(s.ids)-s.done > 1) == prefill {
				s.rows = 0
				budget -= p.add(g.cache, s, budget)
			}
		}
	}
	kept := g.waiting[:0]
	for i, s := range g.waiting {
		if budget == 0 || len(g.live) == g.rows {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		became, err := g.cache.admit(g.t.model.dev, s)
		if err != nil {
			return err
		}
		if became == full {
			kept = append(kept, g.waiting[i:]...)
			break
		}
		if became == later {
			kept = append(kept, s)
			continue
		}
		g.t.count.Cached += s.cached
		g.live = append(g.live, s)
		budget -= p.add(g.cache, s, budget)
	}
	clear(g.waiting[len(kept):])
	g.waiting = kept
	p.fillTable()
	return nil
}

// dropGone removes the sequences whose callers gave up.
func (g *generator) dropGone() {
	g.live = slices.DeleteFunc(g.live, func(s *sequence) bool {
		if s.gone.Load() {
			g.cache.leave(s)
			return true
		}
		return false
	})
	g.waiting = slices.DeleteFunc(g.waiting, func(s *sequence) bool { return s.gone.Load() })
}
