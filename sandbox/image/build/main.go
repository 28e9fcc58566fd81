// Build compiles the guest for wasip1, collects the types of the packages that a harness
// may import, and writes both, compressed, into the folder named by its argument:
// `go generate ./sandbox`. The flags are fixed, since other flags would compile the
// standard library once more.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

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
	return publish(filepath.Join(folder, image.TypesFile), packages)
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
	return os.ReadFile(wasm)
}

// collectTypes packs the compiler's export data of every package that may be imported
// into one tar file.
func collectTypes() ([]byte, error) {
	list := exec.Command("go", append([]string{"list", "-export", "-trimpath", "-f", "{{.ImportPath}} {{.Export}}"}, vet.Imports()...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		definition, err := exportData(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := w.WriteHeader(&tar.Header{Name: path, Size: int64(len(definition)), Mode: 0o644}); err != nil {
			return nil, err
		}
		if _, err := w.Write(definition); err != nil {
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
