package trainer

import (
	"math"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// mixer is what mixes tokens in one layer: all between the layer's first norm and its
// output projection. Each kind of layer brings its own weights, its own activations
// (mixerTape) and its own state in generation; norms, output projection, residual and MLP
// are the same around all of them.
type mixer interface {
	// weights are those of its products, and of its norms.
	weights() (matrices []matrix, norms []span)
	// tape asks a for what training keeps of T rows.
	tape(a *arena, T int) mixerTape
	// generate is forward for the rows of a step: from s.norm [T, D] to s.out [T, width],
	// with what it knows of earlier tokens kept in k.
	generate(m *Model, s *scratch, k *cache, p *plan) error
}

// mixerTape is one mixer in training, with the activations between forward and backward.
type mixerTape interface {
	// forward is l.out [T, width] from l.norm1 [T, D].
	forward(m *Model, t *tape, l *layerTape, n shape) error
	// backward overwrites t.dNorm [T, D], the gradient of l.norm1, from t.dOut [T, width],
	// and adds to the gradients of the mixer's weights.
	backward(m *Model, t *tape, l *layerTape, n shape, g sums) error
}

// newMixer builds the mixer of layer i, whose weights lie where part says, and the width of
// its output. Config.Check has refused the kinds that are not here.
func newMixer(c checkpoint.Config, i int, part func(string) span) (mixer, int) {
	switch c.Layers[i] {
	case checkpoint.FullAttention:
		return attention{
			config: c, index: i,
			qkv:   join(part("self_attn.q_proj"), part("self_attn.v_proj")),
			qNorm: part("self_attn.q_norm"), kNorm: part("self_attn.k_norm"),
		}, c.Heads * c.HeadDim
	}
	panic("trainer: no mixer for layers of kind " + string(c.Layers[i])) // a mistake of ours
}

// attention is full causal attention over a sequence (spec/models.md 1.3). Its state in
// generation is the keys and values of all tokens, in pages of the cache.
type attention struct {
	config       checkpoint.Config
	index        int  // of its keys and values in the cache
	qkv          span // [(H+2K)d, D]: q_proj, k_proj, v_proj, adjacent so that they are one product
	qNorm, kNorm span // [d], empty without QK norm
}

// Widths of a projected row: of the query heads, and of all three.
func (a attention) widths() (q, all int) {
	c := a.config
	return c.Heads * c.HeadDim, (c.Heads + 2*c.KVHeads) * c.HeadDim
}

func (a attention) weights() ([]matrix, []span) {
	c := a.config
	q, all := a.widths()
	kv := c.KVHeads * c.HeadDim
	list := []matrix{{a.qkv, all, c.Hidden, []module{{"self_attn.q_proj", 0, q}, {"self_attn.k_proj", q, kv}, {"self_attn.v_proj", q + kv, kv}}}}
	if !a.config.QKNorm {
		return list, nil
	}
	return list, []span{a.qNorm, a.kNorm}
}

// attentionTape is what the backward of one attention needs.
type attentionTape struct {
	attention
	raw          cuda.Floats // [T, W] projections before QK norm; empty without QK norm
	rstdQ, rstdK cuda.Floats // [T*H], [T*K]
	qkv          cuda.Floats // [T, W] after norm and RoPE; values with QK norm: in raw
	lse          cuda.Floats // [T, H]
}

func (a attention) tape(r *arena, T int) mixerTape {
	c := a.config
	_, W := a.widths()
	t := &attentionTape{attention: a}
	if c.QKNorm {
		r.want(&t.raw, T*W)
		r.want(&t.rstdQ, T*c.Heads)
		r.want(&t.rstdK, T*c.KVHeads)
	}
	r.want(&t.qkv, T*W)
	r.want(&t.lse, T*c.Heads)
	return t
}

// projected is where the products go and values stay: they are not normed.
func (a *attentionTape) projected() cuda.Floats {
	if a.config.QKNorm {
		return a.raw
	}
	return a.qkv
}

// from is a matrix from a column on.
func from(x cuda.Floats, column int) cuda.Floats { return x.Slice(column, x.Len()) }

func (a *attentionTape) forward(m *Model, t *tape, l *layerTape, n shape) error {
	c, T := a.config, n.T
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := a.widths()
	err := m.times(a.attention.qkv, cuda.MatMul{T: T, N: W, M: D, LdX: D, LdY: W, X: l.norm1, Y: a.projected()}, t.low)
	if c.QKNorm {
		err = first(err,
			m.dev.RMSNorm(cuda.RMSNorm{Rows: T * H, N: d, Heads: H, LdX: W, LdY: W, Eps: float32(c.RMSEps),
				X: a.raw, W: a.qNorm.in(m.params), Y: a.qkv, RStd: a.rstdQ}),
			m.dev.RMSNorm(cuda.RMSNorm{Rows: T * K, N: d, Heads: K, LdX: W, LdY: W, Eps: float32(c.RMSEps),
				X: from(a.raw, Q), W: a.kNorm.in(m.params), Y: from(a.qkv, Q), RStd: a.rstdK}),
		)
	}
	return first(err,
		m.rope(t.pos, a.qkv, T, false),
		m.dev.Attention(cuda.Attention{T: T, B: n.B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Precision: m.precision, Start: t.start, Until: t.paths(),
			Query: a.qkv, Key: from(a.qkv, Q), Value: from(a.projected(), (H+K)*d), Out: l.out, LSE: a.lse}),
	)
}

func (a *attentionTape) backward(m *Model, t *tape, l *layerTape, n shape, g sums) error {
	c, T := a.config, n.T
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := a.widths()
	err := first(
		m.dev.AttentionBackward(cuda.AttentionGrad{T: T, B: n.B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Precision: m.precision, Start: t.start, Until: t.paths(),
			Query: a.qkv, Key: from(a.qkv, Q), Value: from(a.projected(), (H+K)*d), Out: l.out, LSE: a.lse, DOut: t.dOut,
			DQuery: t.dQKV, DKey: from(t.dQKV, Q), DValue: from(t.dQKV, (H+K)*d)}),
		m.rope(t.pos, t.dQKV, T, true),
	)
	if c.QKNorm {
		err = first(err,
			m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T * H, N: d, Heads: H, LdX: W, LdDY: W, LdDX: W, DY: t.dQKV,
				X: a.raw, W: a.qNorm.in(m.params), RStd: a.rstdQ, DX: t.dQKV, DW: g.norm(a.qNorm)}),
			m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T * K, N: d, Heads: K, LdX: W, LdDY: W, LdDX: W, DY: from(t.dQKV, Q),
				X: from(a.raw, Q), W: a.kNorm.in(m.params), RStd: a.rstdK, DX: from(t.dQKV, Q), DW: g.norm(a.kNorm)}),
		)
	}
	return first(err, m.timesBackward(a.attention.qkv, back{T: T, N: W, M: D, LdDY: W, LdX: D, DY: t.dQKV, X: l.norm1, DX: t.dNorm}, t, g))
}

