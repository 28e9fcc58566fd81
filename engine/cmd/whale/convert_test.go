package main

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Ensure that a model written in the storage type that it has is the same byte for byte, in
// another is rounded once, and that no folder is overwritten.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []convertCommand{
		{Model: "nano", To: at("source")}, // stored as bfloat16
		{Model: at("source"), To: at("again")},
		{Model: at("source"), To: at("wide"), DType: "float32"},
		{Model: at("wide"), To: at("back"), DType: "bfloat16"},
	} {
		if err := c.Run(t.Context()); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	open := func(name string) *checkpoint.Checkpoint {
		c, err := checkpoint.OpenDir(at(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	source, wide := open("source"), open("wide")
	for _, name := range source.Names() {
		want, err := source.Raw(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"again", "back"} {
			if got, err := open(other).Raw(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s changed (%v)", other, name, err)
			}
		}
		if tensor, _ := wide.Tensor(name); tensor.DType != checkpoint.F32 {
			t.Errorf("%s is stored as %s", name, tensor.DType)
		}
	}
	if err := (&convertCommand{Model: "nano", To: at("wide")}).Run(t.Context()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is there: %v", err)
	}
	if err := (&convertCommand{Model: at("nowhere"), To: at("new")}).Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no model: %v", err)
	}
}
