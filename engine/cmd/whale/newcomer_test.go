package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a newcomer gets wrong is answered by one line that says where and what, with the
// exit code for wrong usage or for failure, and leaves nothing behind.
func TestWrongInput(t *testing.T) {
	empty, nothing := t.TempDir(), filepath.Join(t.TempDir(), "nothing")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("cycles: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		code int
		say  string
		args string
	}{
		{2, "unexpected argument nothing", "nothing"},
		{2, "unknown flag --bogus", "run --domain lookup --bogus"},
		{2, "--domain is missing", "run"},
		{2, "unknown domain; there are lookup, sums", "run --domain nope"},
		{2, "unknown; there are adaptive", "run --domain lookup --condition nope --out OUT"},
		{2, "unknown update", "run --domain lookup --update nope --out OUT"},
		{2, "cycles is 0, at least 1", "run --domain lookup --cycles 0 --out OUT"},
		{2, "the learning rate is NaN", "run --domain lookup --rate NaN --out OUT"},
		{2, "wants HOST:PORT", "run --domain lookup --ui bogus --out OUT"},
		{1, "policy model: stat", "run --domain lookup --model NOTHING --out OUT"},
		{1, "harness NOTHING", "run --domain lookup --harness NOTHING --out OUT"},
		{1, "take another --out", "run --domain lookup --out HELD"},
		{2, "--samples is at least 1", "eval --domain lookup -k 0"},
		{2, "--temperature is -1", "eval --domain lookup --temperature=-1"},
		{2, "unknown domain; there are lookup, sums", "harness new nope OUT"},
		{1, "harness FILE/x", "harness new lookup FILE/x"},
		{1, "harness.go: no such file", "harness vet EMPTY"},
		{1, "parse: expected 'package'", "harness vet FILE"},
		{1, "not a run folder", "archive EMPTY top"},
		{1, "not a run folder", "export EMPTY OUT.jsonl"},
		{2, "must end in .parquet or .jsonl", "export EMPTY OUT.xyz"},
		{1, "model.safetensors", "convert EMPTY OUT"},
		{1, "file already exists", "convert nano EMPTY"},
		{2, "exists but is not a directory", "profile FILE"},
		{1, "not a run folder", "report EMPTY"},
		{2, "unknown domain; there are lookup, sums", "serve --domain nope"},
		{1, "not a run folder", "serve --run EMPTY"},
		{2, "no .go file", "bench EMPTY"},
		{2, "at least 1", "bench --copies 0"},
		{1, "archive FILE", "pretrain text --out FILE"},
		{2, "--scale is 0", "pretrain text --scale 0 --out OUT"},
	} {
		where := strings.NewReplacer("EMPTY", empty, "NOTHING", nothing, "FILE", file, "HELD", filepath.Dir(file), "OUT", out)
		code, _, errs := whale(t, strings.Fields(where.Replace(c.args))...)
		if first, _, _ := strings.Cut(errs, "\n"); code != c.code || !strings.HasPrefix(first, "whale: ") || !strings.Contains(first, where.Replace(c.say)) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
		if left, err := filepath.Glob(out + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", c.args, left, err)
		}
	}
}

// A file is there as a whole or as it was before.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page")
	broken := errors.New("half of it")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"one", nil, "one"}, {"tw", broken, "one"}, {"three", nil, "three"}} {
		err := writeFile(path, func(w io.Writer) error {
			_, err := io.WriteString(w, c.text)
			return errors.Join(err, c.err)
		})
		text, read := os.ReadFile(path)
		if !errors.Is(err, c.err) || read != nil || string(text) != c.want {
			t.Errorf("%q: %v, %v, %q", c.text, err, read, text)
		}
	}
	if err := writeFile(dir, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder: %v", err)
	}
	if err := writeFile(os.DevNull, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
		t.Errorf("a device: %v", err)
	}
	left, err := os.ReadDir(dir)
	if info, e := os.Stat(os.DevNull); err != nil || len(left) != 1 || e != nil || info.Mode().IsRegular() {
		t.Errorf("left %v, %v", left, err)
	}
}
