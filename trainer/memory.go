package trainer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// ErrMemory: not even the smallest plan fits the limit.
var ErrMemory = errors.New("does not fit the memory limit")

// Memory is what a trainer will hold on its device, in bytes, and how it works within that.
// It is complete but for page tables and lists of ids, and for one copy of the weights on
// the host while they are read, before gradients and moments exist.
type Memory struct {
	Limit int64 // 0 = none

	Weights     int64 // float32, adapters and tables of RoPE included
	Packed      int64 // copies in the order of the device's products
	Gradients   int64
	Moments     int64
	Reference   int64 // weights that a policy gradient is held near
	Activations int64 // of one micro-batch, and the gradients between its layers
	Logits      int64 // one block of rows, in training and in generation
	Cache       int64 // keys and values
	Generation  int64 // activations of one step
	Device      int64 // what a card's library of products works in

	MicroTokens int  // input ids of a micro-batch
	Recompute   bool // only the inputs of the layers are kept
	CacheTokens int
}

// Total is the sum of all parts.
func (m Memory) Total() int64 {
	sum := int64(0)
	for _, p := range m.parts() {
		sum += p.bytes
	}
	return sum
}

type memoryPart struct {
	name  string
	bytes int64
}

func (m Memory) parts() []memoryPart {
	kept := "kept"
	if m.Recompute {
		kept = "recomputed"
	}
	return []memoryPart{
		{"weights", m.Weights}, {"packed", m.Packed}, {"gradients", m.Gradients}, {"moments", m.Moments}, {"reference", m.Reference},
		{fmt.Sprintf("activations of %d tokens, %s", m.MicroTokens, kept), m.Activations}, {"logits", m.Logits},
		{fmt.Sprintf("cache of %d tokens", m.CacheTokens), m.Cache}, {"generation", m.Generation}, {"device", m.Device},
	}
}

// String is the plan on one line.
func (m Memory) String() string {
	var list []string
	for _, p := range m.parts() {
		if p.bytes > 0 {
			list = append(list, p.name+" "+size(p.bytes))
		}
	}
	total := size(m.Total())
	if m.Limit > 0 {
		total += " of " + size(m.Limit)
	}
	return total + ": " + strings.Join(list, ", ")
}

func size(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
}

const floatBytes = 4

// planMemory chooses what a limit leaves open (micro-batch, recomputation, size of the
// cache) and writes it to o, which has its defaults. Without a limit nothing is changed. It
// depends on the model and o only, never on what the machine has free.
func planMemory(c checkpoint.Config, dev *cuda.Device, o *Options) (Memory, error) {
	if o.Context > c.MaxPositions {
		return Memory{}, fmt.Errorf("a context of %d, the model was made for %d: %w", o.Context, c.MaxPositions, checkpoint.ErrUnsupported)
	}
	m := &Model{Config: c, dev: dev, layout: newLayout(c), precision: o.Precision}
	m.context = contextOf(c, o.Context)
	if o.LoRA.Rank != 0 {
		var err error
		if m.adapters, err = placeAdapters(m, o.LoRA); err != nil {
			return Memory{}, err
		}
	}
	o.defaults(m)
	longest := m.context // of a row that must fit
	if o.Frozen {
		longest, o.MicroTokens = 0, 0
	}
	fixed := fixedMemory(m, *o)
	if o.Memory == 0 {
		return fixed.with(m, o.MicroTokens, o.Recompute, o.CacheTokens), nil
	}
	fixed.Limit = o.Memory
	least := m.context + 2*pageTokens // of the cache: one sequence of full length
	most := max(o.CacheTokens, least)
	for _, cache := range []int{(least + most) / 2, least} {
		for _, recompute := range []bool{o.Recompute, true} {
			for micro := max(o.MicroTokens, longest); ; micro = max(micro/2, longest) {
				p := fixed.with(m, micro, recompute, cache)
				if free := o.Memory - p.Total(); free >= 0 {
					cache += min(most-cache, int(free/cacheBytes(m)))
					o.MicroTokens, o.Recompute, o.CacheTokens = micro, recompute, cache
					return fixed.with(m, micro, recompute, cache), nil
				}
				if micro == longest {
					break
				}
			}
		}
	}
	smallest := fixed.with(m, longest, true, least)
	return smallest, fmt.Errorf("the smallest plan takes %v (a context below %d, bf16 or LoRA take less): %w", smallest, m.context, ErrMemory)
}

// fixedMemory is what no choice changes.
func fixedMemory(m *Model, o Options) Memory {
	c := m.Config
	p := Memory{Weights: floatBytes * int64(m.layout.size+m.context*c.HeadDim)}
	for _, w := range m.matrices() {
		p.Packed += floatBytes * int64(m.dev.PackedFloats(m.precision, w.n, w.m))
	}
	if o.Int8 {
		for _, w := range m.matrices() {
			p.Packed += floatBytes * int64(m.dev.PackedFloats(cuda.Int8, w.n, w.m))
		}
	}
	trained := int64(m.layout.size)
	if m.adapters != nil {
		p.Weights += floatBytes * int64(m.adapters.floats())
		trained = int64(m.adapters.size)
	}
	if !o.Frozen {
		p.Gradients, p.Moments = floatBytes*trained, 2*floatBytes*trained
	}
	if o.Reference && !o.Frozen {
		p.Reference = floatBytes * trained
	}
	step := new(scratch).plan(m, o.StepTokens)
	logits := headRows(c, o.StepTokens) * c.Vocab
	p.Generation = floatBytes * int64(step.size-logits)
	p.Logits = floatBytes * int64(logits)
	if room, err := m.dev.Room(); err == nil { // a device that is lost says so at its next call
		p.Device = room.Workspace
	}
	return p
}

// with adds what the choices take.
func (p Memory) with(m *Model, micro int, recompute bool, cache int) Memory {
	shape := *m
	shape.recompute = recompute
	tape := new(tape).plan(&shape, micro)
	logits := headRows(m.Config, micro) * m.Config.Vocab
	p.MicroTokens, p.Recompute, p.CacheTokens = micro, recompute, cache
	p.Activations = floatBytes * int64(tape.size-logits)
	p.Logits += floatBytes * int64(logits)
	p.Cache = int64(cache) * cacheBytes(m)
	return p
}

// Reached is the plan of what was opened by now: with the largest micro-batch since the last one
// that found no room, and without what only training needs if nothing was trained. What a card
// gave out is compared with it.
func (t *Trainer) Reached() Memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, micro := t.memory, 0
	if t.tape != nil {
		micro = t.tape.capacity
	}
	if t.opt == nil {
		r.Gradients, r.Moments = 0, 0
	}
	if t.reference == nil {
		r.Reference = 0
	}
	r.Logits = floatBytes * int64(headRows(t.model.Config, t.policy.g.rows)*t.model.Config.Vocab)
	return r.with(t.model, micro, t.model.recompute, r.CacheTokens)
}

// cacheBytes is what a token takes in the cache.
func cacheBytes(m *Model) int64 {
	return 2 * floatBytes * int64(len(m.Config.Layers)*pageFloats(m)) / pageTokens
}
