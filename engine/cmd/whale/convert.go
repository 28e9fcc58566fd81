package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

type convertCommand struct {
	Model string `arg:"" help:"A model folder, a GGUF file, RUN/weights/ID, or nano."`
	To    string `arg:"" type:"path" help:"Folder to write, which must not exist."`
	DType string `name:"dtype" enum:",float32,bfloat16" default:"" help:"How weights are stored: float32 or bfloat16; without it as in the model's config.json."`
}

// storage spells the storage types of a model folder.
var storage = map[string]checkpoint.DType{"float32": checkpoint.F32, "bfloat16": checkpoint.BF16}

// Run writes a model as a folder that other tools load: adapters merged in, what was not
// trained byte for byte where the storage type is that of the source.
func (c *convertCommand) Run(ctx context.Context) error {
	if _, err := os.Lstat(c.To); err == nil {
		return engine.Fail(engine.AtArchive, c.To, fs.ErrExist)
	}
	device, err := openDevice("cpu", 0)
	if err != nil {
		return err
	}
	defer device.Close()
	t, err := openModel(c.Model, "", device, trainer.Options{Frozen: true, CacheTokens: 1})
	if err != nil {
		return err
	}
	defer t.Close()
	dtype := t.Config().DType
	if c.DType != "" {
		dtype = storage[c.DType]
	}
	if dtype != checkpoint.F32 && dtype != checkpoint.BF16 {
		return usageError{fmt.Errorf("convert: weights stored as %s are not written: name a --dtype", dtype)}
	}
	if err := ctx.Err(); err != nil { // reading a large model takes a while
		return err
	}
	if err := t.SaveModel(c.To, dtype); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: weights %s as %s\n", c.To, t.Policy().Weights(), dtype)
	return nil
}
