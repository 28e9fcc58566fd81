package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint/gguf"
)

// Files that a GGUF file is shown as, beside ConfigFile and WeightsFile.
const (
	TokenizerFile       = "tokenizer.json"
	TokenizerConfigFile = "tokenizer_config.json"

	ggufSuffix = ".gguf"
)

// Folder opens what a user calls a model: a folder in Hugging Face layout, a
// GGUF file, or a folder with one GGUF file and no config.json. The two latter
// are shown as the first, see GGUF.
func Folder(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return GGUF(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	}
	dir := os.DirFS(path)
	if _, err := fs.Stat(dir, ConfigFile); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	found, err := fs.Glob(dir, "*"+ggufSuffix)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return dir, nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s: %d GGUF files and no %s: name one of them: %w", path, len(found), ConfigFile, ErrFormat)
	}
	return GGUF(dir, found[0])
}

// ggufFolder shows a GGUF file as a model folder. The small files are made when
// it is opened, tensors are decoded as they are read.
type ggufFolder struct {
	fsys    fs.FS
	name    string
	size    int64
	files   map[string][]byte
	weights *ggufWeights
}

// GGUF shows the GGUF file name of fsys as a model folder: config.json,
// model.safetensors (block formats as F32), tokenizer.json and
// tokenizer_config.json (chat template, bos and eos). Architectures llama and
// qwen3. What is in the file and has no place there is refused by name.
func GGUF(fsys fs.FS, name string) (fs.FS, error) {
	g, err := newGGUFFolder(fsys, name)
	switch {
	case errors.Is(err, gguf.ErrFormat):
		err = fmt.Errorf("%w: %w", err, ErrFormat)
	case errors.Is(err, gguf.ErrUnsupported):
		err = fmt.Errorf("%w: %w", err, ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

func newGGUFFolder(fsys fs.FS, name string) (*ggufFolder, error) {
	source, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	file, size, err := readGGUF(source)
	if err != nil {
		return nil, err
	}
	g := &ggufFolder{fsys: fsys, name: name, size: size, files: map[string][]byte{}}
	config, err := ggufConfig(file)
	if err != nil {
		return nil, err
	}
	if g.files[ConfigFile], err = config.JSON(); err != nil {
		return nil, err
	}
	if err := g.addTokenizer(file); err != nil {
		return nil, err
	}
	g.weights, err = newGGUFWeights(file, config)
	return g, err
}

func readGGUF(source fs.File) (*gguf.File, int64, error) {
	info, err := source.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := readerAt(source, info.Size())
	if err != nil {
		return nil, 0, err
	}
	file, err := gguf.Read(data, info.Size())
	return file, info.Size(), err
}

// Open opens one of the files that the GGUF file is shown as.
func (g *ggufFolder) Open(name string) (fs.File, error) {
	if text, ok := g.files[name]; ok {
		return &ggufFile{Reader: bytes.NewReader(text), info: ggufInfo{name, int64(len(text))}}, nil
	}
	if name != WeightsFile {
		kind := fs.ErrNotExist
		if !fs.ValidPath(name) {
			kind = fs.ErrInvalid
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: kind}
	}
	source, err := g.fsys.Open(g.name)
	if err != nil {
		return nil, err
	}
	weights, err := g.open(source)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", g.name, err), source.Close())
	}
	return weights, nil
}

// open attaches the weights to a freshly opened file, which is parsed again
// because it may have changed.
func (g *ggufFolder) open(source fs.File) (fs.File, error) {
	file, size, err := readGGUF(source)
	if err != nil {
		return nil, err
	}
	if size != g.size {
		return nil, fmt.Errorf("has %d bytes now and had %d: %w", size, g.size, ErrFormat)
	}
	w := &ggufWeights{header: g.weights.header, extents: g.weights.extents, size: g.weights.size, file: file}
	return &ggufWeightsFile{ggufWeights: w, source: source, info: ggufInfo{WeightsFile, w.size}}, nil
}

// ggufFile is one of the small files.
type ggufFile struct {
	*bytes.Reader
	info ggufInfo
}

func (f *ggufFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *ggufFile) Close() error               { return nil }

// ggufInfo describes a file that is made, not stored.
type ggufInfo struct {
	name string
	size int64
}

func (i ggufInfo) Name() string       { return i.name }
func (i ggufInfo) Size() int64        { return i.size }
func (i ggufInfo) Mode() fs.FileMode  { return 0o444 }
func (i ggufInfo) ModTime() time.Time { return time.Time{} }
func (i ggufInfo) IsDir() bool        { return false }
func (i ggufInfo) Sys() any           { return nil }
