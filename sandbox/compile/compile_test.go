package compile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

const good = `package harness

import "github.com/seed-7c27e6b8/whale/harnesses/kit"

func Run(s *kit.Session) error { return s.Log("x") }
`

// TestBuild: a candidate becomes a module, comes from the cache the second time, and what
// the compiler refuses has a line.
func TestBuild(t *testing.T) {
	folder := filepath.Join(os.TempDir(), "whale-test-compile")
	c, err := Open(context.Background(), folder)
	if errors.Is(err, ErrNoGo) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	h := engine.NewHarness(good, engine.Meta{})
	wasm, err := c.Build(context.Background(), h)
	if err != nil || !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		t.Fatal(err)
	}
	c.goTool = "/nowhere"
	again, err := c.Build(context.Background(), h)
	if err != nil || !bytes.Equal(again, wasm) {
		t.Error("not from the cache:", err)
	}
	c, err = Open(context.Background(), folder)
	if err != nil {
		t.Fatal(err)
	}
	corrupt(t, filepath.Join(folder, "built", string(h.ID)+"-"+c.stamp+".sealed"))
	if again, err = c.Build(context.Background(), h); err != nil || !bytes.Equal(again, wasm) {
		t.Error("a corrupt file of the cache:", err)
	}
	_, err = c.Build(context.Background(), engine.NewHarness(good+"\nvar x int = \"\"\n", engine.Meta{}))
	var refused *engine.LoadError
	if !errors.As(err, &refused) || refused.Line != 7 || refused.Rule != "compile" {
		t.Errorf("%v", err)
	}
}

// TestEmptiedCache: the folder of the cache may go at any time.
func TestEmptiedCache(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "compile")
	c, err := Open(context.Background(), folder)
	if errors.Is(err, ErrNoGo) {
		t.Skip(err)
	}
	if err := errors.Join(err, os.RemoveAll(folder)); err != nil {
		t.Fatal(err)
	}
	if wasm, err := c.Build(context.Background(), engine.NewHarness(good, engine.Meta{})); err != nil || !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		t.Error(err)
	}
}

// corrupt changes a byte in the middle of a file.
func corrupt(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 0x40
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNoGo: without a toolchain it says so.
func TestNoGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(context.Background(), t.TempDir()); !errors.Is(err, ErrNoGo) {
		t.Errorf("%v", err)
	}
}

// TestLayout: what a package needs before the snapshot goes with the sources that import it.
func TestLayout(t *testing.T) {
	c := &Compiler{folder: "f"}
	for source, want := range map[string]bool{
		good:                                     false,
		"package harness\n\nimport \"regexp\"\n": true,
		"package harness\n\nimport (\n\t\"fmt\"\n\tre `regexp`\n)\n":  true,
		"package harness\n\nimport \"regexp/syntax\"\n":               false,
		"package harness\n\nconst text = \"import \\\"regexp\\\"\"\n": false,
		"not Go": false,
	} {
		layout, err := c.layout("candidate.go", source)
		if err != nil || !bytes.Contains(layout, []byte(`"f/candidate/harness.go":"candidate.go"`)) ||
			bytes.Contains(layout, []byte(`"f/main/regexp.go":"f/with/regexp.go"`)) != want {
			t.Errorf("%q: %s, %v", source, layout, err)
		}
	}
}
