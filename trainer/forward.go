package trainer

import "github.com/seed-7c27e6b8/whale/cuda"

// shape is the size of one micro-batch: T rows of B sequences, P of them picked.
type shape struct{ T, B, P int }

// forward runs a micro-batch, already uploaded, through all layers and leaves the residual
// of the picked rows in t.x.
func (m *Model) forward(t *tape, n shape) error {
	c := m.Config
	err := m.dev.Embed(cuda.Embed{T: n.T, D: c.Hidden, V: c.Vocab, IDs: t.ids, Table: m.layout.embed.in(m.params), Y: t.layers[0].x})
	for i := range t.layers {
		next := t.x
		if i < len(t.layers)-1 {
			next = t.layers[i+1].x
		}
		err = first(err, m.layerForward(t, i, n), m.down(t, i, t.rows(n, i), next))
	}
	return err
}

// rows is R: the last layer goes on with the picked rows.
func (t *tape) rows(n shape, i int) int {
	if i == len(t.layers)-1 {
		return n.P
	}
	return n.T
}

// layerForward computes the activations of layer i from its x: all that its backward reads.
func (m *Model) layerForward(t *tape, i int, n shape) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D := c.Hidden
	err := first(
		m.dev.RMSNorm(cuda.RMSNorm{Rows: n.T, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
			X: l.x, W: w.norm1.in(m.params), Y: l.norm1, RStd: l.rstd1}),
		l.mix.forward(m, t, l, n),
	)
	if i < len(t.layers)-1 {
		err = first(err, m.dev.Copy(l.mid.Slice(0, n.T*D), l.x.Slice(0, n.T*D)))
	} else {
		err = first(err, m.gather(t, n, l.x, l.mid, D), m.gather(t, n, l.out, l.outRows, w.width))
	}
	return first(err, m.mlp(t, i, t.rows(n, i)))
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

// mlp is what follows the mixer of layer i on R rows, up to its last product: mid +=
// project(out), where mid holds x already, and act = silu(gate) * up of mid's norm.
func (m *Model) mlp(t *tape, i, R int) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I, Q := c.Hidden, c.Intermediate, w.width
	return first(
		m.times(w.out, cuda.MatMul{T: R, N: D, M: Q, LdX: Q, LdY: D, Accumulate: true, X: l.outRows, Y: l.mid}, t.low),
		m.dev.RMSNorm(cuda.RMSNorm{Rows: R, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
			X: l.mid, W: w.norm2.in(m.params), Y: l.norm2, RStd: l.rstd2}),
		m.times(w.gateUp, cuda.MatMul{T: R, N: 2 * I, M: D, LdX: D, LdY: 2 * I, X: l.norm2, Y: l.gateUp}, t.low),
		m.dev.SwiGLU(cuda.SwiGLU{T: R, I: I, GU: l.gateUp, Y: l.act}),
	)
}

// down is next = mid + down(act) of layer i, which no backward reads.
func (m *Model) down(t *tape, i, R int, next cuda.Floats) error {
	c, w, l := m.Config, m.layout.layers[i], &t.layers[i]
	D, I := c.Hidden, c.Intermediate
	return first(
		m.dev.Copy(next.Slice(0, R*D), l.mid.Slice(0, R*D)),
		m.times(w.down, cuda.MatMul{T: R, N: D, M: I, LdX: I, LdY: D, Accumulate: true, X: l.act, Y: next}, t.low),
	)
}
