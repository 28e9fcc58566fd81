package trainer

import (
	"math"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// scale is the factor on attention scores.
func (m *Model) scale() float32 { return float32(1 / math.Sqrt(float64(m.Config.HeadDim))) }

// forward runs T rows of B sequences, already uploaded, through all layers into t.x.
func (m *Model) forward(t *tape, T, B int) error {
	c := m.Config
	stream := func(i int) cuda.Floats {
		if i < len(t.layers) {
			return t.layers[i].x
		}
		return t.x
	}
	err := m.dev.Embed(cuda.Embed{T: T, D: c.Hidden, V: c.Vocab, IDs: t.ids, Table: m.layout.embed.in(m.params), Y: stream(0)})
	for i := range t.layers {
		err = first(err,
			m.mixer(t, i, T, B),
			m.mlp(t, i, T, stream(i+1)),
		)
	}
	return err
}

// mixer is mid = x + attention(norm1(x)) of layer i.
func (m *Model) mixer(t *tape, i, T, B int) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := H*d, (H+2*K)*d
	projected := l.qkv
	value := l.qkv.Slice((H+K)*d, l.qkv.Len())
	if c.QKNorm {
		projected = l.raw
		value = l.raw.Slice((H+K)*d, l.raw.Len()) // values are not normed: they stay where they are
	}
	err := first(
		m.dev.RMSNorm(cuda.RMSNorm{Rows: T, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
			X: l.x, W: w.norm1.in(m.params), Y: l.norm1, RStd: l.rstd1}),
		m.dev.MatMul(cuda.MatMul{T: T, N: W, M: D, LdX: D, LdY: W, X: l.norm1, W: w.qkv.in(m.params), Y: projected}),
	)
	if c.QKNorm {
		err = first(err,
			m.dev.RMSNorm(cuda.RMSNorm{Rows: T * H, N: d, Heads: H, LdX: W, LdY: W, Eps: float32(c.RMSEps),
				X: l.raw, W: w.qNorm.in(m.params), Y: l.qkv, RStd: l.rstdQ}),
			m.dev.RMSNorm(cuda.RMSNorm{Rows: T * K, N: d, Heads: K, LdX: W, LdY: W, Eps: float32(c.RMSEps),
				X: l.raw.Slice(Q, l.raw.Len()), W: w.kNorm.in(m.params), Y: l.qkv.Slice(Q, l.qkv.Len()), RStd: l.rstdK}),
		)
	}
	return first(err,
		m.rope(t.pos, l.qkv, T, false),
		m.dev.Attention(cuda.Attention{T: T, B: B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Start: t.start,
			Query: l.qkv, Key: l.qkv.Slice(Q, l.qkv.Len()), Value: value, Out: l.out, LSE: l.lse}),
		m.dev.Copy(l.mid.Slice(0, T*D), l.x.Slice(0, T*D)),
		m.dev.MatMul(cuda.MatMul{T: T, N: D, M: Q, LdX: Q, LdY: D, Accumulate: true, X: l.out, W: w.out.in(m.params), Y: l.mid}),
	)
}

// rope rotates the query and key heads of qkv [T, (H+2K)d] in place, or back.
func (m *Model) rope(pos cuda.Ints, qkv cuda.Floats, T int, inverse bool) error {
	c := m.Config
	return m.dev.Rope(cuda.Rope{T: T, Heads: c.Heads + c.KVHeads, HeadD: c.HeadDim, R: c.HeadDim,
		Ld: (c.Heads + 2*c.KVHeads) * c.HeadDim, MaxPos: m.context, Inverse: inverse, Pos: pos, Cos: m.cos, Sin: m.sin, X: qkv})
}

// mlp is next = mid + down(silu(gate) * up) of layer i.
func (m *Model) mlp(t *tape, i, T int, next cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I := c.Hidden, c.Intermediate
	return first(
		m.dev.RMSNorm(cuda.RMSNorm{Rows: T, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
			X: l.mid, W: w.norm2.in(m.params), Y: l.norm2, RStd: l.rstd2}),
		m.dev.MatMul(cuda.MatMul{T: T, N: 2 * I, M: D, LdX: D, LdY: 2 * I, X: l.norm2, W: w.gateUp.in(m.params), Y: l.gateUp}),
		m.dev.SwiGLU(cuda.SwiGLU{T: T, I: I, GU: l.gateUp, Y: l.act}),
		m.dev.Copy(next.Slice(0, T*D), l.mid.Slice(0, T*D)),
		m.dev.MatMul(cuda.MatMul{T: T, N: D, M: I, LdX: I, LdY: D, Accumulate: true, X: l.act, W: w.down.in(m.params), Y: next}),
	)
}
