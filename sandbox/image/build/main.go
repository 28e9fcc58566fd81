// Build compiles the guest for wasip1, collects the types of the packages that a harness
// may import and the sources for compiled ones, and writes them, compressed, into the folder named by its argument:
// `go generate ./sandbox`. The flags are fixed, since other flags would compile the
// standard library once more.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7c27e6b8/whale/sandbox/dispatch"
	"github.com/seed-7c27e6b8/whale/sandbox/frames"
	"github.com/seed-7c27e6b8/whale/sandbox/image"
	"github.com/seed-7c27e6b8/whale/sandbox/vet"
)

const guest = "github.com/seed-7c27e6b8/whale/sandbox/guest"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build FOLDER")
		os.Exit(2)
	}
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox image:", err)
		os.Exit(1)
	}
}

func build(folder string) error {
	module, err := compile()
	if err != nil {
		return fmt.Errorf("compile guest: %w", err)
	}
	if err := publish(filepath.Join(folder, image.GuestFile), module); err != nil {
		return err
	}
	packages, err := collectTypes()
	if err != nil {
		return fmt.Errorf("types: %w", err)
	}
	if err := publish(filepath.Join(folder, image.TypesFile), packages); err != nil {
		return err
	}
	sources, err := collectSources()
	if err != nil {
		return fmt.Errorf("sources: %w", err)
	}
	return publish(filepath.Join(folder, image.SourcesFile), sources)
}

func compile() ([]byte, error) {
	folder, err := os.MkdirTemp("", "whale-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	wasm := filepath.Join(folder, "guest.wasm")
	compiler := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", wasm, guest)
	compiler.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	compiler.Stdout, compiler.Stderr = os.Stderr, os.Stderr
	if err := compiler.Run(); err != nil {
		return nil, err
	}
	module, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	module, rebased, err := frames.Rebase(module)
	if err != nil {
		return nil, err
	}
	if rebased < leastRebased {
		return nil, fmt.Errorf("%d functions have the shape that package frames knows: another Go compiles otherwise", rebased)
	}
	module, done := dispatch.WithoutTable(module)
	if !done {
		return nil, errors.New("the table is used in a way that package dispatch doesn't know: another Go compiles otherwise")
	}
	return module, nil
}

// leastRebased is how many of the guest's 7,000 functions at least get faster.
const leastRebased = 6000

// collectTypes packs the compiler's export data of every package that may be imported
// into one tar file.
func collectTypes() ([]byte, error) {
	list := exec.Command("go", append([]string{"list", "-export", "-trimpath", "-f", "{{.ImportPath}} {{.Export}}"}, vet.Imports()...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string][]byte{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		if packages[path], err = exportData(file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return pack(packages)
}

// collectSources packs what a compiled harness is built with: the kit, the messages and
// the guest's side of the wall. `go generate` runs in the folder of package sandbox.
func collectSources() ([]byte, error) {
	files := map[string]string{"main/wall.go": "guest/wall.go", "main/run.go": "guest/run.go", "main/settle.go": "guest/settle.go",
		"main/main.go": "guest/compiled.txt", "with/regexp.go": "guest/compiled_regexp.txt"}
	for folder, from := range map[string]string{"harnesses/kit": "../harnesses/kit", "sandbox/abi": "abi"} {
		list, err := filepath.Glob(filepath.Join(from, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range list {
			if !strings.HasSuffix(file, "_test.go") {
				files[folder+"/"+filepath.Base(file)] = file
			}
		}
	}
	sources := map[string][]byte{}
	for name, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sources[name] = content
	}
	return pack(sources)
}

// pack makes one tar file, in order of the names.
func pack(files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o644}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	return packed.Bytes(), w.Close()
}

// exportData cuts a compiled package off behind its first member, which holds the types.
func exportData(file string) ([]byte, error) {
	const magic, header = "!<arch>\n", 60
	archive, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(archive) < len(magic)+header || string(archive[:len(magic)]) != magic {
		return nil, errors.New("not an archive")
	}
	size, err := strconv.Atoi(strings.TrimSpace(string(archive[len(magic)+48 : len(magic)+58])))
	if err != nil || len(archive) < len(magic)+header+size {
		return nil, errors.New("archive with a broken header")
	}
	return archive[:len(magic)+header+size], nil
}

// publish compresses and writes aside, then renames: a build that is cut short leaves no
// half file.
func publish(target string, content []byte) error {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if err := os.WriteFile(target+".new", encoder.EncodeAll(content, nil), 0o644); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}
