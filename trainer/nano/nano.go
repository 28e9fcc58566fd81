// Package nano carries the two embedded models: `text` for the generated domains
// lookup and sums, `chess` for mate puzzles. Each is a zip archive in the layout of a
// Hugging Face folder (config.json, model.safetensors in bfloat16, tokenizer.json) plus
// pretrain.json, which says how it was made: recipe, seed, tokens, seconds, accuracy.
//
// They are made by `whale pretrain` from generated data only. The text model is sloppy
// on purpose: its last training stage repeats the demonstrations with faults, so that
// the skill is latent and minutes of RSFT and harness search show what each lever does
// (spec/nano.md section 4). Its start accuracy says nothing about small models.
//
// nano knows nothing of training, tasks or harnesses; it hands out files.
package nano

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

// model holds NAME.zip for each name; a missing one is found by Open, not by the
// compiler, so that `whale pretrain` can be built to make it.
//
//go:embed model
var model embed.FS

// Names of the embedded models.
const (
	Text  = "text"
	Chess = "chess"
)

// Open returns the files of an embedded model.
func Open(name string) (fs.FS, error) {
	archive, err := model.ReadFile("model/" + name + ".zip")
	if err != nil {
		return nil, fmt.Errorf("policy nano: no embedded model %q; make it with `whale pretrain %s`", name, name)
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("policy nano %s: %w", name, err)
	}
	return files, nil
}

// For returns the name of the embedded model that knows a domain; any domain that it
// was not trained on gets the text model.
func For(domain string) string {
	if domain == "chess" {
		return Chess
	}
	return Text
}
