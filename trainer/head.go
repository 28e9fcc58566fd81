package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// loss evaluates the final norm and the head on the P picked rows of t.x only, block by
// block, and leaves their negative log-likelihoods in t.nll. With gradients it also adds
// the gradients of head and norm and leaves in t.dx the gradient of t.x, zero for rows
// that were not picked.
func (m *Model) loss(t *tape, T, P int, tau float32, grads cuda.Floats) error {
	c, norm := m.Config, m.layout.norm
	D, V, eps := c.Hidden, c.Vocab, float32(m.Config.RMSEps)
	err := first(
		m.dev.Embed(cuda.Embed{T: P, D: D, V: T, IDs: t.pick, Table: t.x, Y: t.picked}),
		m.dev.RMSNorm(cuda.RMSNorm{Rows: P, N: D, Heads: 1, LdX: D, LdY: D, Eps: eps,
			X: t.picked, W: norm.in(m.params), Y: t.pickedNorm, RStd: t.pickedRStd}),
	)
	head := m.layout.head.in(m.params)
	for at := 0; at < P; at += t.block {
		n := min(t.block, P-at)
		x := t.pickedNorm.Slice(at*D, (at+n)*D)
		xent := cuda.CrossEntropy{T: n, V: V, LdZ: V, Tau: tau, Target: t.target.Slice(at, at+n),
			Weight: t.weight.Slice(at, at+n), Z: t.logits, NLL: t.nll.Slice(at, at+n)}
		if !grads.IsNil() {
			xent.DZ = t.logits
		}
		err = first(err,
			m.dev.MatMul(cuda.MatMul{T: n, N: V, M: D, LdX: D, LdY: V, X: x, W: head, Y: t.logits}),
			m.dev.CrossEntropy(xent),
		)
		if !grads.IsNil() {
			err = first(err,
				m.dev.MatMulBackwardW(cuda.MatMulGradW{T: n, N: V, M: D, LdDY: V, LdX: D, DY: t.logits, X: x, DW: m.layout.head.in(grads)}),
				m.dev.MatMulBackwardX(cuda.MatMulGradX{T: n, N: V, M: D, LdDY: V, LdDX: D, DY: t.logits, W: head,
					DX: t.dNorm.Slice(at*D, (at+n)*D)}),
			)
		}
	}
	if grads.IsNil() {
		return err
	}
	return first(err,
		m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: P, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, DY: t.dNorm, X: t.picked,
			W: norm.in(m.params), RStd: t.pickedRStd, DX: t.dNorm, DW: norm.in(grads)}),
		m.dev.Fill(t.dx.Slice(0, T*D), 0),
		m.dev.EmbedBackward(cuda.EmbedGrad{T: P, D: D, V: T, IDs: t.pick, DY: t.dNorm, DTable: t.dx}),
	)
}
