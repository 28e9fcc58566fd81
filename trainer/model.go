package trainer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"math"
	"runtime/debug"
	"slices"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Model is a transformer's weights on a device: float32 masters, and what the device made of
// them to compute with. It is not safe for concurrent use; Trainer holds the lock.
type Model struct {
	Config checkpoint.Config

	dev      *cuda.Device
	layout   layout
	params   cuda.Floats // layout.size floats
	cos, sin cuda.Floats // [context, d/2]
	context  int         // positions that the tables hold

	precision cuda.Precision // of the products
	recompute bool           // training keeps a layer's input only and computes the rest again
	packs     packs
	packs8    packs     // for generation, if it has its own
	adapters  *adapters // nil = full fine-tuning

	version     uint64           // grows with every change of a weight or an adapter
	baseVersion uint64           // grows with every change of a weight
	base        engine.WeightsID // of baseVersion baseOf, without adapters
	baseOf      uint64
	id          engine.WeightsID // of version idOf
	idOf        uint64
}

// newModel reserves weights, all zero, for sequences of up to context positions (0 = what
// the config allows).
func newModel(c checkpoint.Config, dev *cuda.Device, context int) (*Model, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	context = contextOf(c, context)
	m := &Model{Config: c, dev: dev, layout: newLayout(c), context: context, version: 1, baseVersion: 1}
	half := c.HeadDim / 2
	var errs [3]error
	m.params, errs[0] = dev.Floats(m.layout.size)
	m.cos, errs[1] = dev.Floats(context * half)
	m.sin, errs[2] = dev.Floats(context * half)
	err := errors.Join(errs[:]...)
	if err == nil {
		cos, sin := ropeTables(c.RopeTheta, c.HeadDim, context)
		err = first(m.cos.Upload(cos), m.sin.Upload(sin))
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// prepare takes over the options that say how a model is computed with and what of it is
// trained.
func (m *Model) prepare(o Options) error {
	m.precision, m.recompute, m.packs.precision = o.Precision, o.Recompute, o.Precision
	if o.Int8 {
		m.packs8.precision = cuda.Int8
	}
	if o.LoRA.Rank == 0 {
		return nil
	}
	var err error
	if m.adapters, err = newAdapters(m, o.LoRA); err != nil {
		return err
	}
	return m.adapters.start(m)
}

// contextOf is the longest sequence when so much is asked for; 0 = what the config allows.
func contextOf(c checkpoint.Config, asked int) int {
	if asked <= 0 || asked > c.MaxPositions {
		return c.MaxPositions
	}
	return asked
}

func (m *Model) free() {
	m.params.Free()
	m.packs.memory.Free()
	m.packs8.memory.Free()
	if m.adapters != nil {
		m.adapters.free()
	}
	m.cos.Free()
	m.sin.Free()
}

// ropeTables returns cos and sin [positions, d/2] of pos * theta^(-2i/d); the angle is
// rounded to float32 as in the reference (spec/models.md 1.2).
func ropeTables(theta float64, d, positions int) (cos, sin []float32) {
	half := d / 2
	cos, sin = make([]float32, positions*half), make([]float32, positions*half)
	for i := range half {
		inv := float32(math.Pow(theta, -2*float64(i)/float64(d)))
		for pos := range positions {
			angle := float64(float32(pos) * inv)
			cos[pos*half+i], sin[pos*half+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	return cos, sin
}

// in returns the view of an arena that a span names.
func (s span) in(arena cuda.Floats) cuda.Floats { return arena.Slice(s.at, s.at+s.n) }

// load fills the weights from a checkpoint, which must hold every tensor of the config. After
// an error the weights are of no use.
func (m *Model) load(c *checkpoint.Checkpoint) error {
	if err := c.Match(m.Config); err != nil {
		return err
	}
	m.version++
	m.baseVersion++
	return fill(m.params, m.layout.tensors, c, "")
}

// readTensors reads tensors into a host copy of their arena. Values that are not finite are
// refused.
func readTensors(c *checkpoint.Checkpoint, tensors []named, size int) ([]float32, error) {
	host := make([]float32, size)
	err := eachTensor(c, "", tensors, func(t named, values []float32) error {
		copy(host[t.at:], values)
		return nil
	})
	return host, err
}

// changed notes that what is trained is another now.
func (m *Model) changed() {
	m.version++
	if m.adapters == nil {
		m.baseVersion++
	}
}

// upload replaces all weights; host has the model's layout.
func (m *Model) upload(host []float32) error {
	m.version++
	m.baseVersion++
	err := m.params.Upload(host)
	if len(host) >= largeModel {
		debug.FreeOSMemory() // the host copy, which the peak of a fine-tune would otherwise hold
	}
	return err
}

// largeModel is a model whose host copy is worth giving back at once, in floats.
const largeModel = 1 << 24

// trained is what an optimizer changes, and which tensors lie in it.
func (m *Model) trained() (cuda.Floats, []named) {
	if m.adapters != nil {
		return m.adapters.params, m.adapters.tensors
	}
	return m.params, m.layout.tensors
}

// WeightsID is "w" and 16 hex digits of the sha256 over name and float32 bytes of every
// tensor in file order. With adapters it is that of the base's id and of theirs. It is
// cached until a weight changes.
func (m *Model) WeightsID() (engine.WeightsID, error) {
	if m.idOf == m.version {
		return m.id, nil
	}
	id, err := m.baseID()
	if err == nil && m.adapters != nil {
		id, err = identify(string(id), m.adapters.tensors, onDevice(m.adapters.params))
	}
	if err != nil {
		return "", err
	}
	m.id, m.idOf = id, m.version
	return id, nil
}

// baseID is the id of the weights without adapters.
func (m *Model) baseID() (engine.WeightsID, error) {
	if m.baseOf == m.baseVersion {
		return m.base, nil
	}
	id, err := identify("", m.layout.tensors, onDevice(m.params))
	if err == nil {
		m.base, m.baseOf = id, m.baseVersion
	}
	return id, err
}

// onDevice reads pieces of an arena.
func onDevice(arena cuda.Floats) func(at int, to []float32) error {
	return func(at int, to []float32) error { return arena.Slice(at, at+len(to)).Download(to) }
}

// identify hashes tensors behind a beginning, a piece at a time: a copy of the whole on the
// host would be the peak of a fine-tune.
func identify(beginning string, tensors []named, read func(at int, to []float32) error) (engine.WeightsID, error) {
	sum := newDigest(beginning)
	piece := make([]float32, digestPiece)
	for _, t := range tensors {
		sum.name(t.Name)
		for at := 0; at < t.n; at += len(piece) {
			values := piece[:min(len(piece), t.n-at)]
			if err := read(t.at+at, values); err != nil {
				return "", err
			}
			sum.add(values)
		}
	}
	return sum.id(), nil
}

// digest is an id in the making: of a beginning and then, tensor by tensor, name and values.
type digest struct {
	sum    hash.Hash
	buffer []byte
}

// digestPiece is how many floats are hashed at once.
const digestPiece = 1 << 16

func newDigest(beginning string) *digest {
	d := &digest{sum: sha256.New(), buffer: make([]byte, 0, 4*digestPiece)}
	d.name(beginning)
	return d
}

func (d *digest) name(text string) { d.sum.Write([]byte(text)) }

func (d *digest) add(values []float32) {
	for piece := range slices.Chunk(values, digestPiece) {
		d.buffer = d.buffer[:0]
		for _, v := range piece {
			d.buffer = binary.LittleEndian.AppendUint32(d.buffer, math.Float32bits(v))
		}
		d.sum.Write(d.buffer)
	}
}

func (d *digest) id() engine.WeightsID {
	return engine.WeightsID("w" + hex.EncodeToString(d.sum.Sum(nil))[:16])
}

// items lists an arena's tensors for writing, names prefixed, as dtype.
func items(tensors []named, arena cuda.Floats, prefix string, dtype checkpoint.DType) []checkpoint.Item {
	var list []checkpoint.Item
	for _, t := range tensors {
		list = append(list, checkpoint.Lazy(prefix+t.Name, dtype, t.Shape, func() ([]float32, error) {
			host := make([]float32, t.n)
			return host, t.in(arena).Download(host)
		}))
	}
	return list
}

// modelItems are the weights of a model folder, adapters merged in.
func (m *Model) modelItems(dtype checkpoint.DType) []checkpoint.Item {
	if m.adapters == nil {
		return items(m.layout.tensors, m.params, "", dtype)
	}
	var list []checkpoint.Item
	for _, t := range m.layout.tensors {
		list = append(list, checkpoint.Lazy(t.Name, dtype, t.Shape, func() ([]float32, error) {
			host := make([]float32, t.n)
			if err := t.in(m.params).Download(host); err != nil {
				return nil, err
			}
			return m.adapters.merged(t.Name, host)
		}))
	}
	return list
}

// first returns the first error. Calls listed as its arguments all run, in order: after
// a failure the rest compute on what is there, which is harmless and never used.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
