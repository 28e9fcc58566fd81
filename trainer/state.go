package trainer

import (
	"context"
	"encoding/json"
	"errors"
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
