package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// fields reads one JSON object field by field and keeps the first error. A
// field that is absent or null has its default.
type fields struct {
	raw   map[string]json.RawMessage
	asked map[string]bool // names that somebody looked for
	err   error
}

// find returns the named field as it is written.
func (f *fields) find(name string) (json.RawMessage, bool) {
	if f.asked == nil {
		f.asked = map[string]bool{}
	}
	f.asked[name] = true
	raw, ok := f.raw[name]
	return raw, ok
}

// get decodes the named field into v; false when it is absent or null.
func (f *fields) get(name string, v any) bool {
	raw, ok := f.find(name)
	if !ok || string(raw) == "null" || f.err != nil {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		f.fail(ErrFormat, "%s is %s: %v", name, short(raw), err)
		return false
	}
	return true
}

func (f *fields) fail(kind error, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kind)
	}
}

// short cuts foreign text to what fits on an error line.
func short(raw []byte) string {
	if len(raw) > 60 {
		return string(raw[:60]) + "..."
	}
	return string(raw)
}

func (f *fields) text(name, fallback string) string {
	f.get(name, &fallback)
	return fallback
}

func (f *fields) flag(name string, fallback bool) bool {
	f.get(name, &fallback)
	return fallback
}

func (f *fields) real(name string, fallback float64) float64 {
	f.get(name, &fallback)
	return fallback
}

// size reads a positive size; fallback 0 means that the field must be there.
func (f *fields) size(name string, fallback int) int {
	n := fallback
	if !f.get(name, &n) && fallback == 0 {
		f.fail(ErrFormat, "%s is absent", name)
	}
	if f.err == nil && (n < 1 || n > maxSize) {
		f.fail(ErrFormat, "%s is %d, not in 1 to %d", name, n, maxSize)
	}
	return n
}

// ids reads one id or a list of them, each below vocab; nil for none.
func (f *fields) ids(name string, vocab int) []int32 {
	raw, ok := f.find(name)
	if !ok || f.err != nil {
		return nil
	}
	var ids []int32
	if len(raw) > 0 && raw[0] == '[' {
		f.get(name, &ids)
	} else {
		var id int32
		if f.get(name, &id) {
			ids = []int32{id}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			f.fail(ErrFormat, "%s names id %d of a vocabulary of %d", name, id, vocab)
		}
	}
	return ids
}

// dtype reads torch_dtype or its newer name dtype.
func (f *fields) dtype() DType {
	name := f.text("dtype", f.text("torch_dtype", "float32"))
	for d, spelled := range dtypeNames {
		if spelled == name {
			return d
		}
	}
	f.fail(ErrUnsupported, "torch_dtype %q", name)
	return ""
}

// ropeTheta reads the old spelling (rope_theta, rope_scaling) and the new one
// (rope_parameters). Only plain RoPE over the whole head is computed.
func (f *fields) ropeTheta() float64 {
	theta := f.real("rope_theta", 10000)
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		var raw map[string]json.RawMessage
		if !f.get(name, &raw) {
			continue
		}
		rope := &fields{raw: raw}
		kind := rope.text("rope_type", rope.text("type", "default"))
		if kind != "default" {
			f.fail(ErrUnsupported, "%s type %q", name, kind)
		}
		theta = rope.real("rope_theta", theta)
		if part := rope.real("partial_rotary_factor", 1); part != 1 {
			f.fail(ErrUnsupported, "%s partial_rotary_factor %v", name, part)
		}
		f.unknown(name, raw)
		if rope.err != nil {
			f.fail(ErrFormat, "%s: %v", name, rope.err)
		}
	}
	return theta
}

// unknown refuses the first unknown field of a RoPE object, in name order.
func (f *fields) unknown(name string, raw map[string]json.RawMessage) {
	for _, key := range sortedKeys(raw) {
		switch key {
		case "rope_type", "type", "rope_theta", "partial_rotary_factor":
		default:
			f.fail(ErrUnsupported, "%s field %q", name, key)
			return
		}
	}
}

