package trainer

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// objectiveOf is the policy gradient's objective for one id, from its definition.
func objectiveOf(logp, behaviour, reference, a, clip, beta float64) float64 {
	r := math.Exp(logp - behaviour)
	least := r * a
	if clip > 0 {
		least = min(least, max(1-clip, min(1+clip, r))*a)
	}
	k := reference - logp
	return -least + beta*(math.Exp(k)-k-1)
}

// The derivative against finite differences, inside the trust region and on both sides of it,
// for advantages of both signs.
func TestSurrogateDerivative(t *testing.T) {
	const h = 1e-6
	for _, a := range []float64{1.5, -0.7} {
		for _, moved := range []float64{-0.5, -0.05, 0, 0.1, 0.4} {
			for _, clip := range []float64{0, 0.2} {
				for _, beta := range []float64{0, 0.3} {
					s := &surrogate{advantage: []float32{float32(a)}, behaviour: []float32{-1}, clip: clip, beta: beta, reference: []float32{-1.25}}
					logp := -1 + moved
					at := func(x float64) float64 { return objectiveOf(x, -1, -1.25, float64(float32(a)), clip, beta) }
					want, got := (at(logp+h)-at(logp-h))/(2*h), s.derivative(0, logp)
					if math.Abs(want-got) > 1e-6 {
						t.Errorf("A %v, moved %v, clip %v, beta %v: %v, finite difference %v", a, moved, clip, beta, got, want)
					}
				}
			}
		}
	}
}

// reinforced is a trainer with reference weights other than its own, and a batch whose
// log-probabilities are near its own, so that some ratios are clipped and some are not.
func reinforced(t *testing.T, c checkpoint.Config, o Options) (*Trainer, *reference, []engine.Sequence) {
	t.Helper()
	o.Adam = AdamW{Beta2: .5, Eps: 1}
	tr := bare(t, c, cpu(t, 1), o)
	tr.files = []file{{tokenizerFile, alphabet()}}
	dir := filepath.Join(t.TempDir(), "start")
	if _, err := tr.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := tr.learner.Reference(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	ref := newReference(c, tr.model.layout, host(t, tr.model.params))
	if err := tr.model.upload(tr.model.gaussian(8, 0.3)); err != nil {
		t.Fatal(err)
	}
	batch := sequencesOf(5, c.Vocab, 4)
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range batch {
		row, err := rowOf(batch[i])
		if err != nil {
			t.Fatal(err)
		}
		scores, err := tr.Score(t.Context(), []Row{row})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range scores[0] {
			batch[i].LogProbs = append(batch[i].LogProbs, p+float32(rng.NormFloat64()*0.3))
		}
		batch[i].Advantage = []float32{1.2, -0.8, 0.5, -1.5, 2}[i]
	}
	return tr, ref, batch
}

// Every gradient of a whole model's policy gradient against finite differences of the
// objective in the double reference.
func TestPolicyGradientMatchesFiniteDifferences(t *testing.T) {
	const h = 1e-5
	by := engine.Surrogate{Clip: .2, Beta: .3}
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		c := toy(family, true)
		tr, start, batch := reinforced(t, c, Options{MicroTokens: 20})
		u, err := tr.learner.Reinforce(t.Context(), batch, by)
		if err != nil || u.Skipped || u.Clipped == 0 || u.Clipped == u.Tokens || !(u.KL > 0) {
			t.Fatalf("%+v, %v: want some clipped tokens, and a distance", u, err)
		}
		grads := host(t, tr.opt.grads)
		now := newReference(c, tr.model.layout, host(t, tr.model.params))
		loss := func() float64 {
			sum, n := 0.0, 0
			for _, s := range batch {
				p, q := now.logProbs(s.IDs), start.logProbs(s.IDs)
				for i := s.Sampled[0].From; i < s.Sampled[0].To; i++ {
					sum += objectiveOf(p[i], float64(s.LogProbs[i-s.Sampled[0].From]), q[i], float64(s.Advantage), by.Clip, by.Beta)
					n++
				}
			}
			return sum / float64(n)
		}
		rng := rand.New(rand.NewPCG(3, 3))
		for _, tensor := range tr.model.layout.tensors {
			w := now.weights[tensor.Name]
			for range 4 {
				i := rng.IntN(len(w))
				keep := w[i]
				w[i] = keep + h
				up := loss()
				w[i] = keep - h
				want, got := (up-loss())/(2*h), float64(tensor.of(grads)[i])
				w[i] = keep
				if math.Abs(want-got) > 1e-3*math.Abs(want)+5e-6 {
					t.Errorf("%s %s[%d]: gradient %g, finite difference %g", family, tensor.Name, i, got, want)
				}
			}
		}
	}
}

