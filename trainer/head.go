package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// loss evaluates the final norm and the head on the P picked rows in t.x, block by block,
// and leaves their negative log-likelihoods in t.nll. With gradients it also adds those of
// head and norm and leaves that of t.x in t.dPicked.
func (m *Model) loss(t *tape, P int, tau float32, grads cuda.Floats) error {
	c, norm := m.Config, m.layout.norm
	D, V := c.Hidden, c.Vocab
	err := m.dev.RMSNorm(cuda.RMSNorm{Rows: P, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
		X: t.x, W: norm.in(m.params), Y: t.norm, RStd: t.rstd})
	head := m.layout.head.in(m.params)
	for at := 0; at < P; at += t.block {
		n := min(t.block, P-at)
		x := t.norm.Slice(at*D, (at+n)*D)
		xent := cuda.CrossEntropy{T: n, V: V, LdZ: V, Tau: tau, Target: t.target.Slice(at, at+n),
			Weight: t.weight.Slice(at, at+n), Z: t.logits, NLL: t.nll.Slice(at, at+n)}
		if !grads.IsNil() {
			xent.DZ = t.logits
		}
		err = first(err,
			m.times(m.layout.head, cuda.MatMul{T: n, N: V, M: D, LdX: D, LdY: V, X: x, Y: t.logits}),
			m.dev.CrossEntropy(xent),
		)
		if !grads.IsNil() {
			err = first(err,
				m.dev.MatMulBackwardW(cuda.MatMulGradW{Precision: m.precision, T: n, N: V, M: D, LdDY: V, LdX: D, DY: t.logits, X: x, DW: m.layout.head.in(grads)}),
				m.dev.MatMulBackwardX(cuda.MatMulGradX{Precision: m.precision, T: n, N: V, M: D, LdDY: V, LdDX: D, DY: t.logits, W: head,
					DX: t.dNorm.Slice(at*D, (at+n)*D)}),
			)
		}
	}
	if grads.IsNil() {
		return err
	}
	return first(err, m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: P, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, DY: t.dNorm,
		X: t.x, W: norm.in(m.params), RStd: t.rstd, DX: t.dPicked, DW: norm.in(grads)}))
}
