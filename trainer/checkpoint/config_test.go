package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const smollm2 = `{"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":1,
"eos_token_id":2,"hidden_act":"silu","hidden_size":576,"initializer_range":0.041,"intermediate_size":1536,
"is_llama_config":true,"max_position_embeddings":8192,"mlp_bias":false,"model_type":"llama","num_attention_heads":9,
"num_hidden_layers":30,"num_key_value_heads":3,"pad_token_id":2,"pretraining_tp":1,"rms_norm_eps":1e-05,
"rope_interleaved":false,"rope_scaling":null,"rope_theta":100000,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
"transformers_version":"4.42.3","use_cache":true,"vocab_size":49152}`

const qwen3 = `{"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","attention_bias":false,"attention_dropout":0.0,
"eos_token_id":[151645,151643],"head_dim":128,"hidden_act":"silu","hidden_size":1024,"intermediate_size":3072,
"max_position_embeddings":40960,"max_window_layers":28,"num_attention_heads":16,"num_hidden_layers":28,
"num_key_value_heads":8,"rms_norm_eps":1e-06,"rope_parameters":{"rope_type":"default","rope_theta":1000000.0},
"sliding_window":null,"tie_word_embeddings":true,"dtype":"bfloat16","use_sliding_window":false,"vocab_size":151936}`

// Ensure that the published models have the tensors and parameters of
// spec/models.md sections 2 and 3.
func TestPublishedShapes(t *testing.T) {
	cases := []struct {
		name, text          string
		tensors, parameters int
	}{
		{"SmolLM2-135M", smollm2, 272, 134_515_008},
		{"Qwen3-0.6B", qwen3, 310, 596_049_920},
		{"Qwen3-4B", replace(t, qwen3, `"hidden_size":1024`, `"hidden_size":2560`, `"intermediate_size":3072`, `"intermediate_size":9728`,
			`"num_attention_heads":16`, `"num_attention_heads":32`, `"num_hidden_layers":28`, `"num_hidden_layers":36`), 398, 4_022_468_096},
		{"SmolLM2-1.7B", replace(t, smollm2, `576`, `2048`, `1536`, `8192`, `"num_attention_heads":9`, `"num_attention_heads":32`,
			`"num_key_value_heads":3,`, ``, `"num_hidden_layers":30`, `"num_hidden_layers":24`), 218, 1_711_376_384},
	}
	for _, c := range cases {
		config, err := ParseConfig([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := len(config.Tensors()); got != c.tensors {
			t.Errorf("%s: %d tensors, want %d", c.name, got, c.tensors)
		}
		if got := config.Parameters(); got != c.parameters {
			t.Errorf("%s: %d parameters, want %d", c.name, got, c.parameters)
		}
	}
}

func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %s in the config", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// Ensure that both spellings of every field are read.
func TestParseConfig(t *testing.T) {
	got, err := ParseConfig([]byte(smollm2))
	want := Config{Family: Llama, Vocab: 49152, Hidden: 576, Intermediate: 1536, Heads: 9, KVHeads: 3, HeadDim: 64,
		Layers: LayersOf(FullAttention, 30), Tied: true, RMSEps: 1e-5, RopeTheta: 1e5, MaxPositions: 8192, EOS: []int32{2}, DType: BF16}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("SmolLM2: %+v, %v", got, err)
	}
	got, err = ParseConfig([]byte(qwen3))
	want = Config{Family: Qwen3, Vocab: 151936, Hidden: 1024, Intermediate: 3072, Heads: 16, KVHeads: 8, HeadDim: 128,
		Layers: LayersOf(FullAttention, 28), QKNorm: true, Tied: true, RMSEps: 1e-6, RopeTheta: 1e6, MaxPositions: 40960,
		EOS: []int32{151645, 151643}, DType: BF16}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Qwen3: %+v, %v", got, err)
	}
}

