package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

// surrogate is the objective of a policy gradient with a clipped importance ratio and a KL
// term (README, "The policy gradient"). Its lists have one element for every trained id of
// the batch, in order.
type surrogate struct {
	advantage []float32 // of the id's row, of either sign
	behaviour []float32 // log-probability it was sampled with
	reference []float32 // log-probability under the reference weights; nil = no KL term
	clip      float64   // 0 = the ratio is not clipped
	beta      float64

	kl      float64 // sum over the ids so far of the KL estimate
	clipped int     // ids whose ratio has left the trust region
}

// maxLogRatio bounds the logarithm of a ratio before exp: what is beyond it is no
// information about a policy near the one that sampled.
const maxLogRatio = 20

func ratio(logp, other float64) float64 {
	return math.Exp(max(-maxLogRatio, min(maxLogRatio, logp-other)))
}

// derivative is that of id i's objective by its log-probability:
//
//	objective = -min(r A, clip(r, 1-clip, 1+clip) A) + beta (e^k - k - 1)
//	r = exp(logp - behaviour), k = reference - logp
//
// The minimum is flat where the ratio has moved further than clip in the direction that A
// asks for.
func (s *surrogate) derivative(i int, logp float64) float64 {
	a, r := float64(s.advantage[i]), ratio(logp, float64(s.behaviour[i]))
	d := -r * a
	if s.clip > 0 && (a > 0 && r > 1+s.clip || a < 0 && r < 1-s.clip) {
		d = 0
		s.clipped++
	}
	if s.reference != nil {
		e := ratio(float64(s.reference[i]), logp)
		d += s.beta * (1 - e)
		s.kl += e - 1 - (float64(s.reference[i]) - logp)
	}
	return d
}

// surrogateOn is a surrogate for a micro-batch, in a mean with this scale.
type surrogateOn struct {
	*surrogate
	micro *micro
	scale float64
}

// weigh sums over the weighted ids that a picked row predicts: their advantages differ.
func (s surrogateOn) weigh(at int, nll, weights []float32) {
	clear(weights)
	for i, pick := range s.micro.of {
		if j := int(pick) - at; j >= 0 && j < len(nll) {
			weights[j] += float32(-s.scale * s.derivative(s.micro.number[i], -float64(nll[j])))
		}
	}
}

// Reference makes the weights in a folder of Save those that Reinforce holds near. They are
// a second set in memory, of what is trained only.
func (l *Learner) Reference(ctx context.Context, dir string) error {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return engine.Fail(engine.AtArchive, dir, err)
	}
	return engine.Fail(engine.AtArchive, dir, t.readReference(dir))
}

func (t *Trainer) readReference(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	s, err := t.openSaved(dir)
	if err != nil {
		return err
	}
	defer s.close()
	if t.reference == nil {
		if err := t.model.repack(&t.model.packs); err != nil {
			return err
		}
		if t.reference, err = t.model.sibling(); err != nil {
			return err
		}
	}
	arena, tensors := t.reference.trained()
	if t.reference.adapters != nil {
		t.reference.version++ // their scaled copies; weights of its own have no packed ones
	}
	return fill(arena, tensors, s.weights, "")
}

// sibling is a model of the same shape that has weights of its own where this one is
// trained, all zero, and shares the rest. It multiplies without packed copies where its
// weights are its own: it runs forward once a batch.
func (m *Model) sibling() (*Model, error) {
	o := &Model{Config: m.Config, dev: m.dev, layout: m.layout, params: m.params, cos: m.cos, sin: m.sin, context: m.context,
		precision: m.precision, recompute: m.recompute, version: 1, baseVersion: 1}
	o.packs = packs{precision: m.precision, of: map[span]cuda.Floats{}, ofThe: 1}
	var err error
	if m.adapters == nil {
		o.params, err = m.dev.Floats(m.layout.size)
		return o, err
	}
	o.packs.of = m.packs.of // of the base, which never changes
	o.adapters, err = newAdapters(m, m.adapters.LoRA)
	return o, err
}

// freeSibling frees what sibling reserved for o.
func (m *Model) freeSibling(o *Model) {
	if o.adapters != nil {
		o.adapters.free()
	} else {
		o.params.Free()
	}
}

// Reinforce makes one optimizer step on the policy gradient of a batch: the mean over all
// sampled ids of surrogate.derivative. The rows' advantages may have either sign and the
// log-probabilities must be there. With a Beta it needs a Reference.
func (l *Learner) Reinforce(ctx context.Context, batch []engine.Sequence, by engine.Surrogate) (engine.Update, error) {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	x, err := lessonOf(batch)
	if err != nil {
		return engine.Update{}, err
	}
	s := &surrogate{clip: by.Clip, beta: by.Beta, behaviour: x.reported}
	if err := s.check(batch); err != nil {
		return engine.Update{}, engine.Fail(engine.AtPolicy, "update", err)
	}
	for i, row := range x.rows {
		for at, w := range row.Weights {
			if w != 0 {
				row.Weights[at] = 1 // the mean is over ids
				s.advantage = append(s.advantage, batch[i].Advantage)
			}
		}
	}
	if by.Beta > 0 {
		if t.reference == nil {
			return engine.Update{}, engine.Fail(engine.AtPolicy, "update", errors.New("a KL term needs reference weights, and there are none"))
		}
		if s.reference, err = t.score(ctx, t.reference, x.rows); err != nil {
			return engine.Update{}, engine.Fail(engine.AtPolicy, "reference", err)
		}
	}
	u, err := l.update(ctx, x, s)
	if u.Tokens > 0 {
		u.KL, u.Clipped = s.kl/float64(u.Tokens), s.clipped
	}
	return u, err
}

func (s *surrogate) check(batch []engine.Sequence) error {
	if !(s.clip >= 0) || !(s.beta >= 0) || math.IsInf(s.beta, 0) {
		return fmt.Errorf("clip %v and beta %v", s.clip, s.beta)
	}
	for i, b := range batch {
		if a := float64(b.Advantage); math.IsNaN(a) || math.Abs(a) > float64(maxWeight) {
			return fmt.Errorf("sequence %d: advantage %v", i, a)
		}
	}
	for _, p := range s.behaviour {
		if math.IsNaN(float64(p)) {
			return errors.New("a policy gradient needs the log-probability of every sampled id")
		}
	}
	return nil
}
