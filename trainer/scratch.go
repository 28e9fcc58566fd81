package trainer

import (
	"errors"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// scratch is the memory of one generation step: activations that live only as long as one
// layer, and the logits of the rows that sample.
type scratch struct {
	rows, block         int         // most rows of a step; head rows at once
	x, norm             cuda.Floats // [rows, D]
	picked, pickedOut   cuda.Floats // [rows, D], [rows, H*d] the rows that sample, in the last layer
	qkv                 cuda.Floats // [rows, (H+2K)d]
	out                 cuda.Floats // [rows, H*d]
	gateUp, act         cuda.Floats // [rows, 2I], [rows, I]
	low                 cuda.Floats // [rows, widest] between the two factors of adapters
	logits              cuda.Floats // [block, V]
	memory              cuda.Floats
	ids, pos, seq, pick cuda.Ints
	table               cuda.Ints // grows with the longest sequence
	tau, topP           []float32 // host, one a sampling row
	topK                []int32
	u                   []float64
	sampled             samples
	graphs              graphs
}

// samples are the results of one step, in the order of plan.picked.
type samples struct {
	id   []int32
	logp []float32
}

func newScratch(m *Model, rows int) (*scratch, error) {
	s := &scratch{rows: rows, block: headRows(m.Config, rows),
		tau: make([]float32, rows), topP: make([]float32, rows), topK: make([]int32, rows), u: make([]float64, rows),
		sampled: samples{make([]int32, rows), make([]float32, rows)}}
	a := s.plan(m, rows)
	var errs [5]error
	s.memory, errs[0] = a.reserve(m.dev)
	for i, view := range []*cuda.Ints{&s.ids, &s.pos, &s.seq, &s.pick} {
		*view, errs[i+1] = m.dev.Ints(rows)
	}
	if err := errors.Join(errs[:]...); err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

// plan lists the buffers of a step.
func (s *scratch) plan(m *Model, rows int) *arena {
	c, a := m.Config, &arena{}
	a.want(&s.x, rows*c.Hidden)
	a.want(&s.norm, rows*c.Hidden)
	a.want(&s.picked, rows*c.Hidden)
	a.want(&s.pickedOut, rows*c.Heads*c.HeadDim)
	a.want(&s.qkv, rows*(c.Heads+2*c.KVHeads)*c.HeadDim)
	a.want(&s.out, rows*c.Heads*c.HeadDim)
	a.want(&s.gateUp, rows*2*c.Intermediate)
	a.want(&s.act, rows*c.Intermediate)
	a.want(&s.logits, headRows(c, rows)*c.Vocab)
	if m.adapters != nil {
		a.want(&s.low, rows*m.adapters.widest)
	}
	return a
}

func (s *scratch) free() {
	s.graphs.drop()
	s.memory.Free()
	for _, ints := range []cuda.Ints{s.ids, s.pos, s.seq, s.pick, s.table} {
		ints.Free()
	}
}

// upload brings a plan to the device.
func (s *scratch) upload(dev *cuda.Device, p *plan) error {
	if s.table.Len() < len(p.table) {
		s.graphs.drop()
		s.table.Free()
		var err error
		if s.table, err = dev.Ints(2 * len(p.table)); err != nil {
			return err
		}
	}
	return first(s.ids.Upload(p.ids), s.pos.Upload(p.pos), s.seq.Upload(p.seq), s.pick.Upload(p.pick), s.table.Upload(p.table))
}

// run takes the rows of a plan through all layers, stores their keys and values, and leaves
// the residual of the rows that sample in s.picked. The arithmetic of a row is that of
// Model.forward, operator by operator; only what the backward would need is not kept.
func (s *scratch) run(m *Model, k *cache, p *plan) error {
	if err := first(m.repack(m.toGenerate()), s.upload(m.dev, p)); err != nil {
		return err
	}
	return s.graphs.run(m.dev, p, func() error { return s.layers(m, k, p) })
}

// layers is run without the uploads.
func (s *scratch) layers(m *Model, k *cache, p *plan) error {
	c := m.Config
	T, S, D, Q, last := len(p.ids), len(p.pick), c.Hidden, c.Heads*c.HeadDim, len(c.Layers)-1
	gather := func(x, y cuda.Floats, width int) error {
		return m.dev.Embed(cuda.Embed{T: S, D: width, V: T, IDs: s.pick, Table: x, Y: y})
	}
	err := m.dev.Embed(cuda.Embed{T: T, D: D, V: c.Vocab, IDs: s.ids, Table: m.layout.embed.in(m.params), Y: s.x})
	for i := range last {
		err = first(err, s.mixer(m, k, p, i), s.mlp(m, i, T, s.out, s.x))
	}
	return first(err,
		s.mixer(m, k, p, last),
		gather(s.x, s.picked, D),
		gather(s.out, s.pickedOut, Q),
		s.mlp(m, last, S, s.pickedOut, s.picked),
	)
}

// mixer is the first norm and the mixer of layer i, over the cache.
func (s *scratch) mixer(m *Model, k *cache, p *plan, i int) error {
	l, D := m.layout.layers[i], m.Config.Hidden
	return first(
		m.norm(s.x, l.norm1, s.norm, len(p.ids), 1, D, D),
		l.mixer.generate(m, s, k, p),
	)
}

// norm is the norm of T rows with heads each, without what a backward needs.
func (m *Model) norm(x cuda.Floats, w span, y cuda.Floats, T, heads, n, ld int) error {
	return m.dev.RMSNorm(cuda.RMSNorm{Rows: T * heads, N: n, Heads: heads, LdX: ld, LdY: ld, Eps: float32(m.Config.RMSEps),
		X: x, W: w.in(m.params), Y: y})
}

// times is Model.times with the copies for generation.
func (s *scratch) times(m *Model, w span, a cuda.MatMul) error {
	return m.timesBy(m.toGenerate(), w, a, s.low)
}

// mlp is Model.mlp on R rows: x += project(out), x += down(silu(gate) * up).
func (s *scratch) mlp(m *Model, i, R int, out, x cuda.Floats) error {
	c, l := m.Config, m.layout.layers[i]
	D, I, Q := c.Hidden, c.Intermediate, c.Heads*c.HeadDim
	return first(
		s.times(m, l.out, cuda.MatMul{T: R, N: D, M: Q, LdX: Q, LdY: D, Accumulate: true, X: out, Y: x}),
		m.norm(x, l.norm2, s.norm, R, 1, D, D),
		s.times(m, l.gateUp, cuda.MatMul{T: R, N: 2 * I, M: D, LdX: D, LdY: 2 * I, X: s.norm, Y: s.gateUp}),
		m.dev.SwiGLU(cuda.SwiGLU{T: R, I: I, GU: s.gateUp, Y: s.act}),
		s.times(m, l.down, cuda.MatMul{T: R, N: D, M: I, LdX: I, LdY: D, Accumulate: true, X: s.act, Y: x}),
	)
}

// sample evaluates the head on the picked rows and draws one id for each. The result is
// valid until the next call.
func (s *scratch) sample(m *Model, p *plan, valid int) (samples, error) {
	c := m.Config
	D, V, S := c.Hidden, c.Vocab, len(p.pick)
	for i, q := range p.picked {
		by := q.request.Sampling
		s.tau[i], s.topP[i], s.topK[i] = float32(by.Temperature), float32(by.TopP), int32(by.TopK)
		s.u[i] = uniform(q.request.Seed, len(q.ids))
	}
	for at := 0; at < S; at += s.block {
		n := min(s.block, S-at)
		end := at + n
		err := first(
			m.norm(s.picked.Slice(at*D, end*D), m.layout.norm, s.norm, n, 1, D, D),
			s.times(m, m.layout.head, cuda.MatMul{T: n, N: V, M: D, LdX: D, LdY: V, X: s.norm, Y: s.logits}),
			m.dev.Sample(cuda.Sample{T: n, V: V, LdZ: V, Valid: valid, Z: s.logits,
				Tau: s.tau[at:end], TopP: s.topP[at:end], TopK: s.topK[at:end], U: s.u[at:end],
				ID: s.sampled.id[at:end], LogP: s.sampled.logp[at:end]}),
		)
		if err != nil {
			return samples{}, err
		}
	}
	return samples{s.sampled.id[:S], s.sampled.logp[:S]}, nil
}
