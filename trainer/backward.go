package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// backward carries t.dPicked, the gradient of t.x, through all layers and adds every
// weight's gradient to grads, which has the layout of the weights and is zeroed by whoever
// starts an optimizer batch. It overwrites gateUp of the tape.
func (m *Model) backward(t *tape, n shape, grads cuda.Floats) error {
	c, last := m.Config, len(t.layers)-1
	err := first(
		m.mlpBackward(t, last, n.P, t.dPicked, t.dPickedOut, grads),
		m.scatter(t, n, t.dPickedOut, t.dOut, c.Heads*c.HeadDim),
		m.scatter(t, n, t.dPicked, t.dx, c.Hidden),
		m.mixerBackward(t, last, n, grads),
	)
	for i := last - 1; i >= 0; i-- {
		err = first(err,
			m.mlpBackward(t, i, n.T, t.dx, t.dOut, grads),
			m.mixerBackward(t, i, n, grads),
		)
	}
	return first(err,
		m.dev.EmbedBackward(cuda.EmbedGrad{T: n.T, D: c.Hidden, V: c.Vocab, IDs: t.ids, DY: t.dx, DTable: m.layout.embed.in(grads)}))
}

// mlpBackward is the backward of Model.mlp on R rows: dx, the gradient of the residual
// after layer i, becomes that of x, and dOut that of the attention's output.
func (m *Model) mlpBackward(t *tape, i, R int, dx, dOut, grads cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I, Q := c.Hidden, c.Intermediate, c.Heads*c.HeadDim
	return first(
		m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: R, N: D, M: I, LdDY: D, LdX: I, DY: dx, X: l.act, DW: w.down.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: R, N: D, M: I, LdDY: D, LdDX: I, DY: dx, W: w.down.in(m.params), DX: t.dAct}),
		m.dev.SwiGLUBackward(cuda.SwiGLUGrad{T: R, I: I, GU: l.gateUp, DY: t.dAct, DGU: l.gateUp}),
		m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: R, N: 2 * I, M: D, LdDY: 2 * I, LdX: D, DY: l.gateUp, X: l.norm2, DW: w.gateUp.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: R, N: 2 * I, M: D, LdDY: 2 * I, LdDX: D, DY: l.gateUp, W: w.gateUp.in(m.params), DX: t.dNorm}),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: R, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.mid, W: w.norm2.in(m.params), RStd: l.rstd2, DX: dx, DW: w.norm2.in(grads)}),
		m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: R, N: D, M: Q, LdDY: D, LdX: Q, DY: dx, X: l.outRows, DW: w.out.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: R, N: D, M: Q, LdDY: D, LdDX: Q, DY: dx, W: w.out.in(m.params), DX: dOut}),
	)
}

// mixerBackward is the backward of Model.mixer: it adds to t.dx, the gradient of x, what
// comes through t.dOut.
func (m *Model) mixerBackward(t *tape, i int, n shape, grads cuda.Floats) error {
	c, w, l, T := m.Config, m.layout.layers[i], &t.layers[i], n.T
	D, d, H, K := c.Hidden, c.HeadDim, c.Heads, c.KVHeads
	Q, W := H*d, (H+2*K)*d
	from := func(x cuda.Floats, column int) cuda.Floats { return x.Slice(column, x.Len()) }
	value := from(l.qkv, (H+K)*d)
	if c.QKNorm {
		value = from(l.raw, (H+K)*d)
	}
	err := first(
		m.dev.AttentionBackward(cuda.AttentionGrad{T: T, B: n.B, H: H, K: K, HeadD: d, LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Start: t.start,
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
		m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: T, N: W, M: D, LdDY: W, LdX: D, DY: t.dQKV, X: l.norm1, DW: w.qkv.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: T, N: W, M: D, LdDY: W, LdDX: D, DY: t.dQKV, W: w.qkv.in(m.params), DX: t.dNorm}),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: T, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.x, W: w.norm1.in(m.params), RStd: l.rstd1, DX: t.dx, DW: w.norm1.in(grads)}),
	)
}
