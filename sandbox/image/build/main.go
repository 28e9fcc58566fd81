// Build compiles the guest for wasip1 and writes it, compressed, into the folder it is
// started in: `go generate ./sandbox/image`. The flags are fixed, since other flags would
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
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox image:", err)
		os.Exit(1)
	}
}

func build() error {
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
	if err := os.WriteFile(image.File+".new", packed, 0o644); err != nil {
		return err
	}
	return os.Rename(image.File+".new", image.File)
}
