package trainer

import (
	"math"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// scale is the factor on attention scores.
func (m *Model) scale() float32 { return float32(1 / math.Sqrt(float64(m.Config.HeadDim))) }

// shape is the size of one micro-batch: T rows of B sequences, P of them picked.
type shape struct{ T, B, P int }

// forward runs a micro-batch, already uploaded, through all layers and leaves the residual
// of the picked rows in t.x.
func (m *Model) forward(t *tape, n shape) error {
	c := m.Config
	err := m.dev.Embed(cuda.Embed{T: n.T, D: c.Hidden, V: c.Vocab, IDs: t.ids, Table: m.layout.embed.in(m.params), Y: t.layers[0].x})
	for i := range t.layers {
		l, R, next := &t.layers[i], n.T, t.x
		err = first(err, m.mixer(t, i, n))
		if i < len(t.layers)-1 {
			next = t.layers[i+1].x
			err = first(err, m.dev.Copy(l.mid.Slice(0, n.T*c.Hidden), l.x.Slice(0, n.T*c.Hidden)))
		} else {
			R = n.P
			err = first(err, m.gather(t, n, l.x, l.mid, c.Hidden), m.gather(t, n, l.out, l.outRows, c.Heads*c.HeadDim))
		}
		err = first(err, m.mlp(t, i, R, next))
	}
	return err
}

// gather copies the picked rows of x [T, width] to y [P, width].
func (m *Model) gather(t *tape, n shape, x, y cuda.Floats, width int) error {
	return m.dev.Embed(cuda.Embed{T: n.P, D: width, V: n.T, IDs: t.pick, Table: x, Y: y})
}

// scatter is the backward of gather: dx [T, width] becomes dy on the picked rows, 0 elsewhere.
func (m *Model) scatter(t *tape, n shape, dy, dx cuda.Floats, width int) error {
	return first(
		m.dev.Fill(dx.Slice(0, n.T*width), 0),
		m.dev.EmbedBackward(cuda.EmbedGrad{T: n.P, D: width, V: n.T, IDs: t.pick, DY: dy, DTable: dx}),
	)
}

// mixer is out = attention(norm1(x)) of layer i, before the output projection.
func (m *Model) mixer(t *tape, i int, n shape) error {
	c, w, l, T := m.Config, m.layout.layers[i], &t.layers[i], n.T
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
		m.times(w.qkv, cuda.MatMul{T: T, N: W, M: D, LdX: D, LdY: W, X: l.norm1, Y: projected}),
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
		m.dev.Attention(cuda.Attention{T: T, B: n.B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Start: t.start,
			Query: l.qkv, Key: l.qkv.Slice(Q, l.qkv.Len()), Value: value, Out: l.out, LSE: l.lse}),
	)
}

// rope rotates the query and key heads of qkv [T, (H+2K)d] in place, or back.
func (m *Model) rope(pos cuda.Ints, qkv cuda.Floats, T int, inverse bool) error {
	c := m.Config
	return m.dev.Rope(cuda.Rope{T: T, Heads: c.Heads + c.KVHeads, HeadD: c.HeadDim, R: c.HeadDim,
		Ld: (c.Heads + 2*c.KVHeads) * c.HeadDim, MaxPos: m.context, Inverse: inverse, Pos: pos, Cos: m.cos, Sin: m.sin, X: qkv})
}

// mlp is the rest of layer i on R rows: mid += project(out), which holds x already, and
// next = mid + down(silu(gate) * up).
func (m *Model) mlp(t *tape, i, R int, next cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I, Q := c.Hidden, c.Intermediate, c.Heads*c.HeadDim
	return first(
		m.times(w.out, cuda.MatMul{T: R, N: D, M: Q, LdX: Q, LdY: D, Accumulate: true, X: l.outRows, Y: l.mid}),
		m.dev.RMSNorm(cuda.RMSNorm{Rows: R, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
			X: l.mid, W: w.norm2.in(m.params), Y: l.norm2, RStd: l.rstd2}),
		m.times(w.gateUp, cuda.MatMul{T: R, N: 2 * I, M: D, LdX: D, LdY: 2 * I, X: l.norm2, Y: l.gateUp}),
		m.dev.SwiGLU(cuda.SwiGLU{T: R, I: I, GU: l.gateUp, Y: l.act}),
		m.dev.Copy(next.Slice(0, R*D), l.mid.Slice(0, R*D)),
		m.times(w.down, cuda.MatMul{T: R, N: D, M: I, LdX: I, LdY: D, Accumulate: true, X: l.act, Y: next}),
	)
}
