package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
)

// File names of a model folder.
const (
	WeightsFile    = "model.safetensors"
	IndexFile      = "model.safetensors.index.json"
	ConfigFile     = "config.json"
	GenerationFile = "generation_config.json"
)

// Checkpoint is an open model folder. Tensors are read when asked for, so
// opening costs the headers only. Safe for concurrent use until Close.
type Checkpoint struct {
	fsys  fs.FS
	files []shard
	where map[string]place
}

// shard is one open safetensors file.
type shard struct {
	name string
	data io.ReaderAt
	file fs.File
	layout
}

// place finds a tensor: files[shard].extents[index].
type place struct{ shard, index int }

// OpenDir opens the model at path, a folder or a GGUF file, see Folder.
func OpenDir(path string) (*Checkpoint, error) {
	fsys, err := Folder(path)
	if err != nil {
		return nil, err
	}
	c, err := Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Open opens the model folder fsys: its index when there is one, its single
// weights file otherwise. Headers are checked here, see package doc. A file
// of fsys that cannot be read at an offset is held in memory.
func Open(fsys fs.FS) (*Checkpoint, error) {
	c := &Checkpoint{fsys: fsys, where: map[string]place{}}
	index, err := fs.ReadFile(fsys, IndexFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = c.add(WeightsFile)
	case err == nil:
		err = c.addShards(index)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// addShards opens every file that the index names and checks it against weight_map.
func (c *Checkpoint) addShards(index []byte) error {
	var parsed struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil {
		return fmt.Errorf("%s: %w: %w", IndexFile, err, ErrFormat)
	}
	var names []string
	for _, file := range parsed.WeightMap {
		names = append(names, file)
	}
	sort.Strings(names)
	for _, name := range slices.Compact(names) {
		if err := c.add(name); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(parsed.WeightMap) {
		at, ok := c.where[name]
		if !ok || c.files[at.shard].name != parsed.WeightMap[name] {
			return fmt.Errorf("%s: tensor %q is not in %s: %w", IndexFile, name, parsed.WeightMap[name], ErrFormat)
		}
	}
	for _, name := range c.Names() {
		if _, ok := parsed.WeightMap[name]; !ok {
			return fmt.Errorf("%s: does not list tensor %q: %w", IndexFile, name, ErrFormat)
		}
	}
	return nil
}

// add opens one safetensors file.
func (c *Checkpoint) add(name string) error {
	file, err := c.fsys.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s := shard{name: name, file: file}
	c.files = append(c.files, s)
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	size := info.Size()
	if s.data, err = readerAt(file, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if s.layout, err = readLayout(s.data, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.files[len(c.files)-1] = s
	for i, e := range s.extents {
		if other, ok := c.where[e.Name]; ok {
			return fmt.Errorf("%s: tensor %q is also in %s: %w", name, e.Name, c.files[other.shard].name, ErrFormat)
		}
		c.where[e.Name] = place{len(c.files) - 1, i}
	}
	return nil
}

// Close closes the files.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, s := range c.files {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// Names returns the tensor names, sorted.
func (c *Checkpoint) Names() []string { return sortedKeys(c.where) }

// Tensor describes the named tensor; false when there is none.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	at, ok := c.where[name]
	if !ok {
		return Tensor{}, false
	}
	t := c.files[at.shard].extents[at.index].Tensor
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Raw returns a copy of the stored bytes of the named tensor.
func (c *Checkpoint) Raw(name string) ([]byte, error) {
	t, ok := c.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q: %w", name, ErrMissing)
	}
	b := make([]byte, t.Bytes())
	if err := c.read(name, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// Float32 returns the named tensor as floats, row-major; ErrUnsupported when
// it is stored as neither F32, BF16 nor F16.
func (c *Checkpoint) Float32(name string) ([]float32, error) {
	t, ok := c.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q: %w", name, ErrMissing)
	}
	dst := make([]float32, t.Elements())
	return dst, c.Float32Into(name, dst)
}

// Float32Into overwrites dst, which must have exactly the tensor's elements.
func (c *Checkpoint) Float32Into(name string, dst []float32) error {
	t, ok := c.Tensor(name)
	if !ok {
		return fmt.Errorf("tensor %q: %w", name, ErrMissing)
	}
	if len(dst) != t.Elements() {
		return fmt.Errorf("tensor %q has shape %v, %d elements were asked for: %w", name, t.Shape, len(dst), ErrFormat)
	}
	width := t.DType.Width()
	buffer := make([]byte, min(len(dst), blockElements)*width)
	for at := 0; at < len(dst); at += blockElements {
		block := dst[at:min(at+blockElements, len(dst))]
		bytes := buffer[:len(block)*width]
		if err := c.read(name, bytes, int64(at)*int64(width)); err != nil {
			return err
		}
		if err := decode(t.DType, bytes, block); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return nil
}

// blockElements bounds the buffer between storage type and float32.
const blockElements = 1 << 18

// read fills b from offset at of the named tensor, which exists.
func (c *Checkpoint) read(name string, b []byte, at int64) error {
	p := c.where[name]
	s := &c.files[p.shard]
	n, err := s.data.ReadAt(b, s.start+s.extents[p.index].begin+at)
	if n < len(b) {
		return fmt.Errorf("%s: tensor %q: %w", s.name, name, err)
	}
	return nil
}

// ReadFile returns a file beside the weights, for instance tokenizer.json.
func (c *Checkpoint) ReadFile(name string) ([]byte, error) { return fs.ReadFile(c.fsys, name) }

// Config reads config.json and, when it is there, the eos ids of
// generation_config.json, which win.
func (c *Checkpoint) Config() (Config, error) { return ReadConfig(c.fsys) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
