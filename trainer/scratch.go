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
	qkv                 cuda.Floats // [rows, (H+2K)d]
	out                 cuda.Floats // [rows, H*d]
	gateUp, act         cuda.Floats // [rows, 2I], [rows, I]
	logits              cuda.Floats // [block, V]
	memory              cuda.Floats
	ids, pos, seq, pick cuda.Ints
	table               cuda.Ints // grows with the longest sequence
	tau, topP           []float32 // host, one a sampling row
	topK                []int32
	u                   []float64
	sampled             samples
}

// samples are the results of one step, in the order of plan.picked.
type samples struct {
	id   []int32
	logp []float32
}

func newScratch(m *Model, rows int) (*scratch, error) {
	c := m.Config
	s := &scratch{rows: rows, block: min(rows, max(16, headBlock/c.Vocab)),
		tau: make([]float32, rows), topP: make([]float32, rows), topK: make([]int32, rows), u: make([]float64, rows),
		sampled: samples{make([]int32, rows), make([]float32, rows)}}
	var a arena
	a.want(&s.x, rows*c.Hidden)
	a.want(&s.norm, rows*c.Hidden)
	a.want(&s.qkv, rows*(c.Heads+2*c.KVHeads)*c.HeadDim)
	a.want(&s.out, rows*c.Heads*c.HeadDim)
	a.want(&s.gateUp, rows*2*c.Intermediate)
	a.want(&s.act, rows*c.Intermediate)
	a.want(&s.logits, s.block*c.Vocab)
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

func (s *scratch) free() {
	s.memory.Free()
	for _, ints := range []cuda.Ints{s.ids, s.pos, s.seq, s.pick, s.table} {
		ints.Free()
	}
}

// upload brings a plan to the device.
func (s *scratch) upload(dev *cuda.Device, p *plan) error {
	if s.table.Len() < len(p.table) {
		s.table.Free()
		var err error
		if s.table, err = dev.Ints(2 * len(p.table)); err != nil {
			return err
		}
	}
	return first(s.ids.Upload(p.ids), s.pos.Upload(p.pos), s.seq.Upload(p.seq), s.pick.Upload(p.pick), s.table.Upload(p.table))
}

// run takes the rows of a plan through all layers, stores their keys and values, and leaves
// the residual in s.x. The arithmetic of a row is that of Model.forward, operator by
// operator; only what the backward would need is not kept.
func (s *scratch) run(m *Model, k *cache, p *plan) error {
	c := m.Config
	T, D, I, d := len(p.ids), c.Hidden, c.Intermediate, c.HeadDim
	Q, W, eps := c.Heads*d, (c.Heads+2*c.KVHeads)*d, float32(c.RMSEps)
	norm := func(x, w, y cuda.Floats, heads, n, ld int) error {
		return m.dev.RMSNorm(cuda.RMSNorm{Rows: T * heads, N: n, Heads: heads, LdX: ld, LdY: ld, Eps: eps, X: x, W: w, Y: y})
	}
	from := func(x cuda.Floats, column int) cuda.Floats { return x.Slice(column, x.Len()) }
	err := first(
		s.upload(m.dev, p),
		m.dev.Embed(cuda.Embed{T: T, D: D, V: c.Vocab, IDs: s.ids, Table: m.layout.embed.in(m.params), Y: s.x}),
	)
	for i, l := range m.layout.layers {
		weight := func(x span) cuda.Floats { return x.in(m.params) }
		err = first(err,
			norm(s.x, weight(l.norm1), s.norm, 1, D, D),
			m.dev.MatMul(cuda.MatMul{T: T, N: W, M: D, LdX: D, LdY: W, X: s.norm, W: weight(l.qkv), Y: s.qkv}),
		)
		if c.QKNorm {
			err = first(err,
				norm(s.qkv, weight(l.qNorm), s.qkv, c.Heads, d, W),
				norm(from(s.qkv, Q), weight(l.kNorm), from(s.qkv, Q), c.KVHeads, d, W),
			)
		}
		paged := cuda.Paged{T: T, B: len(p.live), H: c.Heads, K: c.KVHeads, HeadD: d, P: pageTokens, Pages: k.count, MaxPages: p.maxPages,
			LdQ: W, LdKV: W, LdO: Q, Scale: m.scale(), Seq: s.seq, Pos: s.pos, PageTable: s.table,
			Query: s.qkv, Key: from(s.qkv, Q), Value: from(s.qkv, Q+c.KVHeads*d), KeyPages: k.keys[i], ValuePages: k.values[i], Out: s.out}
		err = first(err,
			m.rope(s.pos, s.qkv, T, false),
			m.dev.PagedStore(paged),
			m.dev.PagedAttend(paged),
			m.dev.MatMul(cuda.MatMul{T: T, N: D, M: Q, LdX: Q, LdY: D, Accumulate: true, X: s.out, W: weight(l.out), Y: s.x}),
			norm(s.x, weight(l.norm2), s.norm, 1, D, D),
			m.dev.MatMul(cuda.MatMul{T: T, N: 2 * I, M: D, LdX: D, LdY: 2 * I, X: s.norm, W: weight(l.gateUp), Y: s.gateUp}),
			m.dev.SwiGLU(cuda.SwiGLU{T: T, I: I, GU: s.gateUp, Y: s.act}),
			m.dev.MatMul(cuda.MatMul{T: T, N: D, M: I, LdX: I, LdY: D, Accumulate: true, X: s.act, W: weight(l.down), Y: s.x}),
		)
	}
	return err
}

// sample evaluates the head on the picked rows and draws one id for each. The result is
// valid until the next call.
func (s *scratch) sample(m *Model, p *plan, valid int) (samples, error) {
	c := m.Config
	T, D, V, S := len(p.ids), c.Hidden, c.Vocab, len(p.pick)
	for i, q := range p.picked {
		by := q.request.Sampling
		s.tau[i], s.topP[i], s.topK[i] = float32(by.Temperature), float32(by.TopP), int32(by.TopK)
		s.u[i] = uniform(q.request.Seed, len(q.ids))
	}
	for at := 0; at < S; at += s.block {
		n := min(s.block, S-at)
		end := at + n
		err := first(
			m.dev.Embed(cuda.Embed{T: n, D: D, V: T, IDs: s.pick.Slice(at, end), Table: s.x, Y: s.norm}),
			m.dev.RMSNorm(cuda.RMSNorm{Rows: n, N: D, Heads: 1, LdX: D, LdY: D, Eps: float32(c.RMSEps),
				X: s.norm, W: m.layout.norm.in(m.params), Y: s.norm}),
			m.dev.MatMul(cuda.MatMul{T: n, N: V, M: D, LdX: D, LdY: V, X: s.norm, W: m.layout.head.in(m.params), Y: s.logits}),
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
