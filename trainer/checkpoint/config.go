package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
)

// LayerKind says what mixes tokens in one layer.
type LayerKind string

// FullAttention is causal attention over the whole sequence, the only mixer so far.
const FullAttention LayerKind = "full_attention"

// Families, as model_type spells them.
const (
	Llama = "llama"
	Qwen3 = "qwen3"
)

// Config is the shape of a model (spec/models.md sections 2 and 3).
type Config struct {
	Family       string      // Llama or Qwen3
	Vocab        int         // rows of the embedding, padding rows included
	Hidden       int         // D
	Intermediate int         // I
	Heads        int         // H, query heads
	KVHeads      int         // K, divides Heads
	HeadDim      int         // d, even; Heads*HeadDim need not be Hidden
	Layers       []LayerKind // one entry per layer, in order
	QKNorm       bool        // RMSNorm over each head of q and k before RoPE (Qwen3)
	Tied         bool        // logits use the embedding
	RMSEps       float64
	RopeTheta    float64
	MaxPositions int     // longest sequence the model was made for
	EOS          []int32 // ids that end a generation; may be empty
	DType        DType   // storage type that config.json names, F32 when none
}

// Limits on a config, far above any model this trainer can hold; they keep
// products of sizes inside an int.
const (
	maxSize   = 1 << 24
	maxLayers = 1 << 10
)

// ReadConfig reads config.json of a model folder and, when it is there, the
// eos ids of generation_config.json, which win (spec/models.md 5.4).
func ReadConfig(fsys fs.FS) (Config, error) {
	text, err := fs.ReadFile(fsys, ConfigFile)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	text, err = fs.ReadFile(fsys, GenerationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", GenerationFile, err)
	}
	f, err := readFields(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", GenerationFile, err)
	}
	if eos := f.ids("eos_token_id", c.Vocab); len(eos) > 0 {
		c.EOS = eos
	}
	if f.err != nil {
		return Config{}, fmt.Errorf("%s: %w", GenerationFile, f.err)
	}
	return c, nil
}

// ParseConfig reads a config.json. Whatever would change the arithmetic and is
// not computed here is refused by name with ErrUnsupported, and so is a field
// that nobody here knows, as long as it is not null, false or empty; fields that
// are known to have no influence on it (see idle) are skipped.
func ParseConfig(text []byte) (Config, error) {
	f, err := readFields(text)
	if err != nil {
		return Config{}, err
	}
	c := Config{Family: f.text("model_type", "")}
	if f.err == nil && c.Family != Llama && c.Family != Qwen3 {
		return Config{}, fmt.Errorf("model_type %q is neither %s nor %s: %w", c.Family, Llama, Qwen3, ErrUnsupported)
	}
	c.QKNorm = c.Family == Qwen3
	c.Vocab = f.size("vocab_size", 0)
	c.Hidden = f.size("hidden_size", 0)
	c.Intermediate = f.size("intermediate_size", 0)
	c.Heads = f.size("num_attention_heads", 0)
	c.KVHeads = f.size("num_key_value_heads", c.Heads)
	headDim := 0
	if c.Family == Llama && c.Heads > 0 {
		headDim = c.Hidden / c.Heads
	}
	c.HeadDim = f.size("head_dim", headDim)
	c.MaxPositions = f.size("max_position_embeddings", 2048)
	c.RMSEps = f.real("rms_norm_eps", 1e-6)
	c.Tied = f.flag("tie_word_embeddings", false)
	c.EOS = f.ids("eos_token_id", c.Vocab)
	c.DType = f.dtype()
	c.RopeTheta = f.ropeTheta()
	c.Layers = f.layers(f.size("num_hidden_layers", 0))
	f.refuse()
	f.strangers()
	if f.err != nil {
		return Config{}, f.err
	}
	return c, c.Check()
}