// layers reads layer_types, n times full attention when it is absent.
func (f *fields) layers(n int) []LayerKind {
	if n < 1 || n > maxLayers {
		f.fail(ErrFormat, "num_hidden_layers is %d, not in 1 to %d", n, maxLayers)
		return nil
	}
	layers := LayersOf(FullAttention, n)
	var named []LayerKind
	if !f.get("layer_types", &named) {
		return layers
	}
	if len(named) != n {
		f.fail(ErrFormat, "%d layer_types for %d layers", len(named), n)
	}
	for i, kind := range named {
		if kind != FullAttention {
			f.fail(ErrUnsupported, "layer_types[%d] %q", i, kind)
		}
	}
	return named
}

// refuse names the first field that would change the arithmetic.
func (f *fields) refuse() {
	for _, name := range []string{"attention_bias", "mlp_bias", "qkv_bias", "use_bias", "rope_interleaved", "use_sliding_window"} {
		if f.flag(name, false) {
			f.fail(ErrUnsupported, "%s true", name)
		}
	}
	for _, name := range []string{"attention_dropout", "hidden_dropout", "resid_pdrop"} {
		if p := f.real(name, 0); p != 0 {
			f.fail(ErrUnsupported, "%s %v", name, p)
		}
	}
	if part := f.real("partial_rotary_factor", 1); part != 1 {
		f.fail(ErrUnsupported, "partial_rotary_factor %v", part)
	}
	for _, name := range []string{"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling", "embedding_multiplier",
		"residual_multiplier", "attention_multiplier", "clip_qkv", "no_rope_layers", "num_experts", "num_local_experts", "use_mup"} {
		switch raw, _ := f.find(name); string(raw) {
		case "", "null", "false", "0", "[]":
		default:
			f.fail(ErrUnsupported, "%s %s", name, short(raw))
		}
	}
	if act := f.text("hidden_act", "silu"); act != "silu" {
		f.fail(ErrUnsupported, "hidden_act %q", act)
	}
	for _, name := range []string{"quantization_config", "text_config", "vision_config"} {
		if raw, ok := f.find(name); ok && string(raw) != "null" {
			f.fail(ErrUnsupported, "%s", name)
		}
	}
}

// idle are fields of a config.json that say nothing about the arithmetic of the
// families here: where it comes from, how it was initialised, how it generates,
// what a library does around it.
var idle = []string{"architectures", "transformers_version", "tokenizer_class", "transformers.js_config", "unsloth_version", "unsloth_fixed",
	"bos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "initializer_range", "use_cache", "pretraining_tp",
	"is_llama_config", "sliding_window", "max_window_layers", "torchscript", "use_bfloat16", "is_decoder", "is_encoder_decoder",
	"tie_encoder_decoder", "add_cross_attention", "chunk_size_feed_forward", "return_dict", "output_attentions", "output_hidden_states",
	"output_scores", "return_dict_in_generate", "task_specific_params", "finetuning_task", "problem_type", "prefix", "id2label", "label2id",
	"num_labels", "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
	"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
	"encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "exponential_decay_length_penalty", "suppress_tokens",
	"begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "tf_legacy_loss"}

// strangers refuses the first field, in name order, that was neither read nor
// is idle: what it would do to the model is not guessed. One that switches
// something off, and names that begin with an underscore, are let be.
func (f *fields) strangers() {
	for _, name := range sortedKeys(f.raw) {
		if f.asked[name] || slices.Contains(idle, name) || strings.HasPrefix(name, "_") {
			continue
		}
		switch raw := f.raw[name]; string(bytes.Join(bytes.Fields(raw), nil)) {
		case "null", "false", `""`, "[]", "{}":
		default:
			f.fail(ErrUnsupported, "unknown field %q: %s", name, short(raw))
			return
		}
	}
}
