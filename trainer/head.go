package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// loss evaluates the final norm and the head on the P picked rows in t.x, block by block,
// and leaves their negative log-likelihoods in t.nll. With gradients it also adds those of
// head and norm and leaves that of t.x in t.dPicked. The rows' weights are those uploaded
// with the micro-batch unless an objective makes them from the log-likelihoods.
func (m *Model) loss(t *tape, P int, tau float32, o objective, g sums) error {
	c, norm := m.Config, m.layout.norm
	D, V := c.Hidden, c.Vocab
	err := m.dev.RMSNorm(cuda.RMSNorm{Rows: P, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
		X: t.x, W: norm.in(m.params), Y: t.norm, RStd: t.rstd})
	for at := 0; at < P; at += t.block {
		n := min(t.block, P-at)
		x := t.norm.Slice(at*D, (at+n)*D)
		xent := cuda.CrossEntropy{T: n, V: V, LdZ: V, Tau: tau, Target: t.target.Slice(at, at+n),
			Weight: t.weight.Slice(at, at+n), Z: t.logits, NLL: t.nll.Slice(at, at+n)}
		err = first(err, m.times(m.layout.head, cuda.MatMul{T: n, N: V, M: D, LdX: D, LdY: V, X: x, Y: t.logits}, t.low))
		if o != nil {
			err = first(err, m.dev.CrossEntropy(xent), reweigh(xent, o, at))
		}
		if !g.none() {
			xent.DZ = t.logits
		}
		err = first(err, m.dev.CrossEntropy(xent))
		if !g.none() {
			err = first(err, m.timesBackward(m.layout.head,
				back{T: n, N: V, M: D, LdDY: V, LdX: D, DY: t.logits, X: x, DX: t.dNorm.Slice(at*D, (at+n)*D)}, t, g))
		}
	}
	if g.none() {
		return err
	}
	return first(err, m.dev.RMSNormBackward(cuda.RMSNormGrad{Rows: P, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, DY: t.dNorm,
		X: t.x, W: norm.in(m.params), RStd: t.rstd, DX: t.dPicked, DW: g.norm(norm)}))
}

// objective turns log-likelihoods into the weights of a gradient.
type objective interface {
	// weigh overwrites weights with the derivatives of the objective by the negative
	// log-likelihoods nll of the picked rows from at on.
	weigh(at int, nll, weights []float32)
}

// reweigh sets the weights of a block whose negative log-likelihoods are there.
func reweigh(x cuda.CrossEntropy, o objective, at int) error {
	nll, weights := make([]float32, x.T), make([]float32, x.T)
	if err := x.NLL.Download(nll); err != nil {
		return err
	}
	o.weigh(at, nll, weights)
	return x.Weight.Upload(weights)
}
