package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the tensors outside the layers (spec/models.md section 2).
const (
	EmbedName = "model.embed_tokens.weight"
	NormName  = "model.norm.weight"
	HeadName  = "lm_head.weight"
)

// LayerName returns the full name of a tensor of layer i, for instance
// LayerName(3, "self_attn.q_proj").
func LayerName(i int, part string) string {
	return fmt.Sprintf("model.layers.%d.%s.weight", i, part)
}

// Tensors returns the name and shape of every tensor that the model needs, in
// forward order, with c.DType. A tied model has no head of its own.
func (c Config) Tensors() []Tensor {
	list := []Tensor{{EmbedName, c.DType, []int{c.Vocab, c.Hidden}}}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for i := range c.Layers {
		add := func(part string, shape ...int) {
			list = append(list, Tensor{LayerName(i, part), c.DType, shape})
		}
		add("input_layernorm", c.Hidden)
		add("self_attn.q_proj", q, c.Hidden)
		add("self_attn.k_proj", kv, c.Hidden)
		add("self_attn.v_proj", kv, c.Hidden)
		if c.QKNorm {
			add("self_attn.q_norm", c.HeadDim)
			add("self_attn.k_norm", c.HeadDim)
		}
		add("self_attn.o_proj", c.Hidden, q)
		add("post_attention_layernorm", c.Hidden)
		add("mlp.gate_proj", c.Intermediate, c.Hidden)
		add("mlp.up_proj", c.Intermediate, c.Hidden)
		add("mlp.down_proj", c.Hidden, c.Intermediate)
	}
	list = append(list, Tensor{NormName, c.DType, []int{c.Hidden}})
	if !c.Tied {
		list = append(list, Tensor{HeadName, c.DType, []int{c.Vocab, c.Hidden}})
	}
	return list
}

// Parameters counts the trained numbers of the model.
func (c Config) Parameters() int {
	n := 0
	for _, t := range c.Tensors() {
		n += t.Elements()
	}
	return n
}

// Match checks that every tensor of the config is in the checkpoint with its
// shape and a dtype that turns into float32. Further tensors are allowed where
// they can't belong to the model (those of other modalities, a head beside tied
// embeddings): a bias, or a layer too many, would be left out of the arithmetic
// without a word.
func (c *Checkpoint) Match(config Config) error {
	tensors := config.Tensors()
	if err := c.match(tensors); err != nil {
		return err
	}
	known := map[string]bool{HeadName: true}
	for _, t := range tensors {
		known[t.Name] = true
	}
	for _, name := range c.Names() {
		// Angles of RoPE, which old checkpoints store and rope_theta gives.
		idle := known[name] || strings.HasSuffix(name, ".rotary_emb.inv_freq")
		if !idle && (strings.HasPrefix(name, "model.") || strings.HasPrefix(name, "lm_head.")) {
			return fmt.Errorf("tensor %q has no place in the model of the config: %w", name, ErrUnsupported)
		}
	}
	return nil
}

// Exactly checks that the checkpoint has these tensors and no others.
func (c *Checkpoint) Exactly(tensors []Tensor) error {
	if err := c.match(tensors); err != nil {
		return err
	}
	want := map[string]bool{}
	for _, t := range tensors {
		want[t.Name] = true
	}
	for _, name := range c.Names() {
		if !want[name] {
			return fmt.Errorf("tensor %q is not of this model: %w", name, ErrFormat)
		}
	}
	return nil
}

func (c *Checkpoint) match(tensors []Tensor) error {
	for _, want := range tensors {
		got, ok := c.Tensor(want.Name)
		switch {
		case !ok:
			return fmt.Errorf("tensor %q: %w", want.Name, ErrMissing)
		case !slices.Equal(got.Shape, want.Shape):
			return fmt.Errorf("tensor %q has shape %v, the config needs %v: %w", want.Name, got.Shape, want.Shape, ErrFormat)
		case got.DType != F32 && got.DType != BF16 && got.DType != F16:
			return fmt.Errorf("tensor %q is stored as %s: %w", want.Name, got.DType, ErrUnsupported)
		}
	}
	return nil
}
