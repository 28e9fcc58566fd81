package trainer

import (
	"errors"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// tape holds the activations of one micro-batch between forward and backward, and the
// buffers of the backward. It is reused; each micro-batch overwrites it. Widths: D hidden,
// Q = H*d, W = (H+2K)*d, I intermediate, V vocabulary; T is the capacity in rows.
type tape struct {
	capacity  int  // T
	block     int  // rows of the head that are evaluated at once
	recompute bool // a layer's activations but x are those of the layer that ran last

	ids, pos, start, until, pick, target cuda.Ints // start has T+1, the others T
	branches                             bool      // until counts
	weight, nll                          cuda.Floats

	layers        []layerTape
	x, norm, rstd cuda.Floats // [P, D], [P, D], [P] residual after the last layer, picked rows only
	logits        cuda.Floats // [block, V], then their gradient

	dx, dPicked cuda.Floats // [T, D] gradient of the residual; [P, D] that of the picked rows
	dNorm       cuda.Floats // [T, D] gradient of a norm's output
	dOut        cuda.Floats // [T, Q]
	dPickedOut  cuda.Floats // [P, Q]
	dQKV        cuda.Floats // [T, W] of an attention's projections
	dAct        cuda.Floats // [T, I]
	low, dLow   cuda.Floats // [T, widest] between the two factors of adapters, and its gradient
	unused      cuda.Floats // takes gradients of norm weights that are not trained
	memory      cuda.Floats // owns every view above
	integers    []cuda.Ints // owns ids to target
}

// layerTape is what the backward of one layer needs. From the output projection on, the last
// layer works on the P picked rows only (R rows below): nobody reads the others. When
// activations are recomputed, every layer keeps its own x and all share the rest.
type layerTape struct {
	x, norm1, rstd1 cuda.Floats // [T, D], [T, D], [T]
	mix             mixerTape
	out             cuda.Floats // [T, Q] of the mixer
	outRows         cuda.Floats // [R, Q] the rows of out that go on; out itself but for the last layer
	mid             cuda.Floats // [R, D] residual between mixer and MLP
	norm2, rstd2    cuda.Floats // [R, D], [R]
	gateUp, act     cuda.Floats // [R, 2I] (the backward overwrites it), [R, I]
}

// headRows is how many rows of logits exist at once, of T: as many as make 2 MB, and 256 where
// the vocabulary is large, since each block reads the head and reads and writes its gradient.
func headRows(c checkpoint.Config, T int) int { return min(T, max(256, (1<<19)/c.Vocab)) }

// tapeBytes bounds the default size of a tape.
const tapeBytes = 1 << 30

// microTokens is the default size of a micro-batch: 4,096 input ids, fewer if their
// activations would take more than tapeBytes, at least 128.
func microTokens(m *Model) int {
	const sample = 1024
	perToken := 4 * new(tape).plan(m, sample).size / sample
	return min(4096, max(128, tapeBytes/perToken))
}

// plan sets the sizes of a tape and lists its buffers.
func (t *tape) plan(m *Model, T int) *arena {
	c := m.Config
	D, I := c.Hidden, c.Intermediate
	Q, W := c.Heads*c.HeadDim, (c.Heads+2*c.KVHeads)*c.HeadDim
	t.capacity, t.block, t.recompute, t.layers = T, headRows(c, T), m.recompute, make([]layerTape, len(c.Layers))
	a := &arena{}
	for i := range t.layers {
		a.want(&t.layers[i].x, T*D)
	}
	rest := func(i int) { t.layers[i].plan(a, c, m.layout.layers[i], T) }
	if m.recompute {
		a.overlay(len(t.layers), rest)
	} else {
		for i := range t.layers {
			rest(i)
		}
	}
	last := len(t.layers) - 1
	a.want(&t.layers[last].outRows, T*m.layout.layers[last].width)
	for _, view := range []*cuda.Floats{&t.x, &t.norm, &t.dx, &t.dPicked, &t.dNorm} {
		a.want(view, T*D)
	}
	for _, view := range []*cuda.Floats{&t.weight, &t.nll, &t.rstd} {
		a.want(view, T)
	}
	a.want(&t.logits, t.block*c.Vocab)
	a.want(&t.dOut, T*Q)
	a.want(&t.dPickedOut, T*Q)
	a.want(&t.dQKV, T*W)
	a.want(&t.dAct, T*I)
	if m.adapters != nil {
		a.want(&t.low, T*m.adapters.widest)
		a.want(&t.dLow, T*m.adapters.widest)
		a.want(&t.unused, max(D, c.HeadDim))
	}
	return a
}

// plan lists all but x.
func (l *layerTape) plan(a *arena, c checkpoint.Config, w layer, T int) {
	D, I := c.Hidden, c.Intermediate
	a.want(&l.norm1, T*D)
	a.want(&l.rstd1, T)
	l.mix = w.mixer.tape(a, T)
	a.want(&l.out, T*w.width)
	a.want(&l.mid, T*D)
	a.want(&l.norm2, T*D)
	a.want(&l.rstd2, T)
	a.want(&l.gateUp, T*2*I)
	a.want(&l.act, T*I)
}

// newTape reserves a tape of T rows; its owner frees it.
func newTape(m *Model, T int) (*tape, error) {
	t := &tape{}
	var err error
	t.memory, err = t.plan(m, T).reserve(m.dev)
	for i := range t.layers[:len(t.layers)-1] {
		t.layers[i].outRows = t.layers[i].out
	}
	for _, view := range []*cuda.Ints{&t.ids, &t.pos, &t.start, &t.until, &t.pick, &t.target} {
		ints, e := m.dev.Ints(T + 1)
		err = errors.Join(err, e)
		*view = ints
		t.integers = append(t.integers, ints)
	}
	if err != nil {
		t.free()
		return nil, err
	}
	return t, nil
}

func (t *tape) free() {
	t.memory.Free()
	for _, ints := range t.integers {
		ints.Free()
	}
}

// upload brings a micro-batch to the device; scale multiplies the weights.
func (t *tape) upload(b *micro, scale float64) error {
	weight := make([]float32, len(b.weight))
	for i, w := range b.weight {
		weight[i] = float32(float64(w) * scale)
	}
	t.branches = b.until != nil
	return first(
		t.until.Upload(b.until), t.ids.Upload(b.ids), t.pos.Upload(b.pos), t.start.Upload(b.start),
		t.pick.Upload(b.pick), t.target.Upload(b.target), t.weight.Upload(weight),
	)
}

// paths is the until of attention.
func (t *tape) paths() cuda.Ints {
	if !t.branches {
		return cuda.Ints{}
	}
	return t.until
}
