// Build compiles the guest for wasip1 and writes it, compressed, into the folder named by
// its argument: `go generate ./sandbox`. The flags are fixed, since other flags would
// compile the standard library once more.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7c27e6b8/whale/sandbox/image"
)

const guest = "github.com/seed-7c27e6b8/whale/sandbox/guest"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build FOLDER")
		os.Exit(2)
	}
	if err := build(filepath.Join(os.Args[1], image.File)); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox image:", err)
		os.Exit(1)
	}
}

func build(target string) error {
	folder, err := os.MkdirTemp("", "whale-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	wasm := filepath.Join(folder, "guest.wasm")
	compiler := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", wasm, guest)
	compiler.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	compiler.Stdout, compiler.Stderr = os.Stderr, os.Stderr
	if err := compiler.Run(); err != nil {
		return fmt.Errorf("compile guest: %w", err)
	}
	module, err := os.ReadFile(wasm)
	if err != nil {
		return err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return err
	}
	packed := encoder.EncodeAll(module, nil)
	// Written aside and renamed: a build that is cut short leaves no half guest.
	if err := os.WriteFile(target+".new", packed, 0o644); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}
