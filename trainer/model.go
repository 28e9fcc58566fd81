package trainer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

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
	packs     packs

	version uint64           // grows with every change of a weight
	id      engine.WeightsID // of version idOf
	idOf    uint64
}

// newModel reserves weights, all zero, for sequences of up to context positions (0 = what
// the config allows).
func newModel(c checkpoint.Config, dev *cuda.Device, context int) (*Model, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if context <= 0 || context > c.MaxPositions {
		context = c.MaxPositions
	}
	m := &Model{Config: c, dev: dev, layout: newLayout(c), context: context, version: 1}
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

func (m *Model) free() {
	m.params.Free()
	m.packs.memory.Free()
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

// load fills the weights from a checkpoint, which must hold every tensor of the config.
// Nothing changes unless all of it can be read. Values that are not finite are refused.
func (m *Model) load(c *checkpoint.Checkpoint) error {
	if err := c.Match(m.Config); err != nil {
		return err
	}
	host := make([]float32, m.layout.size)
	for _, t := range m.layout.tensors {
		values := host[t.at : t.at+t.n]
		if err := c.Float32Into(t.Name, values); err != nil {
			return err
		}
		for i, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("tensor %q: element %d is %v: %w", t.Name, i, v, checkpoint.ErrFormat)
			}
		}
	}
	return m.upload(host)
}

// upload replaces all weights; host has the model's layout.
func (m *Model) upload(host []float32) error {
	m.version++
	err := m.params.Upload(host)
	if len(host) >= largeModel {
		debug.FreeOSMemory() // the host copy, which the peak of a fine-tune would otherwise hold
	}
	return err
}

// largeModel is a model whose host copy is worth giving back at once, in floats.
const largeModel = 1 << 24

// download returns a copy of all weights in the model's layout.
func (m *Model) download() ([]float32, error) {
	host := make([]float32, m.layout.size)
	return host, m.params.Download(host)
}

// WeightsID is "w" and 16 hex digits of the sha256 over name and float32 bytes of every
// tensor in file order. It is cached until a weight changes.
func (m *Model) WeightsID() (engine.WeightsID, error) {
	if m.idOf == m.version {
		return m.id, nil
	}
	host, err := m.download()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	buffer := make([]byte, 0, 1<<16)
	for _, t := range m.layout.tensors {
		sum.Write([]byte(t.Name))
		for values := host[t.at : t.at+t.n]; len(values) > 0; {
			n := min(len(values), cap(buffer)/4)
			buffer = buffer[:0]
			for _, v := range values[:n] {
				buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
			}
			sum.Write(buffer)
			values = values[n:]
		}
	}
	m.id = engine.WeightsID("w" + hex.EncodeToString(sum.Sum(nil))[:16])
	m.idOf = m.version
	return m.id, nil
}

// items lists an arena's tensors for writing, names prefixed, as dtype.
func (m *Model) items(arena cuda.Floats, prefix string, dtype checkpoint.DType) []checkpoint.Item {
	var list []checkpoint.Item
	for _, t := range m.layout.tensors {
		view := t.in(arena)
		list = append(list, checkpoint.Lazy(prefix+t.Name, dtype, t.Shape, func() ([]float32, error) {
			host := make([]float32, view.Len())
			return host, view.Download(host)
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
