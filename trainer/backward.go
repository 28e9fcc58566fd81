package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// sums are where a backward adds. All are zeroed by whoever starts an optimizer batch.
type sums struct {
	// base has the layout of the model's weights, low that of its adapters: the one is there
	// in full fine-tuning, the other with adapters. Neither: no backward.
	base, low cuda.Floats
	unused    cuda.Floats // for norm weights that are not trained; may hold anything
}

// none says that there is nothing to add to, so forward is enough.
func (g sums) none() bool { return g.base.IsNil() && g.low.IsNil() }

// norm is where the gradient of a norm's weight goes.
func (g sums) norm(w span) cuda.Floats {
	if g.base.IsNil() {
		return g.unused.Slice(0, w.n)
	}
	return w.in(g.base)
}

// backward carries t.dPicked, the gradient of t.x, through all layers and adds every trained
// weight's gradient to g. It overwrites gateUp of the tape.
func (m *Model) backward(t *tape, n shape, g sums) error {
	c, last := m.Config, len(t.layers)-1
	err := first(
		m.mlpBackward(t, last, n.P, t.dPicked, t.dPickedOut, g),
		m.scatter(t, n, t.dPickedOut, t.dOut, m.layout.layers[last].width),
		m.scatter(t, n, t.dPicked, t.dx, c.Hidden),
		m.mixerBackward(t, last, n, g),
	)
	for i := last - 1; i >= 0; i-- {
		if t.recompute { // from x, the same operators in the same order: the same bits
			err = first(err, m.layerForward(t, i, n))
		}
		err = first(err,
			m.mlpBackward(t, i, n.T, t.dx, t.dOut, g),
			m.mixerBackward(t, i, n, g),
		)
	}
	if g.base.IsNil() {
		return err
	}
	return first(err,
		m.dev.EmbedBackward(cuda.EmbedGrad{T: n.T, D: c.Hidden, V: c.Vocab, IDs: t.ids, DY: t.dx, DTable: m.layout.embed.in(g.base)}))
}

// back is the backward of one product y = x Wᵀ: dy [T, N], x [T, M]; dx [T, M] is overwritten.
type back struct {
	T, N, M, LdDY, LdX int
	DY, X, DX          cuda.Floats
}

// timesBackward is the backward of Model.times in the precision of the model.
func (m *Model) timesBackward(w span, b back, t *tape, g sums) error {
	var err error
	if !g.base.IsNil() {
		err = m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: b.T, N: b.N, M: b.M, LdDY: b.LdDY, LdX: b.LdX,
			DY: b.DY, X: b.X, DW: w.in(g.base)})
	}
	err = first(err, m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: b.T, N: b.N, M: b.M, LdDY: b.LdDY, LdDX: b.M,
		DY: b.DY, W: w.in(m.params), Packed: m.packs.of[w], DX: b.DX}))
	if m.adapters != nil {
		err = first(err, m.adapters.backward(m, w, b, t, g.low))
	}
	return err
}

// mlpBackward is the backward of Model.mlp and Model.down on R rows: dx, the gradient of the
// residual after layer i, becomes that of x, and dOut that of the mixer's output.
func (m *Model) mlpBackward(t *tape, i, R int, dx, dOut cuda.Floats, g sums) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I, Q := c.Hidden, c.Intermediate, w.width
	return first(
		m.timesBackward(w.down, back{T: R, N: D, M: I, LdDY: D, LdX: I, DY: dx, X: l.act, DX: t.dAct}, t, g),
		m.dev.SwiGLUBackward(cuda.SwiGLUGrad{T: R, I: I, GU: l.gateUp, DY: t.dAct, DGU: l.gateUp}),
		m.timesBackward(w.gateUp, back{T: R, N: 2 * I, M: D, LdDY: 2 * I, LdX: D, DY: l.gateUp, X: l.norm2, DX: t.dNorm}, t, g),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: R, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.mid, W: w.norm2.in(m.params), RStd: l.rstd2, DX: dx, DW: g.norm(w.norm2)}),
		m.timesBackward(w.out, back{T: R, N: D, M: Q, LdDY: D, LdX: Q, DY: dx, X: l.outRows, DX: dOut}, t, g),
	)
}

// mixerBackward is the backward of layer i's first norm and mixer: it adds to t.dx, the
// gradient of x, what comes through t.dOut.
func (m *Model) mixerBackward(t *tape, i int, n shape, g sums) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D := c.Hidden
	return first(
		l.mix.backward(m, t, l, n, g),
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: n.T, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, Accumulate: true, DY: t.dNorm,
			X: l.x, W: w.norm1.in(m.params), RStd: l.rstd1, DX: t.dx, DW: g.norm(w.norm1)}),
	)
}