// Ensure that fields without influence on the arithmetic, and such that switch something
// off, change nothing.
func TestIdleFields(t *testing.T) {
	want, err := ParseConfig([]byte(smollm2))
	if err != nil {
		t.Fatal(err)
	}
	more := `"use_cache":true,"_name_or_path":"x","_commit_hash":"y","transformers.js_config":{"dtype":"q4"},"id2label":{"0":"a"},"chunk_size_feed_forward":0,
"temperature":0.7,"attn_scale":null,"parallel_residual":false,"layers_of_another_kind":[ ],"note":""`
	got, err := ParseConfig([]byte(replace(t, smollm2, `"use_cache":true`, more)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Ensure that what is written reads back as the same config.
func TestConfigRoundTrip(t *testing.T) {
	for _, text := range []string{smollm2, qwen3} {
		want, err := ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := WriteConfig(filepath.Join(dir, ConfigFile), want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConfig(os.DirFS(dir))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v\nwant %+v", got, err, want)
		}
	}
}

// Ensure that the eos ids of generation_config.json win.
func TestGenerationConfig(t *testing.T) {
	for text, want := range map[string][]int32{
		`{"eos_token_id":[5,6],"temperature":0.6}`: {5, 6}, `{"eos_token_id":7}`: {7}, `{}`: {2}, `{"eos_token_id":null}`: {2},
	} {
		c, err := ReadConfig(folder(map[string][]byte{ConfigFile: []byte(smollm2), GenerationFile: []byte(text)}))
		if err != nil || !slices.Equal(c.EOS, want) {
			t.Errorf("%s: %v, %v", text, c.EOS, err)
		}
	}
	for _, text := range []string{`{"eos_token_id":49152}`, `{"eos_token_id":"x"}`, `[`} {
		if _, err := ReadConfig(folder(map[string][]byte{ConfigFile: []byte(smollm2), GenerationFile: []byte(text)})); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Ensure that what is not computed is refused and named.
func TestConfigRefusesByName(t *testing.T) {
	cases := []struct {
		old, new string
		kind     error
		says     string
	}{
		{`"model_type":"qwen3"`, `"model_type":"qwen3_5"`, ErrUnsupported, "qwen3_5"},
		{`"model_type":"qwen3",`, ``, ErrUnsupported, "model_type"},
		{`"hidden_act":"silu"`, `"hidden_act":"gelu"`, ErrUnsupported, "gelu"},
		{`"attention_bias":false`, `"attention_bias":true`, ErrUnsupported, "attention_bias"},
		{`"attention_bias":false`, `"mlp_bias":true`, ErrUnsupported, "mlp_bias"},
		{`"attention_bias":false`, `"final_logit_softcapping":30.0`, ErrUnsupported, "final_logit_softcapping 30.0"},
		{`"attention_bias":false`, `"no_rope_layers":[1,0]`, ErrUnsupported, "no_rope_layers"},
		{`"attention_bias":false`, `"num_experts":8`, ErrUnsupported, "num_experts"},
		{`"attention_bias":false`, `"rope_interleaved":true`, ErrUnsupported, "rope_interleaved"},
		{`"attention_dropout":0.0`, `"attention_dropout":0.1`, ErrUnsupported, "attention_dropout"},
		{`"use_sliding_window":false`, `"use_sliding_window":true`, ErrUnsupported, "use_sliding_window"},
		{`"rope_type":"default"`, `"rope_type":"yarn"`, ErrUnsupported, "yarn"},
		{`"rope_type":"default"`, `"rope_type":"default","factor":4`, ErrUnsupported, "factor"},
		{`"rope_type":"default"`, `"rope_type":"default","partial_rotary_factor":0.25`, ErrUnsupported, "partial_rotary_factor"},
		{`"sliding_window":null`, `"attn_scale":2.0`, ErrUnsupported, `unknown field "attn_scale": 2.0`},
		{`"sliding_window":null`, `"auto_map":{"AutoModel":"modeling.Mine"}`, ErrUnsupported, "auto_map"},
		{`"sliding_window":null`, `"parallel_residual":true`, ErrUnsupported, "parallel_residual"},
		{`"sliding_window":null`, `"rope_scaling":{"type":"linear","factor":2}`, ErrUnsupported, "linear"},
		{`"sliding_window":null`, `"layer_types":["linear_attention"]`, ErrFormat, "layer_types"},
		{`"sliding_window":null`, `"quantization_config":{"bits":4}`, ErrUnsupported, "quantization_config"},
		{`"dtype":"bfloat16"`, `"dtype":"int8"`, ErrUnsupported, "int8"},
		{`"hidden_size":1024`, `"hidden_size":0`, ErrFormat, "hidden_size"},
		{`"hidden_size":1024`, `"hidden_size":1024.5`, ErrFormat, "hidden_size"},
		{`"hidden_size":1024`, `"Hidden_Size":1024`, ErrFormat, "hidden_size is absent"},
		{`"head_dim":128,`, ``, ErrFormat, "head_dim"},
		{`"head_dim":128`, `"head_dim":127`, ErrFormat, "odd"},
		{`"num_key_value_heads":8`, `"num_key_value_heads":7`, ErrFormat, "kv heads"},
		{`"num_hidden_layers":28`, `"num_hidden_layers":1000000`, ErrFormat, "num_hidden_layers"},
		{`"vocab_size":151936`, `"vocab_size":151000`, ErrFormat, "eos_token_id"},
		{`"vocab_size":151936`, `"vocab_size":99999999999`, ErrFormat, "vocab_size"},
		{`"rms_norm_eps":1e-06`, `"rms_norm_eps":-1`, ErrFormat, "rms_norm_eps"},
		{`"rope_theta":1000000.0`, `"rope_theta":0`, ErrFormat, "rope_theta"},
		{`{"arch`, `{}{"arch`, ErrFormat, "after the object"},
	}
	for _, c := range cases {
		_, err := ParseConfig([]byte(replace(t, qwen3, c.old, c.new)))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %v naming %q", c.new, err, c.kind, c.says)
		}
	}
	layers := replace(t, qwen3, `"num_hidden_layers":28`, `"num_hidden_layers":1,"layer_types":["linear_attention"]`)
	if _, err := ParseConfig([]byte(layers)); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "linear_attention") {
		t.Errorf("hybrid layer: %v", err)
	}
}

// Ensure that a checkpoint must hold what its config asks for.
func TestMatch(t *testing.T) {
	config := Config{Family: Qwen3, Vocab: 8, Hidden: 4, Intermediate: 6, Heads: 2, KVHeads: 1, HeadDim: 2,
		Layers: LayersOf(FullAttention, 2), QKNorm: true, RMSEps: 1e-6, RopeTheta: 1e4, MaxPositions: 16, DType: F32}
	open := func(change func(i int, tensor *Tensor) bool) *Checkpoint {
		var list []Item
		for i, tensor := range config.Tensors() {
			if change(i, &tensor) {
				list = append(list, Values(tensor.Name, tensor.DType, tensor.Shape, make([]float32, tensor.Elements())))
			}
		}
		c, err := Open(folder(map[string][]byte{WeightsFile: encoded(t, list)}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := open(func(int, *Tensor) bool { return true }).Match(config); err != nil {
		t.Fatal(err)
	}
	if err := open(func(i int, _ *Tensor) bool { return i != 5 }).Match(config); !errors.Is(err, ErrMissing) {
		t.Fatalf("a missing tensor: %v", err)
	}
	for _, extra := range []string{"model.layers.2.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.bias", "model.norm.bias", "lm_head.bias"} {
		list := []Item{Values(extra, F32, []int{1}, []float32{0})}
		for _, tensor := range config.Tensors() {
			list = append(list, Values(tensor.Name, tensor.DType, tensor.Shape, make([]float32, tensor.Elements())))
		}
		c, err := Open(folder(map[string][]byte{WeightsFile: encoded(t, list)}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Match(config); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), extra) {
			t.Errorf("with %s: %v", extra, err)
		}
	}
	transposed := open(func(i int, tensor *Tensor) bool { slices.Reverse(tensor.Shape); return true })
	if err := transposed.Match(config); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), EmbedName) {
		t.Fatalf("transposed tensors: %v", err)
	}
}

// FuzzConfig: a foreign config is refused with a typed error, or fits itself
// and survives being written.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(smollm2))
	f.Add([]byte(qwen3))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		second, err := ParseConfig(again)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, second) {
			t.Fatalf("%+v became %+v", c, second)
		}
	})
}
