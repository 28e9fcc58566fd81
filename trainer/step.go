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
	step, _, err := t.step(ctx, rows, lr)
	return step, engine.Fail(engine.AtPolicy, "training", err)
}

// step is Step under the lock; it also returns the negative log-likelihood of every
// weighted id, in order.
func (t *Trainer) step(ctx context.Context, rows []Row, lr float64) (Step, []float32, error) {
	began := time.Now()
	batches, total, err := t.batches(rows)
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
	var all []float32
	for _, b := range batches {
		if err := ctx.Err(); err != nil {
			return Step{}, nil, err
		}
		nll, err := t.micro(b, 1/total, t.opt.grads)
		if err != nil {
			return Step{}, nil, err
		}
		for i, x := range nll {
			s.NLL += float64(b.weight[i]) * float64(x) / total
		}
		s.Tokens += len(b.pick)
		s.Forward += len(b.ids)
		all = append(all, nll...)
	}
	s.GradNorm, err = t.opt.apply(t.model, t.adam, lr)
	if errors.Is(err, errNotFinite) {
		s.Skipped, err = true, nil
	}
	s.Seconds = time.Since(began).Seconds()
	t.count.trained(t.model.Config, batches, s.Seconds)
	return s, all, err
}

// batches checks and packs rows and sums their weights.
func (t *Trainer) batches(rows []Row) ([]*micro, float64, error) {
	for i, r := range rows {
		if err := r.check(t.model.Config.Vocab, t.model.context); err != nil {
			return nil, 0, fmt.Errorf("row %d: %w", i, err)
		}
	}
	batches := pack(rows, t.microTokens)
	total := 0.0
	for _, b := range batches {
		for _, w := range b.weight {
			total += float64(w)
		}
	}
	return batches, total, nil
}

// micro runs one micro-batch forward and, when grads is there, backward, and returns the
// negative log-likelihoods of its picked rows.
func (t *Trainer) micro(b *micro, scale float64, grads cuda.Floats) ([]float32, error) {
	n := shape{T: len(b.ids), B: len(b.start) - 1, P: len(b.pick)}
	if err := first(t.reserveTape(n.T), t.model.repack()); err != nil {
		return nil, err
	}
	nll := make([]float32, n.P)
	err := first(
		t.tape.upload(b, scale),
		t.model.forward(t.tape, n),
		t.model.loss(t.tape, n.P, t.temperature, grads),
		t.tape.nll.Download(nll),
	)
	if err == nil && !grads.IsNil() {
		err = t.model.backward(t.tape, n, grads)
	}
	return nll, err
}

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
	batches, _, err := t.batches(rows)
	if err != nil {
		return nil, engine.Fail(engine.AtPolicy, "scoring", err)
	}
	var flat []float32
	for _, b := range batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		nll, err := t.micro(b, 1, cuda.Floats{})
		if err != nil {
			return nil, engine.Fail(engine.AtPolicy, "scoring", err)
		}
		for _, x := range nll {
			flat = append(flat, -x)
		}
	}
	scores := make([][]float32, len(rows))
	for i, r := range rows {
		n := 0
		for _, w := range r.Weights {
			if w != 0 {
				n++
			}
		}
		scores[i], flat = flat[:n:n], flat[n:]
	}
	return scores, nil
}
