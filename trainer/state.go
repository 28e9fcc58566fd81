package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Files of a saved state beside those of a model folder.
const (
	optimizerFile = "optimizer.safetensors" // m.NAME and v.NAME for every tensor, F32
	stateFile     = "trainer.json"
)

// savedState is trainer.json.
type savedState struct {
	Format  int              `json:"format"` // stateFormat
	Weights engine.WeightsID `json:"weights"`
	Base    engine.WeightsID `json:"base,omitempty"` // of the frozen weights, with adapters only
	Steps   int64            `json:"steps"`          // optimizer steps taken, AdamW's t; 0 = no moments saved
}

const stateFormat = 1

// Save writes float32 weights, both moments and the step counter to the folder dir, which
// is a model folder that other tools load too. With adapters it writes those, in the layout
// of PEFT, and not the base. Everything is written and synced beside it first; dir then
// appears, or replaces an older one, by rename.
func (t *Trainer) Save(ctx context.Context, dir string) (engine.WeightsID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, err := t.model.WeightsID()
	if err != nil {
		return "", engine.Fail(engine.AtDevice, t.model.dev.Kind(), err)
	}
	state := savedState{Format: stateFormat, Weights: id}
	if t.model.adapters != nil {
		state.Base = t.model.base
	}
	err = replaceFolder(dir, func(stage string) error {
		if err := t.writeWeights(stage); err != nil {
			return err
		}
		if t.opt != nil && t.opt.t > 0 {
			state.Steps = t.opt.t
			_, tensors := t.model.trained()
			list := append(items(tensors, t.opt.m, "m.", checkpoint.F32), items(tensors, t.opt.v, "v.", checkpoint.F32)...)
			if err := checkpoint.WriteFile(filepath.Join(stage, optimizerFile), list); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := json.MarshalIndent(state, "", "  ")
		if err != nil {
			return err
		}
		return writeSynced(filepath.Join(stage, stateFile), append(text, '\n'))
	})
	return id, engine.Fail(engine.AtArchive, dir, err)
}

// writeWeights writes what is trained.
func (t *Trainer) writeWeights(dir string) error {
	a := t.model.adapters
	if a == nil {
		return t.writeModel(dir, checkpoint.F32)
	}
	config := checkpoint.Adapter{Rank: a.Rank, Alpha: a.Alpha, Targets: a.Targets, Base: a.Base}
	return first(checkpoint.WriteAdapter(filepath.Join(dir, checkpoint.AdapterConfigFile), config),
		checkpoint.WriteFile(filepath.Join(dir, checkpoint.AdapterFile), items(a.tensors, a.params, "", checkpoint.F32)))
}

// SaveModel writes only the model folder, weights as F32 or BF16, adapters merged in.
func (t *Trainer) SaveModel(dir string, dtype checkpoint.DType) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return engine.Fail(engine.AtArchive, dir, replaceFolder(dir, func(stage string) error { return t.writeModel(stage, dtype) }))
}

// writeModel writes config, weights and the files that are carried through.
func (t *Trainer) writeModel(dir string, dtype checkpoint.DType) error {
	if err := t.writeConfig(filepath.Join(dir, checkpoint.ConfigFile), dtype); err != nil {
		return err
	}
	for _, f := range t.files {
		if err := writeSynced(filepath.Join(dir, f.name), f.data); err != nil {
			return err
		}
	}
	return checkpoint.WriteFile(filepath.Join(dir, checkpoint.WeightsFile), append(t.model.modelItems(dtype), t.extras...))
}

// writeConfig writes the config that the model was opened with, whose other fields other
// tools may want, or one for a model that was made here.
func (t *Trainer) writeConfig(path string, dtype checkpoint.DType) error {
	if t.config != nil {
		text, err := checkpoint.Retyped(t.config, dtype)
		if err != nil {
			return err
		}
		return writeSynced(path, text)
	}
	config := t.model.Config
	config.DType = dtype
	return checkpoint.WriteConfig(path, config)
}

// Load restores what Save wrote: weights, moments and counter, bit for bit. The folder must
// hold a model of the same shape. On an error nothing has changed.
func (t *Trainer) Load(ctx context.Context, dir string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return engine.Fail(engine.AtArchive, dir, err)
	}
	return engine.Fail(engine.AtArchive, dir, t.load(dir))
}

func (t *Trainer) load(dir string) error {
	state, host, err := t.readSaved(dir)
	if err != nil {
		return err
	}
	var moments *optimizer
	if state.Steps > 0 {
		if moments, err = t.readMoments(dir, state.Steps); err != nil {
			return err
		}
	}
	if t.model.adapters != nil {
		err = t.model.adapters.upload(t.model, host)
	} else {
		err = t.model.upload(host)
	}
	if err != nil {
		if moments != nil {
			moments.free()
		}
		return err
	}
	t.forget()
	t.opt = moments
	return nil
}

// readSaved reads what is trained from a folder of Save, in the layout of Model.trained, and
// checks that it is what was saved.
func (t *Trainer) readSaved(dir string) (savedState, []float32, error) {
	state, err := readState(dir)
	if err != nil {
		return state, nil, err
	}
	c, beginning, err := t.openSaved(dir, state)
	if err != nil {
		return state, nil, err
	}
	defer c.Close()
	arena, tensors := t.model.trained()
	host, err := readTensors(c, tensors, arena.Len())
	if err != nil {
		return state, nil, err
	}
	got, err := identify(beginning, tensors, func(at int, to []float32) error { copy(to, host[at:]); return nil })
	if err == nil && got != state.Weights {
		err = fmt.Errorf("weights are %s, %s says %s: %w", got, stateFile, state.Weights, checkpoint.ErrFormat)
	}
	return state, host, err
}

// openSaved opens the file of what is trained, and what the hash of it begins with.
func (t *Trainer) openSaved(dir string, state savedState) (c *checkpoint.Checkpoint, beginning string, err error) {
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

// readMoments reads optimizer.safetensors into a fresh optimizer.
func (t *Trainer) readMoments(dir string, steps int64) (*optimizer, error) {
	c, err := openSingle(dir, optimizerFile)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	o, err := newOptimizer(t.model)
	if err != nil {
		return nil, err
	}
	o.t = steps
	_, tensors := t.model.trained()
	for _, tensor := range tensors {
		for _, part := range []struct {
			prefix string
			arena  span
		}{{"m.", tensor.span}, {"v.", tensor.span}} {
			host := make([]float32, tensor.n)
			if err = c.Float32Into(part.prefix+tensor.Name, host); err != nil {
				o.free()
				return nil, err
			}
			to := o.m
			if part.prefix == "v." {
				to = o.v
			}
			if err = part.arena.in(to).Upload(host); err != nil {
				o.free()
				return nil, err
			}
		}
	}
	return o, nil
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

// replaceFolder fills a new folder beside dir and renames it to dir. What stood there
// before is moved away first and removed last, so one of the two is always whole.
func replaceFolder(dir string, fill func(stage string) error) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".new*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) // nothing is there after the rename
	if err := errors.Join(os.Chmod(stage, 0o755), fill(stage)); err != nil {
		return err
	}
	if err := syncFolder(stage); err != nil {
		return err
	}
	old := stage + ".old"
	err = os.Rename(dir, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(stage, dir); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(old), syncFolder(parent))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