// Check verifies that the sizes fit each other.
func (c Config) Check() error {
	sizes := []struct {
		name string
		n    int
	}{
		{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"intermediate_size", c.Intermediate},
		{"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim},
		{"num_hidden_layers", len(c.Layers)}, {"max_position_embeddings", c.MaxPositions},
	}
	for _, s := range sizes {
		if s.n < 1 || s.n > maxSize {
			return fmt.Errorf("config: %s is %d, not in 1 to %d: %w", s.name, s.n, maxSize, ErrFormat)
		}
	}
	switch {
	case c.Family != Llama && c.Family != Qwen3:
		return fmt.Errorf("config: family %q: %w", c.Family, ErrUnsupported)
	case c.QKNorm != (c.Family == Qwen3):
		return fmt.Errorf("config: QK norm %v does not belong to %s: %w", c.QKNorm, c.Family, ErrUnsupported)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("config: %d query heads do not share %d kv heads: %w", c.Heads, c.KVHeads, ErrFormat)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("config: head_dim %d is odd: %w", c.HeadDim, ErrFormat)
	case !positive(c.RMSEps) || c.RMSEps >= 1:
		return fmt.Errorf("config: rms_norm_eps is %v: %w", c.RMSEps, ErrFormat)
	case !positive(c.RopeTheta):
		return fmt.Errorf("config: rope_theta is %v: %w", c.RopeTheta, ErrFormat)
	case len(c.Layers) > maxLayers:
		return fmt.Errorf("config: %d layers, limit %d: %w", len(c.Layers), maxLayers, ErrFormat)
	case c.Heads*c.HeadDim > maxSize:
		return fmt.Errorf("config: %d heads of %d are more than %d columns: %w", c.Heads, c.HeadDim, maxSize, ErrFormat)
	}
	for i, kind := range c.Layers {
		if kind != FullAttention {
			return fmt.Errorf("config: layer %d is %q: %w", i, kind, ErrUnsupported)
		}
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// JSON renders the config as a config.json that ParseConfig and the usual
// libraries read. The same config gives the same bytes.
func (c Config) JSON() ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	out := struct {
		Architectures []string    `json:"architectures"`
		ModelType     string      `json:"model_type"`
		Vocab         int         `json:"vocab_size"`
		Hidden        int         `json:"hidden_size"`
		Intermediate  int         `json:"intermediate_size"`
		Layers        int         `json:"num_hidden_layers"`
		Heads         int         `json:"num_attention_heads"`
		KVHeads       int         `json:"num_key_value_heads"`
		HeadDim       int         `json:"head_dim"`
		MaxPositions  int         `json:"max_position_embeddings"`
		Act           string      `json:"hidden_act"`
		RMSEps        float64     `json:"rms_norm_eps"`
		RopeTheta     float64     `json:"rope_theta"`
		Tied          bool        `json:"tie_word_embeddings"`
		AttentionBias bool        `json:"attention_bias"`
		LayerTypes    []LayerKind `json:"layer_types,omitempty"`
		EOS           []int32     `json:"eos_token_id,omitempty"`
		DType         string      `json:"torch_dtype"`
	}{
		Architectures: []string{map[string]string{Llama: "LlamaForCausalLM", Qwen3: "Qwen3ForCausalLM"}[c.Family]},
		ModelType:     c.Family, Vocab: c.Vocab, Hidden: c.Hidden, Intermediate: c.Intermediate,
		Layers: len(c.Layers), Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		MaxPositions: c.MaxPositions, Act: "silu", RMSEps: c.RMSEps, RopeTheta: c.RopeTheta,
		Tied: c.Tied, EOS: c.EOS, DType: dtypeNames[c.DType],
	}
	if c.Family == Qwen3 {
		out.LayerTypes = c.Layers
	}
	if out.DType == "" {
		return nil, fmt.Errorf("config: dtype %q: %w", c.DType, ErrUnsupported)
	}
	b, err := json.MarshalIndent(out, "", "  ")
	return append(b, '\n'), err
}

// Retyped is a config.json, whose fields stay as they are, for weights stored as d.
func Retyped(config []byte, d DType) ([]byte, error) {
	f, err := readFields(config)
	if err != nil {
		return nil, err
	}
	name, ok := dtypeNames[d]
	if !ok {
		return nil, fmt.Errorf("config: dtype %q: %w", d, ErrUnsupported)
	}
	field := "torch_dtype"
	if _, newer := f.raw["dtype"]; newer {
		field = "dtype"
	}
	f.raw[field] = json.RawMessage(`"` + name + `"`)
	text, err := json.MarshalIndent(f.raw, "", "  ")
	return append(text, '\n'), err
}

// WriteConfig writes c to path, whole or not at all.
func WriteConfig(path string, c Config) error {
	text, err := c.JSON()
	if err != nil {
		return err
	}
	return publish(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}

// dtypeNames spells storage types the way config.json does.
var dtypeNames = map[DType]string{F32: "float32", BF16: "bfloat16", F16: "float16"}

// LayersOf returns n layers of one kind.
func LayersOf(kind LayerKind, n int) []LayerKind {
	return slices.Repeat([]LayerKind{kind}, n)
}

// readFields opens one JSON object with exact names.
func readFields(text []byte) (*fields, error) {
	f := &fields{}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&f.raw); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	if strings.TrimSpace(string(text[d.InputOffset():])) != "" {
		return nil, fmt.Errorf("text after the object: %w", ErrFormat)
	}
	return f, nil
}
