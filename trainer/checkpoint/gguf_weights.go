package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint/gguf"
)

// ggufWeights shows the tensors of a GGUF file as one safetensors file: F32,
// F16 and BF16 as they are, block formats as F32, names and row order as in
// Hugging Face folders.
type ggufWeights struct {
	header  []byte
	extents []ggufExtent // in file order, tile [len(header), size)
	size    int64
	file    *gguf.File
}

// ggufExtent is one tensor and its place in the file that is shown.
type ggufExtent struct {
	Tensor
	source     gguf.Tensor
	begin, end int64
	// pairs is the head size when the rows of a head are stored as pairs for
	// interleaved RoPE (row 2i+h of a head is row h*pairs/2+i of the halves that
	// this project rotates), 0 when rows are stored in order.
	pairs int
}

// ggufParts maps the middle of a tensor's name inside a layer.
var ggufParts = map[string]string{
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

// ggufName spells the name of a tensor of Config.Tensors as GGUF does.
func ggufName(name string) string {
	switch name {
	case EmbedName:
		return "token_embd.weight"
	case NormName:
		return "output_norm.weight"
	case HeadName:
		return "output.weight"
	}
	layer, part, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(name, ".weight"), "model.layers."), ".")
	return "blk." + layer + "." + ggufParts[part] + ".weight"
}

// newGGUFWeights finds the tensors of the config in the file and refuses any other.
func newGGUFWeights(file *gguf.File, c Config) (*ggufWeights, error) {
	w := &ggufWeights{file: file}
	stored := make(map[string]gguf.Tensor, len(file.Tensors))
	for _, t := range file.Tensors {
		stored[t.Name] = t
	}
	var items []Item
	for _, t := range c.Tensors() {
		source, ok := stored[ggufName(t.Name)]
		if !ok {
			return nil, fmt.Errorf("tensor %q: %w", ggufName(t.Name), ErrMissing)
		}
		delete(stored, source.Name)
		if !slices.Equal(source.Shape, t.Shape) {
			return nil, fmt.Errorf("tensor %q has shape %v, the metadata needs %v: %w", source.Name, source.Shape, t.Shape, ErrFormat)
		}
		t.DType = shownAs(source.Type)
		e := ggufExtent{Tensor: t, source: source}
		if c.Family == Llama && (strings.HasSuffix(t.Name, "q_proj.weight") || strings.HasSuffix(t.Name, "k_proj.weight")) {
			e.pairs = c.HeadDim
		}
		w.extents = append(w.extents, e)
		items = append(items, Item{Tensor: t})
	}
	if len(stored) > 0 {
		return nil, fmt.Errorf("tensor %q: %w", sortedKeys(stored)[0], ErrUnsupported)
	}
	var err error
	if w.header, err = header(items); err != nil {
		return nil, err
	}
	w.size = int64(len(w.header))
	for i := range w.extents {
		e := &w.extents[i]
		e.begin = w.size
		e.end = e.begin + int64(e.Bytes())
		w.size = e.end
	}
	return w, nil
}

func shownAs(t gguf.Type) DType {
	switch t {
	case gguf.F16:
		return F16
	case gguf.BF16:
		return BF16
	}
	return F32
}

// ReadAt reads the file that is shown.
func (w *ggufWeights) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fs.ErrInvalid
	}
	n := 0
	for n < len(p) && at+int64(n) < w.size {
		got, err := w.readSome(p[n:], at+int64(n))
		n += got
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readSome reads from one place, at least one byte; at is inside the file.
func (w *ggufWeights) readSome(p []byte, at int64) (int, error) {
	if at < int64(len(w.header)) {
		return copy(p, w.header[at:]), nil
	}
	i := sort.Search(len(w.extents), func(i int) bool { return w.extents[i].end > at })
	e := &w.extents[i]
	run, skip := e.run(int(at - e.begin))
	want := min(len(p)+skip, run.elements*e.DType.Width())
	block := e.source.Type.Block()
	run.elements = ((want+e.DType.Width()-1)/e.DType.Width() + block - 1) / block * block
	shown, err := w.show(e, run)
	return copy(p, shown[min(skip, len(shown)):]), err
}

// maxRun bounds the elements that are decoded at once; a multiple of every block.
const maxRun = 1 << 16

// ggufRun is a stretch of elements that lie together in the source.
type ggufRun struct{ from, elements int }

// run finds the stretch that holds a byte of the shown tensor, from the block
// of that byte on, and how many bytes before it that begins.
func (e *ggufExtent) run(at int) (r ggufRun, skip int) {
	width := e.DType.Width()
	element, block := at/width, e.source.Type.Block()
	r.from = element / block * block
	skip = at - r.from*width
	limit := e.Elements() - r.from
	if e.pairs > 0 {
		columns := e.Shape[1]
		row, column := r.from/columns, r.from%columns
		half := e.pairs / 2
		inHead := row % e.pairs
		r.from = (row-inHead+inHead%half*2+inHead/half)*columns + column
		limit = columns - column
	}
	r.elements = min(limit, maxRun)
	return r, skip
}

// show returns the bytes that a stretch is shown as.
func (w *ggufWeights) show(e *ggufExtent, r ggufRun) ([]byte, error) {
	shown := make([]byte, r.elements*e.DType.Width())
	if e.source.Type.Block() == 1 {
		return shown, w.file.Raw(e.source, int64(r.from*e.DType.Width()), shown)
	}
	values := make([]float32, r.elements)
	if err := w.file.Floats(e.source, r.from, values); err != nil {
		return nil, err
	}
	for i, x := range values {
		binary.LittleEndian.PutUint32(shown[4*i:], math.Float32bits(x))
	}
	return shown, nil
}

// ggufWeightsFile is ggufWeights as an open file.
type ggufWeightsFile struct {
	*ggufWeights
	source fs.File
	info   ggufInfo
	at     int64
}

func (f *ggufWeightsFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *ggufWeightsFile) Close() error               { return f.source.Close() }

func (f *ggufWeightsFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
