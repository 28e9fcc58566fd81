package checkpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint/gguf"
)

// ggufKeys are the keys under the architecture's name that ggufConfig reads,
// or that say nothing about the arithmetic. Any other is refused.
var ggufKeys = []string{"block_count", "context_length", "embedding_length", "feed_forward_length",
	"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
	"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "vocab_size"}

// ggufFields reads metadata and keeps the first error.
type ggufFields struct {
	file   *gguf.File
	prefix string
	err    error
}

// size reads a positive size; fallback 0 means that the key must be there.
func (f *ggufFields) size(key string, fallback int) int {
	n, ok, err := f.file.Uint(f.prefix + key)
	switch {
	case f.err != nil:
	case err != nil:
		f.err = err
	case !ok && fallback == 0:
		f.err = fmt.Errorf("%s%s is absent: %w", f.prefix, key, ErrFormat)
	case !ok:
		return fallback
	case n < 1 || n > maxSize:
		f.err = fmt.Errorf("%s%s is %d, not in 1 to %d: %w", f.prefix, key, n, maxSize, ErrFormat)
	default:
		return int(n)
	}
	return fallback
}

// real reads a number. One that is stored in 4 bytes stands for the shortest
// decimal that rounds to it, which is what the model's config said.
func (f *ggufFields) real(key string, fallback float64) float64 {
	x, ok, err := f.file.Float(f.prefix + key)
	if f.err == nil {
		f.err = err
	}
	if !ok {
		return fallback
	}
	if float64(float32(x)) == x {
		if short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64); err == nil {
			return short
		}
	}
	return x
}

// ggufConfig reads the shape of the model.
func ggufConfig(file *gguf.File) (Config, error) {
	family, _, err := file.Text("general.architecture")
	if err != nil {
		return Config{}, err
	}
	if family != Llama && family != Qwen3 {
		return Config{}, fmt.Errorf("general.architecture %q is neither %s nor %s: %w", family, Llama, Qwen3, ErrUnsupported)
	}
	f := &ggufFields{file: file, prefix: family + "."}
	for _, key := range file.Keys(f.prefix) {
		if !slices.Contains(ggufKeys, strings.TrimPrefix(key, f.prefix)) {
			return Config{}, fmt.Errorf("key %q: %w", key, ErrUnsupported)
		}
	}
	c := Config{Family: family, QKNorm: family == Qwen3, DType: F32}
	c.Hidden, c.Intermediate = f.size("embedding_length", 0), f.size("feed_forward_length", 0)
	c.Heads = f.size("attention.head_count", 0)
	c.KVHeads = f.size("attention.head_count_kv", c.Heads)
	c.MaxPositions = f.size("context_length", 0)
	if layers := f.size("block_count", 0); layers <= maxLayers {
		c.Layers = LayersOf(FullAttention, layers)
	} else {
		return Config{}, fmt.Errorf("%sblock_count is %d, limit %d: %w", f.prefix, layers, maxLayers, ErrFormat)
	}
	c.HeadDim = f.size("attention.key_length", c.Hidden/max(c.Heads, 1))
	c.RMSEps = f.real("attention.layer_norm_rms_epsilon", 1e-6)
	c.RopeTheta = f.real("rope.freq_base", 10000)
	if _, ok := file.Tensor("output.weight"); !ok {
		c.Tied = true
	}
	f.refuse(c)
	c.Vocab = f.vocab()
	c.EOS = f.eos(c.Vocab)
	if f.err != nil {
		return Config{}, f.err
	}
	return c, c.Check()
}

// refuse names the first key that would change the arithmetic.
func (f *ggufFields) refuse(c Config) {
	for _, key := range []string{"attention.value_length", "rope.dimension_count"} {
		if n := f.size(key, max(c.HeadDim, 1)); f.err == nil && n != c.HeadDim {
			f.err = fmt.Errorf("%s%s is %d in heads of %d: %w", f.prefix, key, n, c.HeadDim, ErrUnsupported)
		}
	}
	scaling, ok, err := f.file.Text(f.prefix + "rope.scaling.type")
	switch {
	case f.err != nil:
	case err != nil:
		f.err = err
	case ok && scaling != "none":
		f.err = fmt.Errorf("%srope.scaling.type %q: %w", f.prefix, scaling, ErrUnsupported)
	}
}

// vocab is the number of rows of the embedding; a key that names it must agree.
func (f *ggufFields) vocab() int {
	embed, ok := f.file.Tensor("token_embd.weight")
	if f.err != nil {
		return 0
	}
	if !ok || len(embed.Shape) != 2 {
		f.err = fmt.Errorf("tensor %q: %w", "token_embd.weight", ErrMissing)
		return 0
	}
	if n := f.size("vocab_size", embed.Shape[0]); f.err == nil && n != embed.Shape[0] {
		f.err = fmt.Errorf("%svocab_size is %d, the embedding has %d rows: %w", f.prefix, n, embed.Shape[0], ErrFormat)
	}
	return embed.Shape[0]
}

// eos collects the ids that end a generation.
func (f *ggufFields) eos(vocab int) []int32 {
	var ids []int32
	for _, key := range []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"} {
		id, ok, err := f.file.Uint(key)
		switch {
		case f.err != nil || !ok && err == nil:
		case err != nil:
			f.err = err
		case id >= uint64(vocab):
			f.err = fmt.Errorf("%s is %d of a vocabulary of %d: %w", key, id, vocab, ErrFormat)
		case !slices.Contains(ids, int32(id)):
			ids = append(ids, int32(id))
		}
	}
	return ids
}
