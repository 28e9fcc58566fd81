package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// LoRA asks for adapters beside frozen weights: a product y = x Wᵀ becomes
// y = x Wᵀ + Alpha/Rank · (x Aᵀ) Bᵀ with A [Rank, M] and B [N, Rank], and only A and B are
// trained (Hu et al., arXiv 2106.09685). Gradients and moments exist for them alone.
// There is no dropout.
type LoRA struct {
	Rank    int      // 0 = full fine-tuning
	Alpha   float64  // 0 = Rank, a factor of 1
	Targets []string // last parts of module names, see LoRATargets; empty = all of them
	Seed    uint64   // of A's first values; B begins at 0, so nothing changes at first
	Base    string   // what a saved adapter names as its base model
}

// LoRATargets are the modules that can have adapters, in the order of a layer.
func LoRATargets() []string {
	return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
}

// settle fills in what a zero field means and refuses what can't be.
func (l *LoRA) settle() error {
	if l.Rank < 1 || l.Rank > maxRank {
		return fmt.Errorf("LoRA rank %d is not in 1 to %d", l.Rank, maxRank)
	}
	if l.Alpha == 0 {
		l.Alpha = float64(l.Rank)
	}
	if !(l.Alpha > 0) || math.IsInf(l.Alpha, 0) {
		return fmt.Errorf("LoRA alpha %v", l.Alpha)
	}
	known := LoRATargets()
	if len(l.Targets) == 0 {
		l.Targets = known
	}
	for i, name := range l.Targets {
		if !slices.Contains(known, name) {
			return fmt.Errorf("LoRA target %q is unknown; there are %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(l.Targets[:i], name) {
			return fmt.Errorf("LoRA target %q twice", name)
		}
	}
	return nil
}

const maxRank = 4096

// adapters are the low-rank factors of a model, in an arena of their own.
type adapters struct {
	LoRA
	tensors []named        // A and B of every target, in the order of the model
	of      map[span]stack // by the weight they stand beside
	size    int            // floats
	widest  int            // largest sum of ranks beside one weight

	params cuda.Floats // what is trained
	// scaled holds both factors times Alpha/Rank. With A scaled in the forward and B in the
	// backward each gradient has the factor once. It is params itself when the factor is 1.
	scaled   cuda.Floats
	scaledOf uint64 // version of the model
}

// stack is the adapters beside one fused product [N, M].
type stack struct {
	m     int  // M
	rank  int  // of all parts together
	a     span // [rank, M], one part's rows after the other's
	parts []part
}

// part is one target: columns [at, at+n) of the fused product.
type part struct {
	at, n int
	b     span // [n, Rank]
}

// placeAdapters says which factors there are and where each lies, and reserves nothing.
func placeAdapters(m *Model, o LoRA) (*adapters, error) {
	if err := o.settle(); err != nil {
		return nil, err
	}
	a := &adapters{LoRA: o, of: map[span]stack{}}
	for i := range m.layout.layers {
		for _, w := range m.layout.layers[i].matrices(m.Config) {
			a.add(i, w)
		}
	}
	return a, nil
}

// newAdapters reserves the factors, all zero.
func newAdapters(m *Model, o LoRA) (*adapters, error) {
	a, err := placeAdapters(m, o)
	if err != nil {
		return nil, err
	}
	if a.params, err = m.dev.Floats(a.size); err != nil {
		return nil, err
	}
	a.scaled = a.params
	if a.factor() != 1 {
		if a.scaled, err = m.dev.Floats(a.size); err != nil {
			a.params.Free()
			return nil, err
		}
	}
	return a, nil
}

// floats is what newAdapters reserves.
func (a *adapters) floats() int {
	if a.factor() != 1 {
		return 2 * a.size
	}
	return a.size
}

func (a *adapters) factor() float32 { return float32(a.Alpha / float64(a.Rank)) }

func (a *adapters) free() {
	if a.factor() != 1 {
		a.scaled.Free()
	}
	a.params.Free()
}

// add places the adapters of one fused product of layer i: the A of all its targets
// together, so that they are one product, then each B.
func (a *adapters) add(i int, w matrix) {
	s := stack{m: w.m}
	var targets []module
	for _, target := range w.modules {
		if slices.Contains(a.Targets, target.name[strings.LastIndex(target.name, ".")+1:]) {
			targets = append(targets, target)
		}
	}
	if len(targets) == 0 {
		return
	}
	place := func(target module, factor string, rows, columns int) span {
		t := checkpoint.Tensor{Name: checkpoint.AdapterName(i, target.name, factor), DType: checkpoint.F32, Shape: []int{rows, columns}}
		at := span{a.size, rows * columns}
		a.size += at.n
		a.tensors = append(a.tensors, named{t, at})
		return at
	}
	a.round()
	for j, target := range targets {
		at := place(target, "A", a.Rank, w.m)
		if j == 0 {
			s.a = at
		}
		s.a = join(s.a, at)
		s.rank += a.Rank
	}
	for _, target := range targets {
		a.round()
		s.parts = append(s.parts, part{target.at, target.n, place(target, "B", target.n, a.Rank)})
	}
	a.of[w.span], a.widest = s, max(a.widest, s.rank)
}

func (a *adapters) round() { a.size = (a.size + align - 1) / align * align }

// start draws A from U(-1/√M, 1/√M), as PEFT does, and sets B to 0.
func (a *adapters) start(m *Model) error {
	host := make([]float32, a.size)
	rng := rand.New(rand.NewPCG(a.Seed, 0x6c6f7261))
	for _, t := range a.tensors {
		if t.Shape[0] != a.Rank || !strings.HasSuffix(t.Name, checkpoint.AdapterSuffix("A")) {
			continue
		}
		bound := 1 / math.Sqrt(float64(t.Shape[1]))
		x := t.of(host)
		for i := range x {
			x[i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
	return a.upload(m, host)
}

// upload replaces all factors; host has the layout of params.
func (a *adapters) upload(m *Model, host []float32) error {
	m.version++
	return a.params.Upload(host)
}

// rescale brings the scaled copies up to date.
func (a *adapters) rescale(m *Model) error {
	if a.scaledOf == m.version || a.factor() == 1 {
		return nil
	}
	host := make([]float32, a.size)
	if err := a.params.Download(host); err != nil {
		return err
	}
	f := a.factor()
	for i := range host {
		host[i] *= f
	}
	if err := a.scaled.Upload(host); err != nil {
		return err
	}
	a.scaledOf = m.version
	return nil
}

// forward adds what the adapters beside w contribute to a product x: y += (x Aᵀ) Bᵀ. low
// holds [T, rank] between the two.
func (a *adapters) forward(m *Model, w span, x cuda.MatMul, low cuda.Floats) error {
	s, ok := a.of[w]
	if !ok {
		return nil
	}
	err := a.project(m, s, x.T, x.LdX, x.X, low)
	for i, p := range s.parts {
		err = first(err, m.dev.MatMul(cuda.MatMul{T: x.T, N: p.n, M: a.Rank, LdX: s.rank, LdY: x.LdY, Accumulate: true, Precision: x.Precision,
			X: from(low, i*a.Rank), W: p.b.in(a.params), Y: from(x.Y, p.at)}))
	}
	return err
}

// project is low = x Aᵀ · Alpha/Rank.
func (a *adapters) project(m *Model, s stack, T, ld int, x, low cuda.Floats) error {
	return m.dev.MatMul(cuda.MatMul{T: T, N: s.rank, M: s.m, LdX: ld, LdY: s.rank, Precision: m.precision,
		X: x, W: s.a.in(a.scaled), Y: low})
}

// backward is the backward of forward: it adds to grads, which has the layout of params, and
// to b.DX, which holds the gradient through w already.
func (a *adapters) backward(m *Model, w span, b back, t *tape, grads cuda.Floats) error {
	s, ok := a.of[w]
	if !ok {
		return nil
	}
	err := a.project(m, s, b.T, b.LdX, b.X, t.low)
	for i, p := range s.parts {
		dy, low, dLow := from(b.DY, p.at), from(t.low, i*a.Rank), from(t.dLow, i*a.Rank)
		err = first(err,
			m.dev.MatMulBackwardW(cuda.MatMulGradW{T: b.T, N: p.n, M: a.Rank, LdDY: b.LdDY, LdX: s.rank, Precision: m.precision,
				DY: dy, X: low, DW: p.b.in(grads)}),
			m.dev.MatMulBackwardX(cuda.MatMulGradX{T: b.T, N: p.n, M: a.Rank, LdDY: b.LdDY, LdDX: s.rank, Precision: m.precision,
				DY: dy, W: p.b.in(a.scaled), DX: dLow}),
		)
	}
	return first(err,
		m.dev.MatMulBackwardW(cuda.MatMulGradW{T: b.T, N: s.rank, M: s.m, LdDY: s.rank, LdX: b.LdX, Precision: m.precision,
			DY: t.dLow, X: b.X, DW: s.a.in(grads)}),
		m.dev.MatMulBackwardX(cuda.MatMulGradX{T: b.T, N: s.rank, M: s.m, LdDY: s.rank, LdDX: b.M, Accumulate: true, Precision: m.precision,
			DY: t.dLow, W: s.a.in(a.params), DX: b.DX}),
	)
}

// open opens the file of an adapter folder, which must be of the same kind.
func (a *adapters) open(dir fs.FS) (*checkpoint.Checkpoint, error) {
	has, err := checkpoint.ReadAdapter(dir)
	if err != nil {
		return nil, err
	}
	if has.Rank != a.Rank || has.Alpha != a.Alpha || !slices.Equal(has.Targets, slices.Sorted(slices.Values(a.Targets))) {
		return nil, fmt.Errorf("adapter of rank %d, alpha %v on %s; here rank %d, alpha %v on %s: %w", has.Rank, has.Alpha, strings.Join(has.Targets, ","),
			a.Rank, a.Alpha, strings.Join(a.Targets, ","), checkpoint.ErrFormat)
	}
	c, err := checkpoint.Open(renamed{dir, checkpoint.AdapterFile})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", checkpoint.AdapterFile, err)
	}
	if err := c.Exactly(a.list()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", checkpoint.AdapterFile, err), c.Close())
	}
	return c, nil
}

func (a *adapters) list() []checkpoint.Tensor {
	list := make([]checkpoint.Tensor, len(a.tensors))
	for i, t := range a.tensors {
		list[i] = t.Tensor
	}
	return list
}

// load fills the factors from an adapter folder; nothing changes unless all can be read.
func (a *adapters) load(m *Model, dir fs.FS) error {
	c, err := a.open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	host, err := readTensors(c, a.tensors, a.size)
	if err != nil {
		return err
	}
	return a.upload(m, host)
}

// merged returns w [rows of a tensor of the model] with its adapter added, in double
// precision; a tensor without one comes back as it is.
func (a *adapters) merged(name string, w []float32) ([]float32, error) {
	module := strings.TrimSuffix(name, ".weight")
	factors := [2][]float32{}
	columns := 0
	for _, t := range a.tensors {
		for i, factor := range []string{"A", "B"} {
			if t.Name != checkpoint.AdapterPrefix+module+checkpoint.AdapterSuffix(factor) {
				continue
			}
			factors[i] = make([]float32, t.n)
			if err := t.in(a.params).Download(factors[i]); err != nil {
				return nil, err
			}
			if i == 0 {
				columns = t.Shape[1]
			}
		}
	}
	if columns == 0 {
		return w, nil
	}
	scale := a.Alpha / float64(a.Rank)
	row := make([]float64, columns)
	for n := range len(w) / columns {
		clear(row)
		for r := range a.Rank {
			b := scale * float64(factors[1][n*a.Rank+r])
			for i, x := range factors[0][r*columns : (r+1)*columns] {
				row[i] += b * float64(x)
			}
		}
		for i, x := range row {
			w[n*columns+i] = float32(float64(w[n*columns+i]) + x)
		}
	}
	return w, nil
}
