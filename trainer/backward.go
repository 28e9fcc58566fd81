package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// backward carries t.dx, the gradient of t.x, through all layers and adds every weight's
// gradient to grads, which has the layout of the weights and is zeroed by whoever starts an
// optimizer batch. It overwrites gateUp of the tape.
func (m *Model) backward(t *tape, T, B int, grads cuda.Floats) error {
	var err error
	for i := len(t.layers) - 1; i >= 0; i-- {
		err = first(err,
			m.mlpBackward(t, i, T, grads),
			m.mixerBackward(t, i, T, B, grads),
		)
	}
	c := m.Config
	return first(err,
		m.dev.EmbedBackward(cuda.EmbedGrad{T: T, D: c.Hidden, V: c.Vocab, IDs: t.ids, DY: t.dx, DTable: m.layout.embed.in(grads)}))
}

// mlpBackward turns the gradient of the residual after layer i into that between mixer and
// MLP, in place.
func (m *Model) mlpBackward(t *tape, i, T int, grads cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I := c.Hidden, c.Intermediate
	return first(
		m.dev.MatMulBackwardW(cuda.MatMulGradW{T: T, N: D, M: I, LdDY: D, LdX: I, DY: t.dx, X: l.act, DW: w.down.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{T: T, N: D, M: I, LdDY: D, LdDX: I, DY: t.dx, W: w.down.in(m.params), DX: t.dAct}),
		m.dev.SwiGLUBackward(cuda.SwiGLUGrad{T: T, I: I, GU: l.gateUp, DY: t.dAct, DGU: l.gateUp}),
		m.dev.MatMulBackwardW(cuda.MatMulGradW{T: T, N: 2 * I, M: D, LdDY: 2 * I, LdX: D, DY: l.gateUp, X: l.norm2, DW: w.gateUp.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{T: T, N: 2 * I, M: D, LdDY: 2 * I, LdDX: D, DY: l.gateUp, W: w.gateUp.in(m.params), DX: t.dNorm}),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.mid, W: w.norm2.in(m.params), RStd: l.rstd2, DX: t.dx, DW: w.norm2.in(grads)}),
	)
}

// mixerBackward turns the gradient of the residual between mixer and MLP of layer i into
// that before the layer, in place.
func (m *Model) mixerBackward(t *tape, i, T, B int, grads cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := H*d, (H+2*K)*d
	from := func(x cuda.Floats, column int) cuda.Floats { return x.Slice(column, x.Len()) }
	value := from(l.qkv, (H+K)*d)
	if c.QKNorm {
		value = from(l.raw, (H+K)*d)
	}
	err := first(
		m.dev.MatMulBackwardW(cuda.MatMulGradW{T: T, N: D, M: Q, LdDY: D, LdX: Q, DY: t.dx, X: l.out, DW: w.out.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{T: T, N: D, M: Q, LdDY: D, LdDX: Q, DY: t.dx, W: w.out.in(m.params), DX: t.dOut}),
		m.dev.AttentionBackward(cuda.AttentionGrad{T: T, B: B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Start: t.start,
			Query: l.qkv, Key: from(l.qkv, Q), Value: value, Out: l.out, LSE: l.lse, DOut: t.dOut,
			DQuery: t.dQKV, DKey: from(t.dQKV, Q), DValue: from(t.dQKV, (H+K)*d)}),
		m.rope(t.pos, t.dQKV, T, true),
	)
	if c.QKNorm {
		err = first(err,
			m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T * H, N: d, Heads: H, LdX: W, LdDY: W, LdDX: W, DY: t.dQKV,
				X: l.raw, W: w.qNorm.in(m.params), RStd: l.rstdQ, DX: t.dQKV, DW: w.qNorm.in(grads)}),
			m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T * K, N: d, Heads: K, LdX: W, LdDY: W, LdDX: W, DY: from(t.dQKV, Q),
				X: from(l.raw, Q), W: w.kNorm.in(m.params), RStd: l.rstdK, DX: from(t.dQKV, Q), DW: w.kNorm.in(grads)}),
		)
	}
	return first(err,
		m.dev.MatMulBackwardW(cuda.MatMulGradW{T: T, N: W, M: D, LdDY: W, LdX: D, DY: t.dQKV, X: l.norm1, DW: w.qkv.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{T: T, N: W, M: D, LdDY: W, LdDX: D, DY: t.dQKV, W: w.qkv.in(m.params), DX: t.dNorm}),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.x, W: w.norm1.in(m.params), RStd: l.rstd1, DX: t.dx, DW: w.norm1.in(grads)}),
	)
}
