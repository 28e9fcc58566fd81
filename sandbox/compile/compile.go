// Package compile turns a candidate into a WebAssembly guest of its own with the Go
// toolchain, for sources that the interpreter gets wrong and for those that run so often
// that it pays. What comes out speaks the same language as the interpreter's guest
// (package guest) and runs in the same kind of sandbox.
//
// The build is offline and needs nothing but `go`: kit, messages and the guest's side of
// the wall are part of this binary (package image) and are written into a folder of the
// cache, next to the candidate. The flags are those of the interpreter's guest, since
// others would compile the standard library once more.
//
// compile doesn't judge a source: what may be imported is package vet's business, before.
// Not covered: bounds on what the Go compiler takes, except time.
package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/dispatch"
	"github.com/seed-7c27e6b8/whale/sandbox/frames"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

// ErrNoGo: there is no Go toolchain.
var ErrNoGo = errors.New("no `go` on PATH")

// maxTime is how long one build may take; the first builds the standard library.
const maxTime = 5 * time.Minute

const module = "github.com/seed-7c27e6b8/whale"

// Compiler builds candidates, one at a time.
type Compiler struct {
	folder  string
	sources map[string][]byte // by place in the folder
	goTool  string
	stamp   string // of the toolchain and the sources: part of every name in the cache
	mu      sync.Mutex
}

// Open finds the toolchain and writes the module into a folder. It fails with ErrNoGo
// without one.
func Open(ctx context.Context, folder string) (*Compiler, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, ErrNoGo
	}
	version, err := exec.CommandContext(ctx, tool, "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	sources, err := image.Sources()
	if err != nil {
		return nil, err
	}
	release, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(version)), "go"), " ")
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return nil, fmt.Errorf("go env: version %q", release)
	}
	sources["go.mod"] = []byte("module " + module + "\n\ngo " + parts[0] + "." + parts[1] + "\n")
	sum := sha256.New()
	fmt.Fprintf(sum, "%s frames %d dispatch %d\n", version, frames.Version, dispatch.Version)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(sources[name]), sources[name])
	}
	return &Compiler{folder: folder, sources: sources, goTool: tool, stamp: hex.EncodeToString(sum.Sum(nil))[:16]}, writeAll(folder, sources)
}

func writeAll(folder string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := publish(path, content); err != nil {
			return err
		}
	}
	return nil
}

// publish writes aside and renames: another process may use the same folder.
func publish(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Build gives the guest of a candidate, from the cache if it was built before. A source
// that does not compile comes back as *engine.LoadError.
func (c *Compiler) Build(ctx context.Context, h engine.Harness) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := filepath.Join(c.folder, "built", fmt.Sprintf("%s-%s.sealed", h.ID, c.stamp))
	if file, err := os.ReadFile(kept); err == nil {
		if wasm, ok := open(file); ok {
			return wasm, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "whale-compile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	wasm, err := c.build(ctx, folder, h.Source)
	if err != nil {
		return nil, err
	}
	return wasm, publish(kept, seal(wasm))
}

// seal adds a module's checksum for the cache.
func seal(wasm []byte) []byte {
	sum := sha256.Sum256(wasm)
	return slices.Concat(wasm, sum[:])
}

// open takes the checksum off; ok is false for a file that was cut short or changed.
func open(file []byte) (wasm []byte, ok bool) {
	end := len(file) - sha256.Size
	if end < 0 {
		return nil, false
	}
	sum := sha256.Sum256(file[:end])
	return file[:end:end], string(sum[:]) == string(file[end:])
}

// build lays the candidate over the module: nothing of it is written there.
func (c *Compiler) build(ctx context.Context, folder, source string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if _, err := os.Stat(filepath.Join(c.folder, "go.mod")); errors.Is(err, fs.ErrNotExist) { // somebody emptied the cache
		if err := writeAll(c.folder, c.sources); err != nil {
			return nil, err
		}
	}
	file, overlay, wasm := filepath.Join(folder, "harness.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, "guest.wasm")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		return nil, err
	}
	layout, err := c.layout(file, source)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(overlay, layout, 0o644); err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, c.goTool, "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-overlay", overlay, "-o", wasm, "./main")
	run.Dir = c.folder
	run.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOWORK=off", "GO111MODULE=on")
	out, err := run.CombinedOutput()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("go build: %w", ctx.Err())
	}
	if err != nil {
		return nil, refusal(string(out), err)
	}
	module, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	if module, _, err = frames.Rebase(module); err != nil {
		return nil, err
	}
	module, _ = dispatch.WithoutTable(module)
	return module, nil
}

// layout lays the candidate's file over the module, and what goes with the packages that it uses.
func (c *Compiler) layout(file, source string) ([]byte, error) {
	over := map[string]string{filepath.Join(c.folder, "candidate", "harness.go"): file}
	// A source that can't be parsed imports nothing here; the compiler says what is wrong with it.
	parsed, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
	matches := func(i *ast.ImportSpec) bool { return strings.Trim(i.Path.Value, "\"`") == "regexp" }
	if err == nil && slices.ContainsFunc(parsed.Imports, matches) {
		over[filepath.Join(c.folder, "main", "regexp.go")] = filepath.Join(c.folder, "with", "regexp.go")
	}
	return json.Marshal(map[string]map[string]string{"Replace": over})
}

// position matches a message of the compiler about the candidate.
var position = regexp.MustCompile(`harness\.go:(\d+):(?:(\d+):)? (.*)`)

// refusal turns the compiler's first message about the candidate into a LoadError; without
// one the build failed for a reason of the host.
func refusal(out string, cause error) error {
	m := position.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("go build: %w: %s", cause, strings.ReplaceAll(strings.TrimSpace(out[:min(len(out), 2000)]), "\n", "; "))
	}
	e := &engine.LoadError{Rule: "compile", Reason: m[3], Hint: "the Go compiler refuses it"}
	e.Line, _ = strconv.Atoi(m[1])
	e.Column, _ = strconv.Atoi(m[2])
	return e
}