// generate attends over the pages of the cache.
func (a attention) generate(m *Model, s *scratch, k *cache, p *plan) error {
	c, T := a.config, len(p.ids)
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := a.widths()
	key, value := from(s.qkv, Q), from(s.qkv, Q+K*d)
	err := s.times(m, a.qkv, cuda.MatMul{T: T, N: W, M: D, LdX: D, LdY: W, X: s.norm, Y: s.qkv})
	if c.QKNorm {
		err = first(err, m.norm(s.qkv, a.qNorm, s.qkv, T, H, d, W), m.norm(key, a.kNorm, key, T, K, d, W))
	}
	paged := cuda.Paged{T: T, B: len(p.live), H: H, K: K, HeadD: d, P: pageTokens, Pages: k.count, MaxPages: p.maxPages,
		LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Precision: m.precision, Seq: s.seq, Pos: s.pos, PageTable: s.table,
		Query: s.qkv, Key: key, Value: value, KeyPages: k.keys[a.index], ValuePages: k.values[a.index], Out: s.out}
	return first(err,
		m.rope(s.pos, s.qkv, T, false),
		m.dev.PagedStore(paged),
		m.dev.PagedAttend(paged),
	)
}

// scale is the factor on attention scores.
func (m *Model) scale() float32 { return float32(1 / math.Sqrt(float64(m.Config.HeadDim))) }

// rope rotates the query and key heads of qkv [T, (H+2K)d] in place, or back.
func (m *Model) rope(pos cuda.Ints, qkv cuda.Floats, T int, inverse bool) error {
	c := m.Config
	return m.dev.Rope(cuda.Rope{T: T, Heads: c.Heads + c.KVHeads, HeadD: c.HeadDim, R: c.HeadDim,
		Ld: (c.Heads + 2*c.KVHeads) * c.HeadDim, MaxPos: m.context, Inverse: inverse, Pos: pos, Cos: m.cos, Sin: m.sin, X: qkv})
}
