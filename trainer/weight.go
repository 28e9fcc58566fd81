package trainer

import (
	"errors"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// matrix is a weight [N, M] that rows are multiplied with.
type matrix struct {
	span
	n, m    int
	modules []module // whose weights lie in it, one after the other; none for the head
}

// module is columns [at, at+n) of a product.
type module struct {
	name  string // without the layer's prefix: "self_attn.q_proj"
	at, n int
}

// matrices lists the weights of all products. The head is last; it may be the embedding.
func (m *Model) matrices() []matrix {
	var list []matrix
	for _, l := range m.layout.layers {
		list = append(list, l.matrices(m.Config)...)
	}
	return append(list, matrix{m.layout.head, m.Config.Vocab, m.Config.Hidden, nil})
}

// matrices lists the weights of the products of one layer.
func (l layer) matrices(c checkpoint.Config) []matrix {
	D, I := c.Hidden, c.Intermediate
	list, _ := l.mixer.weights()
	return append(list,
		matrix{l.out, D, l.width, []module{{"self_attn.o_proj", 0, D}}},
		matrix{l.gateUp, 2 * I, D, []module{{"mlp.gate_proj", 0, I}, {"mlp.up_proj", I, I}}},
		matrix{l.down, D, I, []module{{"mlp.down_proj", 0, D}}})
}

// packs are copies of the weights in the order in which the device multiplies with them, in
// one precision: made once for each version of the weights.
type packs struct {
	precision cuda.Precision
	of        map[span]cuda.Floats
	memory    cuda.Floats
	ofThe     uint64 // baseVersion they were made of
}

// repack brings the copies for training or those for generation, and the scaled adapters, up
// to date. Whoever runs the model calls it first.
func (m *Model) repack(p *packs) error {
	if m.adapters != nil {
		if err := m.adapters.rescale(m); err != nil {
			return err
		}
	}
	if p.ofThe == m.baseVersion {
		return nil
	}
	list := m.matrices()
	if p.of == nil {
		if err := p.reserve(m.dev, list); err != nil {
			return err
		}
	}
	errs := make([]error, len(list))
	for i, w := range list {
		errs[i] = m.dev.PackWeight(cuda.Pack{N: w.n, M: w.m, Precision: p.precision, W: w.in(m.params), Packed: p.of[w.span]})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.ofThe = m.baseVersion
	return nil
}

func (p *packs) reserve(dev *cuda.Device, list []matrix) error {
	var a arena
	views := make([]cuda.Floats, len(list))
	for i, w := range list {
		a.want(&views[i], dev.PackedFloats(p.precision, w.n, w.m))
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

// toGenerate are the copies that generation multiplies with: those of training, or their own in 8 bits.
func (m *Model) toGenerate() *packs {
	if m.packs8.precision == cuda.Int8 {
		return &m.packs8
	}
	return &m.packs
}

// times is the product with a weight in the precision of the model, and what its adapters
// add; low is room for T rows between their factors.
func (m *Model) times(w span, a cuda.MatMul, low cuda.Floats) error {
	return m.timesBy(&m.packs, w, a, low)
}

// timesBy is times with certain copies of the weights. Adapters keep the model's precision.
func (m *Model) timesBy(p *packs, w span, a cuda.MatMul, low cuda.Floats) error {
	a.W, a.Packed, a.Precision = w.in(m.params), p.of[w], p.precision
	err := m.dev.MatMul(a)
	a.Packed, a.Precision = cuda.Floats{}, m.precision
	if m.adapters != nil {
		err = first(err, m.adapters.forward(m, w, a, low))
	}
	return err
}
