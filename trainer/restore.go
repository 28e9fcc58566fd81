package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Load restores what Save wrote: weights, moments and counter, bit for bit. The folder must
// hold a model of the same shape. It is read twice, one tensor in memory at a time: first
// to see that all of it is what was saved, then into place. An error of the first reading
// changes nothing; only a file that changes in between leaves a mixture.
func (t *Trainer) Load(ctx context.Context, dir string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return engine.Fail(engine.AtArchive, dir, err)
	}
	return engine.Fail(engine.AtArchive, dir, t.load(dir))
}

func (t *Trainer) load(dir string) error {
	s, err := t.openSaved(dir)
	if err != nil {
		return err
	}
	defer s.close()
	_, tensors := t.model.trained()
	opt := t.opt
	if s.Steps > 0 {
		if err := s.openMoments(dir, tensors); err != nil {
			return err
		}
		if opt == nil {
			if opt, err = newOptimizer(t.model); err != nil {
				return err
			}
		}
	}
	if err := t.restore(s, opt); err != nil {
		if opt != t.opt {
			opt.free()
		}
		return fmt.Errorf("changed while it was read, load a state again: %w", err)
	}
	return nil
}

// restore puts a checked state into place; opt takes its moments.
func (t *Trainer) restore(s *saved, opt *optimizer) error {
	arena, tensors := t.model.trained()
	t.model.changed()
	if err := fill(arena, tensors, s.weights, ""); err != nil {
		return err
	}
	if s.Steps == 0 {
		t.forget()
		return nil
	}
	if err := fill(opt.m, tensors, s.moments, "m."); err != nil {
		return err
	}
	if err := fill(opt.v, tensors, s.moments, "v."); err != nil {
		return err
	}
	opt.t, t.opt = s.Steps, opt
	return nil
}

// fill reads tensors, names prefixed, into an arena of the layout of Model.trained.
func fill(to cuda.Floats, tensors []named, c *checkpoint.Checkpoint, prefix string) error {
	err := eachTensor(c, prefix, tensors, func(t named, values []float32) error { return t.in(to).Upload(values) })
	if to.Len() >= largeModel {
		debug.FreeOSMemory() // the longest tensor, which the peak of a fine-tune would otherwise hold
	}
	return err
}

// eachTensor reads tensors, names prefixed, one after the other into values, which are
// overwritten by the next. Values that are not finite are refused.
func eachTensor(c *checkpoint.Checkpoint, prefix string, tensors []named, do func(t named, values []float32) error) error {
	longest := 0
	for _, t := range tensors {
		longest = max(longest, t.n)
	}
	buffer := make([]float32, longest)
	for _, t := range tensors {
		values := buffer[:t.n]
		if err := c.Float32Into(prefix+t.Name, values); err != nil {
			return err
		}
		for i, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("tensor %q: element %d is %v: %w", prefix+t.Name, i, v, checkpoint.ErrFormat)
			}
		}
		if err := do(t, values); err != nil {
			return err
		}
	}
	return nil
}

// saved is an open folder of Save whose weights were read and are what was saved.
type saved struct {
	savedState
	weights *checkpoint.Checkpoint // of what is trained
	moments *checkpoint.Checkpoint // nil until openMoments
}

// close ends reading; the files were only read.
func (s *saved) close() {
	for _, c := range []*checkpoint.Checkpoint{s.weights, s.moments} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// openSaved opens a folder of Save, and reads its weights once.
func (t *Trainer) openSaved(dir string) (*saved, error) {
	state, err := readState(dir)
	if err != nil {
		return nil, err
	}
	c, beginning, err := t.openTrained(dir, state)
	if err != nil {
		return nil, err
	}
	s := &saved{savedState: state, weights: c}
	_, tensors := t.model.trained()
	sum := newDigest(beginning)
	err = eachTensor(c, "", tensors, func(t named, values []float32) error {
		sum.name(t.Name)
		sum.add(values)
		return nil
	})
	if got := sum.id(); err == nil && got != state.Weights {
		err = fmt.Errorf("weights are %s, %s says %s: %w", got, stateFile, state.Weights, checkpoint.ErrFormat)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openTrained opens the file of what is trained, and what the hash of it begins with.
func (t *Trainer) openTrained(dir string, state savedState) (c *checkpoint.Checkpoint, beginning string, err error) {
	a := t.model.adapters
	switch {
	case a == nil && state.Base != "":
		return nil, "", fmt.Errorf("holds an adapter, and full weights are trained: %w", checkpoint.ErrUnsupported)
	case a == nil:
		if c, err = checkpoint.OpenDir(dir); err == nil {
			err = c.Match(t.model.Config)
		}
	default:
		var base engine.WeightsID
		if base, err = t.model.baseID(); err != nil {
			return nil, "", err
		}
		if state.Base != base {
			return nil, "", fmt.Errorf("is an adapter of weights %q, the model has %s: %w", state.Base, base, checkpoint.ErrFormat)
		}
		beginning = string(base)
		c, err = a.open(os.DirFS(dir))
	}
	if err != nil && c != nil {
		err = errors.Join(err, c.Close())
	}
	return c, beginning, err
}

func readState(dir string) (savedState, error) {
	var state savedState
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return state, fmt.Errorf("%s: %w: %w", stateFile, err, checkpoint.ErrFormat)
	}
	if state.Format != stateFormat {
		return state, fmt.Errorf("%s: format %d, this program reads %d: %w", stateFile, state.Format, stateFormat, checkpoint.ErrUnsupported)
	}
	if state.Steps < 0 {
		return state, fmt.Errorf("%s: %d steps: %w", stateFile, state.Steps, checkpoint.ErrFormat)
	}
	return state, nil
}

// openMoments opens optimizer.safetensors and reads it once. There is no hash of it; the
// second moments can't be negative.
func (s *saved) openMoments(dir string, tensors []named) (err error) {
	if s.moments, err = openSingle(dir, optimizerFile); err != nil {
		return err
	}
	if err := eachTensor(s.moments, "m.", tensors, func(named, []float32) error { return nil }); err != nil {
		return fmt.Errorf("%s: %w", optimizerFile, err)
	}
	err = eachTensor(s.moments, "v.", tensors, func(t named, values []float32) error {
		for i, v := range values {
			if v < 0 {
				return fmt.Errorf("tensor %q: element %d is %v: %w", "v."+t.Name, i, v, checkpoint.ErrFormat)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", optimizerFile, err)
	}
	return nil
}

// openSingle opens one safetensors file of a folder under the name that package checkpoint
// looks for.
func openSingle(dir, name string) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(renamed{os.DirFS(dir), name})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// renamed shows one file of a folder as model.safetensors and nothing else.
type renamed struct {
	fs.FS
	name string
}

func (r renamed) Open(name string) (fs.File, error) {
	if name != checkpoint.WeightsFile {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return r.FS.Open(r.name)
}
