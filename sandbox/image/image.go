// Package image holds what is made ahead of a harness, as part of the binary: the guest
// program, the types of the packages that a harness may import, and the sources that a
// compiled harness is built with. The files are
// made by `go generate ./sandbox` (which `make` calls) and are not under version control;
// without them everything compiles, and Guest and Types say what is missing.
package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrNotBuilt: the binary was built before the guest.
var ErrNotBuilt = errors.New("sandbox image: not built: run make")

// Names of the files in this folder.
const (
	GuestFile   = "guest.wasm.zst"
	TypesFile   = "types.tar.zst"
	SourcesFile = "sources.tar.zst"
)

// The pattern takes in this source too, so that it matches before the image is built.
//
//go:embed *
var files embed.FS

// Guest gives the guest's WebAssembly module, about 12 MB.
func Guest() ([]byte, error) { return unpack(GuestFile) }

// Types gives the compiler's export data of each package that a harness may import, by
// import path. Only the Go version that made it reads it.
func Types() (map[string][]byte, error) { return unpackAll(TypesFile) }

// Sources gives the Go files that a compiled harness is built with, by their place in the
// module (see package compile).
func Sources() (map[string][]byte, error) { return unpackAll(SourcesFile) }

func unpackAll(name string) (map[string][]byte, error) {
	packed, err := unpack(name)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox image: %s: %w", name, err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("sandbox image: %s: %w", name, err)
		}
	}
}

// Built says whether the binary holds an image.
func Built() bool {
	_, err := files.Open(GuestFile)
	return err == nil
}

func unpack(name string) ([]byte, error) {
	packed, err := files.ReadFile(name)
	if err != nil {
		return nil, ErrNotBuilt
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("sandbox image: %w", err)
	}
	defer decoder.Close()
	content, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("sandbox image: %s: %w", name, err)
	}
	return content, nil
}
