package trainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Step reports one optimizer step.
type Step struct {
	Tokens   int     // ids with a weight above 0
	Forward  int     // input ids run through forward and backward
	NLL      float64 // sum of weight times negative log-likelihood over sum of weights, before the step
	GradNorm float64 // L2, before clipping
	Skipped  bool    // no weighted id, or a gradient that is not finite: nothing changed
	Seconds  float64
}

// Step makes one optimizer step on rows, averaged over all their weights: the loss is
// sum(weight * nll) / sum(weight), so it does not depend on how rows are cut into
// micro-batches. A row longer than the context by more than its last id is refused
// with engine.ErrContext, and nothing changes.
func (t *Trainer) Step(ctx context.Context, rows []Row, lr float64) (Step, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	step, _, err := t.step(ctx, rows, lr, nil)
	return step, engine.Fail(engine.AtPolicy, "training", err)
}

// step is Step under the lock; it also returns the negative log-likelihood of every
// weighted id, in order. A surrogate, if there is one, makes the weights.
func (t *Trainer) step(ctx context.Context, rows []Row, lr float64, by *surrogate) (Step, []float32, error) {
	if t.frozen {
		return Step{}, nil, errors.New("this model was opened to generate only")
	}
	began := time.Now()
	batches, count, total, err := t.batches(rows)
	if err != nil {
		return Step{}, nil, err
	}
	if total == 0 {
		return Step{Skipped: true}, nil, nil
	}
	if t.opt == nil {
		if t.opt, err = newOptimizer(t.model); err != nil {
			return Step{}, nil, err
		}
	}
	if err := t.model.dev.Fill(t.opt.grads, 0); err != nil {
		return Step{}, nil, err
	}
	var s Step
	all := make([]float32, count)
	for i := 0; i < len(batches); i++ {
		if err := ctx.Err(); err != nil {
			return Step{}, nil, err
		}
		b := batches[i]
		p := pass{model: t.model, micro: b, scale: 1 / total, grads: t.opt.grads}
		if by != nil {
			p.objective = surrogateOn{by, b, 1 / total}
		}
		nll, err := t.micro(p)
		if again := t.smaller(batches, i, err); again != nil {
			batches, i = again, i-1
			if errors.As(err, &halfway{}) {
				if err := t.model.dev.Fill(t.opt.grads, 0); err != nil {
					return Step{}, nil, err
				}
				s, i = Step{}, -1
				if by != nil {
					by.clipped, by.kl = 0, 0
				}
			}
			continue
		}
		if err != nil {
			return Step{}, nil, err
		}
		for i, pick := range b.of {
			all[b.number[i]] = nll[pick]
			s.NLL += float64(b.each[i]) * float64(nll[pick]) / total
		}
		s.Tokens += len(b.of)
		s.Forward += len(b.ids)
	}
	s.GradNorm, err = t.opt.apply(t.model, t.adam, lr)
	if errors.Is(err, errNotFinite) {
		s.Skipped, err = true, nil
	}
	s.Seconds = time.Since(began).Seconds()
	t.count.trained(t.model.Config, batches, s.Seconds)
	return s, all, err
}

// batches checks and packs rows, counts their weighted ids and sums their weights.
func (t *Trainer) batches(rows []Row) (list []*micro, count int, total float64, err error) {
	for i, r := range rows {
		if err := r.check(t.model.Config.Vocab, t.model.context); err != nil {
			return nil, 0, 0, fmt.Errorf("row %d: %w", i, err)
		}
		for _, w := range r.Weights {
			total += float64(w)
		}
	}
	samples, count := samplesOf(rows)
	return pack(samples, t.microTokens), count, total, nil
}

// pass is one micro-batch on its way through a model.
type pass struct {
	model     *Model
	micro     *micro
	scale     float64     // of the weights
	objective objective   // nil: the weights of the micro-batch
	grads     cuda.Floats // layout of Model.trained, added to; nil: forward only
}

// micro runs one micro-batch forward and, when grads is there, backward, and returns the
// negative log-likelihoods of its picked rows.
func (t *Trainer) micro(p pass) ([]float32, error) {
	m, b := p.model, p.micro
	n := shape{T: len(b.ids), B: len(b.start) - 1, P: len(b.pick)}
	if err := first(t.reserveTape(max(n.T, n.P)), m.repack(&m.packs)); err != nil {
		return nil, err
	}
	g := sums{base: p.grads}
	if m.adapters != nil {
		g = sums{low: p.grads, unused: t.tape.unused}
	}
	nll := make([]float32, n.P)
	if err := first(t.tape.upload(b, p.scale), m.forward(t.tape, n)); err != nil {
		return nil, err
	}
	err := first(m.loss(t.tape, n.P, t.temperature, p.objective, g), t.tape.nll.Download(nll))
	if err == nil && !g.none() {
		err = m.backward(t.tape, n, g)
	}
	if err != nil && !g.none() {
		err = halfway{err}
	}
	return nll, err
}

// halfway is a failure after which the gradients hold part of a micro-batch.
type halfway struct{ error }

func (h halfway) Unwrap() error { return h.error }

// reserveTape makes room for a micro-batch of T rows; it grows in doublings, up to what a
// full one needs.
func (t *Trainer) reserveTape(T int) error {
	if t.tape != nil {
		if T <= t.tape.capacity {
			return nil
		}
		t.tape.free()
		t.tape = nil
	}
	var err error
	t.tape, err = newTape(t.model, max(T, min(2*T, t.microTokens)))
	return err
}

// Score returns the log-probabilities of the weighted ids of each row under the current
// weights, in order. It changes nothing.
func (t *Trainer) Score(ctx context.Context, rows []Row) ([][]float32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	flat, err := t.score(ctx, t.model, rows)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "scoring", err)
	}
	scores := make([][]float32, len(rows))
	for i, r := range rows {
		n := weighted(r.Weights)
		scores[i], flat = flat[:n:n], flat[n:]
	}
	return scores, nil
}

// score is Score under the lock by any model of the same shape, all rows in one list.
func (t *Trainer) score(ctx context.Context, m *Model, rows []Row) ([]float32, error) {
	batches, count, _, err := t.batches(rows)
	if err != nil {
		return nil, err
	}
	flat := make([]float32, count)
	for i := 0; i < len(batches); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := batches[i]
		nll, err := t.micro(pass{model: m, micro: b, scale: 1})
		if again := t.smaller(batches, i, err); again != nil {
			batches, i = again, i-1
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, pick := range b.of {
			flat[b.number[i]] = -nll[pick]
		}
	}
	return flat, nil
}
