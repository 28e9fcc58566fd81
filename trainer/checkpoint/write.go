package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Item is one tensor to write. Make it with Values, Lazy or Copy.
type Item struct {
	Tensor
	write func(w io.Writer) error
}

// Values is a tensor with these row-major floats, stored as dtype F32 or BF16.
// The slice is read when the file is written and never kept after that.
func Values(name string, dtype DType, shape []int, values []float32) Item {
	return Lazy(name, dtype, shape, func() ([]float32, error) { return values, nil })
}

// Lazy is Values for floats that are fetched only when their turn comes, so
// that one tensor at a time leaves a device.
func Lazy(name string, dtype DType, shape []int, fetch func() ([]float32, error)) Item {
	t := Tensor{Name: name, DType: dtype, Shape: slices.Clone(shape)}
	return Item{Tensor: t, write: func(w io.Writer) error {
		values, err := fetch()
		if err != nil {
			return err
		}
		if len(values) != t.Elements() {
			return fmt.Errorf("%d values for shape %v: %w", len(values), t.Shape, ErrFormat)
		}
		buffer := make([]byte, min(len(values), blockElements)*t.DType.Width())
		for block := range slices.Chunk(values, blockElements) {
			part := buffer[:len(block)*t.DType.Width()]
			if err := encode(t.DType, block, part); err != nil {
				return err
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Copy is the named tensor of c, byte for byte; c must stay open until it is
// written. ErrMissing when c has none of that name.
func Copy(c *Checkpoint, name string) (Item, error) {
	t, ok := c.Tensor(name)
	if !ok {
		return Item{}, fmt.Errorf("tensor %q: %w", name, ErrMissing)
	}
	return Item{Tensor: t, write: func(w io.Writer) error {
		p := c.where[name]
		s := &c.files[p.shard]
		_, err := io.Copy(w, io.NewSectionReader(s.data, s.start+s.extents[p.index].begin, int64(t.Bytes())))
		return err
	}}, nil
}

// Bytes is a tensor with its stored bytes, which are kept until it is written.
func Bytes(t Tensor, raw []byte) Item {
	return Item{Tensor: t, write: func(w io.Writer) error { _, err := w.Write(raw); return err }}
}

// Encode writes items as one safetensors file, in the order given: the same
// items give the same bytes. Names must differ.
func Encode(w io.Writer, items []Item) error {
	header, err := header(items)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, item := range items {
		n := counter{w: w}
		if err := item.write(&n); err != nil {
			return fmt.Errorf("tensor %q: %w", item.Name, err)
		}
		if n.bytes != int64(item.Bytes()) {
			return fmt.Errorf("tensor %q: wrote %d bytes of %d: %w", item.Name, n.bytes, item.Bytes(), ErrFormat)
		}
	}
	return nil
}

// header renders length and JSON, padded with spaces so that data starts at a
// multiple of 8.
func header(items []Item) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + metadata + `":{"format":"pt"}`)
	seen := map[string]bool{metadata: true}
	at := int64(0)
	for _, item := range items {
		if seen[item.Name] {
			return nil, fmt.Errorf("tensor name %q cannot be written (twice, or reserved): %w", item.Name, ErrFormat)
		}
		seen[item.Name] = true
		name, err := json.Marshal(item.Name)
		if err != nil {
			return nil, fmt.Errorf("tensor name %q: %w", item.Name, err)
		}
		shape, err := json.Marshal(append([]int{}, item.Shape...))
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", item.Name, err)
		}
		if item.DType.Width() == 0 {
			return nil, fmt.Errorf("tensor %q: unknown dtype %q: %w", item.Name, item.DType, ErrUnsupported)
		}
		end := at + int64(item.Bytes())
		fmt.Fprintf(&b, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, item.DType, shape, at, end)
		at = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...), nil
}

// counter counts what passes to w.
type counter struct {
	w     io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}

// WriteFile writes items to path as Encode does, and publishes last: the file
// appears under its name only when it is whole and on disk.
func WriteFile(path string, items []Item) error {
	return publish(path, func(w io.Writer) error { return Encode(w, items) })
}

// publish is write, fsync, rename, fsync of the folder.
func publish(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	b := bufio.NewWriterSize(f, 1<<20)
	if err := fill(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