// logProbs are the log-probabilities of ids[i] behind ids[:i]; element 0 means nothing.
func (r *reference) logProbs(ids []int32) []float64 {
	z := r.logits(ids)
	p := make([]float64, len(ids))
	for i := 1; i < len(ids); i++ {
		mass := 0.0
		for _, v := range z[i-1] {
			mass += math.Exp(v)
		}
		p[i] = z[i-1][ids[i]] - math.Log(mass)
	}
	return p
}

// With fresh samples, advantages of 1 and no KL term it is rejection sampling's update.
func TestPolicyGradientOfOnesIsTheLikelihood(t *testing.T) {
	c := toy(checkpoint.Qwen3, false)
	tr, _, batch := reinforced(t, c, Options{})
	for i := range batch {
		row, _ := rowOf(batch[i])
		scores, err := tr.Score(t.Context(), []Row{row})
		if err != nil {
			t.Fatal(err)
		}
		batch[i].LogProbs, batch[i].Advantage = scores[0], 1
	}
	a, err := tr.learner.Update(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	want := host(t, tr.opt.grads)
	b, err := tr.learner.Reinforce(t.Context(), batch, engine.Surrogate{Clip: .2})
	if err != nil {
		t.Fatal(err)
	}
	if d := distance(want, host(t, tr.opt.grads)); d > 1e-6 || a.Tokens != b.Tokens || math.Abs(a.NLL-b.NLL) > 1e-6 {
		t.Errorf("gradients differ by %g: %+v and %+v", d, a, b)
	}
}

// What a policy gradient can't work with is refused, and nothing changes.
func TestPolicyGradientRefusals(t *testing.T) {
	c := toy(checkpoint.Llama, true)
	tr, _, batch := reinforced(t, c, Options{})
	before := freeze(t, tr)
	none := slices.Clone(batch)
	none[1].LogProbs = nil
	nan := slices.Clone(batch)
	nan[2].Advantage = float32(math.NaN())
	for _, v := range []struct {
		batch []engine.Sequence
		by    engine.Surrogate
		says  string
	}{{none, engine.Surrogate{}, "log-probability of every"}, {nan, engine.Surrogate{}, "advantage NaN"}, {batch, engine.Surrogate{Beta: -1}, "beta -1"}} {
		if _, err := tr.learner.Reinforce(t.Context(), v.batch, v.by); err == nil || !strings.Contains(err.Error(), v.says) {
			t.Errorf("%v, want %q", err, v.says)
		}
	}
	if err := tr.learner.Reference(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a reference from nowhere")
	}
	other := bare(t, c, cpu(t, 1), Options{})
	if _, err := other.learner.Reinforce(t.Context(), batch, engine.Surrogate{Beta: .1}); err == nil || !strings.Contains(err.Error(), "reference") {
		t.Errorf("without a reference: %v", err)
	}
	if !before.equal(freeze(t, tr)) {
		t.Error("something changed")
	}
}

// With adapters the reference shares the base: a KL term holds the adapters near theirs.
func TestReferenceOfAdapters(t *testing.T) {
	tr, _, batch := reinforced(t, toy(checkpoint.Llama, true), Options{LoRA: LoRA{Rank: 2}})
	if tr.reference.params != tr.model.params {
		t.Error("the reference has a base of its own")
	}
	same, err := tr.learner.Reinforce(t.Context(), batch, engine.Surrogate{Beta: .1})
	if err != nil || math.Abs(same.KL) > 1e-9 {
		t.Errorf("KL %v of the weights to themselves, %v", same.KL, err)
	}
	someLoRA(t, tr)
	moved, err := tr.learner.Reinforce(t.Context(), batch, engine.Surrogate{Beta: .1})
	if err != nil || !(moved.KL > 1e-6) {
		t.Errorf("KL %v after a move, %v", moved.KL, err)
	}
}
