package trainer

import (
	"errors"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// matrix is a weight [N, M] that rows are multiplied with.
type matrix struct {
	span
	n, m int
}

// matrices lists the weights of all products. The head is last; it may be the embedding.
func (m *Model) matrices() []matrix {
	c, q := m.Config, m.Config.Heads*m.Config.HeadDim
	w := q + 2*c.KVHeads*c.HeadDim
	var list []matrix
	for _, l := range m.layout.layers {
		list = append(list, matrix{l.qkv, w, c.Hidden}, matrix{l.out, c.Hidden, q},
			matrix{l.gateUp, 2 * c.Intermediate, c.Hidden}, matrix{l.down, c.Hidden, c.Intermediate})
	}
	return append(list, matrix{m.layout.head, c.Vocab, c.Hidden})
}

// packs are copies of the weights in the order in which the device multiplies with them, in
// the precision of the model: made once for each version of the weights.
type packs struct {
	of     map[span]cuda.Floats
	memory cuda.Floats
	ofThe  uint64 // version they were made of
}

// repack brings the copies up to date. Whoever runs the model calls it first.
func (m *Model) repack() error {
	p := &m.packs
	if p.ofThe == m.version {
		return nil
	}
	list := m.matrices()
	if p.of == nil {
		if err := p.reserve(m.dev, list, m.precision); err != nil {
			return err
		}
	}
	errs := make([]error, len(list))
	for i, w := range list {
		errs[i] = m.dev.PackWeight(cuda.Pack{N: w.n, M: w.m, Precision: m.precision, W: w.in(m.params), Packed: p.of[w.span]})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.ofThe = m.version
	return nil
}

func (p *packs) reserve(dev *cuda.Device, list []matrix, precision cuda.Precision) error {
	var a arena
	views := make([]cuda.Floats, len(list))
	for i, w := range list {
		a.want(&views[i], dev.PackedFloats(precision, w.n, w.m))
	}
	memory, err := a.reserve(dev)
	if err != nil {
		return err
	}
	p.memory, p.of = memory, map[span]cuda.Floats{}
	for i, w := range list {
		p.of[w.span] = views[i]
	}
	return nil
}

// times is the product with a weight, in the precision of the model.
func (m *Model) times(w span, a cuda.MatMul) error {
	a.W, a.Packed, a.Precision = w.in(m.params), m.packs.of[w], m.precision
	return m.dev.MatMul(a)
}
