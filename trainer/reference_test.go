package trainer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// reference is the model of spec/models.md in double precision, one sequence at a time,
// written from the formulas: no packing, no fused products, no cache.
type reference struct {
	c       checkpoint.Config
	weights map[string][]float64
}

func newReference(c checkpoint.Config, l layout, host []float32) *reference {
	r := &reference{c, map[string][]float64{}}
	for _, t := range l.tensors {
		x := make([]float64, t.n)
		for i, v := range t.of(host) {
			x[i] = float64(v)
		}
		r.weights[t.Name] = x
	}
	return r
}

// linear is y = x Wᵀ, W [out, len(x)].
func linear(x, w []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for n := range y {
		for m, v := range x {
			y[n] += v * w[n*len(x)+m]
		}
	}
	return y
}

func (r *reference) norm(x, w []float64) []float64 {
	mean := 0.0
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = w[i] * v / math.Sqrt(mean+r.c.RMSEps)
	}
	return y
}

func (r *reference) rotate(x []float64, pos int) []float64 {
	d := len(x)
	y := make([]float64, d)
	for i := range d / 2 {
		angle := float64(pos) * math.Pow(r.c.RopeTheta, -2*float64(i)/float64(d))
		cos, sin := math.Cos(angle), math.Sin(angle)
		y[i], y[i+d/2] = x[i]*cos-x[i+d/2]*sin, x[i+d/2]*cos+x[i]*sin
	}
	return y
}

// logits returns [len(ids), V].
func (r *reference) logits(ids []int32) [][]float64 {
	c, d := r.c, r.c.HeadDim
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = append([]float64(nil), r.weights[checkpoint.EmbedName][int(id)*c.Hidden:(int(id)+1)*c.Hidden]...)
	}
	for i := range c.Layers {
		w := func(part string) []float64 { return r.weights[checkpoint.LayerName(i, part)] }
		q, k, v := make([][]float64, len(ids)), make([][]float64, len(ids)), make([][]float64, len(ids))
		for t := range ids {
			h := r.norm(x[t], w("input_layernorm"))
			q[t], k[t], v[t] = linear(h, w("self_attn.q_proj")), linear(h, w("self_attn.k_proj")), linear(h, w("self_attn.v_proj"))
			for _, part := range []struct {
				x    []float64
				norm string
			}{{q[t], "self_attn.q_norm"}, {k[t], "self_attn.k_norm"}} {
				for at := 0; at < len(part.x); at += d {
					head := part.x[at : at+d]
					if c.QKNorm {
						copy(head, r.norm(head, w(part.norm)))
					}
					copy(head, r.rotate(head, t))
				}
			}
		}
		for t := range ids {
			o := make([]float64, c.Heads*d)
			for h := range c.Heads {
				kv := h / (c.Heads / c.KVHeads) * d
				p, sum := make([]float64, t+1), 0.0
				for s := range p {
					p[s] = math.Exp(dot(q[t][h*d:(h+1)*d], k[s][kv:kv+d]) / math.Sqrt(float64(d)))
					sum += p[s]
				}
				for s := range p {
					for j := range d {
						o[h*d+j] += p[s] / sum * v[s][kv+j]
					}
				}
			}
			for j, y := range linear(o, w("self_attn.o_proj")) {
				x[t][j] += y
			}
			h := r.norm(x[t], w("post_attention_layernorm"))
			gate, up := linear(h, w("mlp.gate_proj")), linear(h, w("mlp.up_proj"))
			for j := range gate {
				gate[j] *= up[j] / (1 + math.Exp(-gate[j]))
			}
			for j, y := range linear(gate, w("mlp.down_proj")) {
				x[t][j] += y
			}
		}
	}
	head := r.weights[checkpoint.HeadName]
	if c.Tied {
		head = r.weights[checkpoint.EmbedName]
	}
	for t := range x {
		x[t] = linear(r.norm(x[t], r.weights[checkpoint.NormName]), head)
	}
	return x
}

// loss is sum(weight * nll) / sum(weight) at temperature tau.
func (r *reference) loss(rows []Row, tau float64) float64 {
	sum, total := 0.0, 0.0
	for _, row := range rows {
		z := r.logits(row.IDs)
		for t := 1; t < len(row.IDs); t++ {
			if w := float64(row.Weights[t]); w != 0 {
				mass := 0.0
				for _, v := range z[t-1] {
					mass += math.Exp(v / tau)
				}
				sum += w * (math.Log(mass) - z[t-1][row.IDs[t]]/tau)
				total += w
			}
		}
	}
	return sum / total
}

// toy is a tiny model of a family; head width times heads is not the hidden width.
func toy(family string, tied bool) checkpoint.Config {
	return checkpoint.Config{Family: family, Vocab: 13, Hidden: 12, Intermediate: 10, Heads: 4, KVHeads: 2, HeadDim: 4,
		Layers: checkpoint.LayersOf(checkpoint.FullAttention, 2), QKNorm: family == checkpoint.Qwen3, Tied: tied,
		RMSEps: 1e-5, RopeTheta: 100, MaxPositions: 64, DType: checkpoint.F32}
}

func cpu(t testing.TB, threads int) *cuda.Device {
	t.Helper()
	dev, err := cuda.Open("cpu", threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	return dev
}

// bare is a trainer without tokenizer and policy, weights N(0, 0.3).
func bare(t testing.TB, c checkpoint.Config, dev *cuda.Device, o Options) *Trainer {
	t.Helper()
	m, err := newModel(c, dev, o.Context)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.prepare(o); err != nil {
		t.Fatal(err)
	}
	o.defaults(m)
	tr := &Trainer{adam: o.Adam, temperature: float32(o.Temperature), microTokens: o.MicroTokens, model: m}
	tr.learner = &Learner{tr}
	t.Cleanup(func() {
		tr.forget()
		if tr.tape != nil {
			tr.tape.free()
		}
		if tr.reference != nil {
			m.freeSibling(tr.reference)
		}
		m.free()
	})
	if err := m.upload(m.gaussian(7, 0.3)); err != nil {
		t.Fatal(err)
	}
	return tr
}

// someRows are rows of several lengths with weights 0, 1 and others.
func someRows(rng *rand.Rand, vocab, count, longest int) []Row {
	rows := make([]Row, count)
	for i := range rows {
		n := 2 + rng.IntN(longest-1)
		rows[i] = Row{IDs: make([]int32, n), Weights: make([]float32, n)}
		for t := range n {
			rows[i].IDs[t] = int32(rng.IntN(vocab))
			if t > 0 {
				rows[i].Weights[t] = []float32{0, 1, 1, 0.2}[rng.IntN(4)]
			}
		}
	}
	return rows
}

// gradients returns the gradient of the loss of rows, and the loss.
func gradients(t testing.TB, tr *Trainer, rows []Row) ([]float32, float64) {
	t.Helper()
	step, err := tr.Step(t.Context(), rows, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := make([]float32, tr.model.layout.size)
	if err := tr.opt.grads.Download(g); err != nil {
		t.Fatal(err)
	}
	return g, step.NLL
}

func host(t testing.TB, x cuda.Floats) []float32 {
	t.Helper()
	h := make([]float32, x.Len())
	if err := x.Download(h); err != nil {
		t.Fatal(err)
	}
	return h
}
