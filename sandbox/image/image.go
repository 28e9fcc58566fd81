// Package image holds the guest program, compiled and compressed, as part of the binary.
// The file is made by `go generate ./sandbox` (which `make` calls) and is not
// under version control; without it everything compiles and Guest says what is missing.
package image

import (
	"embed"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// ErrNotBuilt: the binary was built before the guest.
var ErrNotBuilt = errors.New("sandbox image: not built: run make")

// File is the name of the compressed guest in this folder.
const File = "guest.wasm.zst"

// The pattern takes in this source too, so that it matches before the guest is built.
//
//go:embed *
var files embed.FS

// Guest gives the guest's WebAssembly module, about 12 MB.
func Guest() ([]byte, error) {
	packed, err := files.ReadFile(File)
	if err != nil {
		return nil, ErrNotBuilt
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("sandbox image: %w", err)
	}
	defer decoder.Close()
	module, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("sandbox image: %w", err)
	}
	return module, nil
}
