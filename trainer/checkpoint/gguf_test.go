package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

var ggufData = filepath.Join("..", "testdata", "gguf")

func readData(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(ggufData, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shown opens GGUF bytes as a model folder.
func shown(b []byte) (fs.FS, error) {
	return GGUF(folder(map[string][]byte{"m.gguf": b}), "m.gguf")
}

// Ensure that a GGUF file reads as the reference library reads it: the same
// names, shapes, row order and floats.
func TestGGUFAsReference(t *testing.T) {
	c, err := OpenDir(filepath.Join(ggufData, "tiny.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config, err := c.Config()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Match(config); err != nil {
		t.Fatal(err)
	}
	if config.Family != Llama || config.Tied || config.RMSEps != 1e-5 || config.HeadDim != 8 || !slices.Equal(config.EOS, []int32{2}) {
		t.Errorf("config %+v", config)
	}
	want, err := Open(renamedFS{os.DirFS(ggufData)})
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if len(want.Names()) != 18 {
		t.Fatalf("%d reference tensors", len(want.Names()))
	}
	for _, name := range want.Names() {
		expected, err := want.Float32(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Float32(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, expected) {
			t.Errorf("tensor %s differs from the reference", name)
		}
	}
}

// renamedFS shows the reference tensors under the name of a weights file.
type renamedFS struct{ fs.FS }

func (r renamedFS) Open(name string) (fs.File, error) {
	if name == WeightsFile {
		name = "tiny.safetensors"
	}
	return r.FS.Open(name)
}

// Ensure that the weights file that is shown has the same bytes wherever a
// read begins and ends, and from a file that can only be read from the front.
func TestGGUFReadAnywhere(t *testing.T) {
	tiny := readData(t, "tiny.gguf")
	fsys, err := shown(tiny)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := fs.ReadFile(fsys, WeightsFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(WeightsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		at := r.IntN(len(whole) + 8)
		b := make([]byte, r.IntN(300))
		n, err := f.(io.ReaderAt).ReadAt(b, int64(at))
		end := min(at+len(b), len(whole))
		if n != max(end-at, 0) || (err != nil) != (n < len(b)) || !bytes.Equal(b[:n], whole[min(at, end):end]) {
			t.Fatalf("%d bytes at %d: %d, %v", len(b), at, n, err)
		}
	}
	stream, err := GGUF(streamFS{folder(map[string][]byte{"m.gguf": tiny})}, "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := fs.ReadFile(stream, WeightsFile); err != nil || !bytes.Equal(again, whole) {
		t.Fatalf("streamed: %v", err)
	}
}

// Ensure that the folder that is shown is one, with no other files.
func TestGGUFFolder(t *testing.T) {
	fsys, err := shown(readData(t, "tiny.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{IndexFile, GenerationFile, "m.gguf"} {
		if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fsys.Open("../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("outside: %v", err)
	}
	for _, name := range []string{ConfigFile, TokenizerFile, TokenizerConfigFile, WeightsFile} {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := fs.Stat(fsys, name); err != nil || info.Size() != int64(len(b)) || info.Name() != name {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	b, err := fs.ReadFile(fsys, TokenizerConfigFile)
	if want := `{"tokenizer_class":"PreTrainedTokenizerFast","clean_up_tokenization_spaces":false,"bos_token":"<|im_start|>","eos_token":"<|im_end|>","chat_template":"{% for m in messages %}{{ m.content }}{% endfor %}"}`; err != nil || strings.TrimSpace(string(b)) != want {
		t.Errorf("%s, %v", b, err)
	}
	text, err := fs.ReadFile(fsys, TokenizerFile)
	if err != nil {
		t.Fatal(err)
	}
	loadsElsewhere(t, text)
	tok, err := tokenizer.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	// The padding row at the end has no token; " the" is merged; "1" stands alone.
	the, _ := tok.ID("<tool>")
	if got := tok.Encode("<tool> the"); tok.Size() != 263 || !slices.Equal(got, []int32{the, 261}) {
		t.Errorf("%d tokens, ids %v", tok.Size(), got)
	}
	if id, ok := tok.ID("<|im_end|>"); id != 2 || !tok.Special(id) || !ok || tok.Special(the) {
		t.Errorf("control tokens: %v %v", id, ok)
	}
}

// loadsElsewhere checks what the reference library insists on in a tokenizer.json, which
// read without it: all fields of added tokens and of byte levels, and added tokens in the
// vocabulary where it would number them otherwise (seen with tokenizers 0.23.3).
func loadsElsewhere(t *testing.T, text []byte) {
	t.Helper()
	type part struct {
		Type   string
		Parts  []part `json:"pretokenizers"`
		Prefix *bool  `json:"add_prefix_space"`
		Trim   *bool  `json:"trim_offsets"`
	}
	var file struct {
		Added []map[string]any `json:"added_tokens"`
		Model struct{ Vocab map[string]int }
		Pre   part `json:"pre_tokenizer"`
		Dec   part `json:"decoder"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, id := range file.Model.Vocab {
		last = max(last, id)
	}
	if len(file.Added) == 0 {
		t.Error("no added tokens")
	}
	for _, a := range file.Added {
		id := int(a["id"].(float64))
		if at, ok := file.Model.Vocab[a["content"].(string)]; ok != (id < last) || ok && at != id {
			t.Errorf("%v is %d in a vocabulary up to %d", a, at, last)
		}
		for _, field := range []string{"single_word", "lstrip", "rstrip", "normalized", "special"} {
			if _, ok := a[field]; !ok {
				t.Errorf("%v has no %s", a, field)
			}
		}
	}
	for _, p := range append(file.Pre.Parts, file.Dec) {
		if p.Type == "ByteLevel" && (p.Prefix == nil || p.Trim == nil) {
			t.Errorf("%+v lacks a field", p)
		}
	}
}

// Ensure that a path may be a GGUF file, a folder with one, or a folder in
// Hugging Face layout, and that doubt is refused.
func TestFolder(t *testing.T) {
	tiny := readData(t, "tiny.gguf")
	dir := t.TempDir()
	put := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, path), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("a.gguf", tiny)
	for _, path := range []string{dir, filepath.Join(dir, "a.gguf")} {
		c, err := OpenDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Config(); err != nil || len(c.Names()) != 21 {
			t.Errorf("%s: %d tensors, %v", path, len(c.Names()), err)
		}
		c.Close()
	}
	put("b.gguf", tiny)
	if _, err := OpenDir(dir); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "2 GGUF files") {
		t.Errorf("two files: %v", err)
	}
	put(ConfigFile, []byte(qwen3))
	if _, err := OpenDir(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), WeightsFile) {
		t.Errorf("a folder with a config: %v", err)
	}
	if _, err := OpenDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such path: %v", err)
	}
	put("c.gguf", []byte("GGUX"))
	if _, err := OpenDir(filepath.Join(dir, "c.gguf")); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "c.gguf") {
		t.Errorf("no GGUF file: %v", err)
	}
}

// Ensure that what metadata asks for and is not computed is refused by name.
func TestGGUFRefusesByName(t *testing.T) {
	tiny := readData(t, "tiny.gguf")
	u32 := func(key string, from, to uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			mark := binary.LittleEndian.AppendUint32([]byte(key), 4)
			return swap(t, b, binary.LittleEndian.AppendUint32(slices.Clone(mark), from), binary.LittleEndian.AppendUint32(mark, to))
		}
	}
	text := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte { return swap(t, b, []byte(from), []byte(to)) }
	}
	cases := []struct {
		name   string
		change func([]byte) []byte
		kind   error
		says   string
	}{
		{"architecture", text("\x05\x00\x00\x00\x00\x00\x00\x00llama", "\x05\x00\x00\x00\x00\x00\x00\x00gemma"), ErrUnsupported, "gemma"},
		{"unknown key", text("llama.rope.freq_base", "llama.rope.freq_vase"), ErrUnsupported, "freq_vase"},
		{"missing size", text("llama.embedding_length", "rlama.embedding_length"), ErrFormat, "embedding_length is absent"},
		{"zero size", u32("llama.feed_forward_length", 32, 0), ErrFormat, "feed_forward_length is 0"},
		{"absurd layers", u32("llama.block_count", 2, 1<<20), ErrFormat, "block_count"},
		{"partial rotary", u32("llama.rope.dimension_count", 8, 4), ErrUnsupported, "dimension_count"},
		{"other value heads", u32("llama.attention.value_length", 8, 16), ErrUnsupported, "value_length"},
		{"vocabulary", u32("llama.vocab_size", 264, 265), ErrFormat, "vocab_size is 265"},
		{"eos outside", u32("tokenizer.ggml.eos_token_id", 2, 264), ErrFormat, "eos_token_id"},
		{"bos outside", u32("tokenizer.ggml.bos_token_id", 1, 264), ErrFormat, "bos_token_id"},
		{"heads do not fit", u32("llama.attention.head_count", 4, 2), ErrFormat, "attn_q"},
		{"kv heads", u32("llama.attention.head_count_kv", 2, 3), ErrFormat, "kv heads"},
		{"tokenizer model", text("\x04\x00\x00\x00\x00\x00\x00\x00gpt2", "\x04\x00\x00\x00\x00\x00\x00\x00bert"), ErrUnsupported, "bert"},
		{"pre-tokenizer", text("\x06\x00\x00\x00\x00\x00\x00\x00smollm", "\x06\x00\x00\x00\x00\x00\x00\x00falcon"), ErrUnsupported, "falcon"},
		{"no merges", text("tokenizer.ggml.merges", "tokenizer.ggml.surges"), ErrMissing, "merges"},
		{"no tokens", text("tokenizer.ggml.tokens", "tokenizer.ggml.spoken"), ErrMissing, "tokens"},
		{"no types", text("tokenizer.ggml.token_type", "tokenizer.ggml.broken_typ"), ErrMissing, "token_type"},
		{"token twice", text("\x01\x00\x00\x00\x00\x00\x00\x00a", "\x01\x00\x00\x00\x00\x00\x00\x00b"), ErrFormat, `both "b"`},
		{"missing tensor", text("blk.1.ffn_up.weight", "blk.1.ffn_op.weight"), ErrMissing, "blk.1.ffn_up.weight"},
		{"tensor too many", text("\x0d\x00\x00\x00\x00\x00\x00\x00output.weight", "\x0d\x00\x00\x00\x00\x00\x00\x00rope_freqs.wt"), ErrUnsupported, "rope_freqs"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := shown(c.change(slices.Clone(tiny)))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "m.gguf") {
				t.Fatalf("error %v, want %v naming %q", err, c.kind, c.says)
			}
		})
	}
}

// swap replaces the only place of old, by as many bytes.
func swap(t *testing.T, b, old, by []byte) []byte {
	t.Helper()
	if n := bytes.Count(b, old); n != 1 || len(old) != len(by) {
		t.Fatalf("%q is there %d times", old, n)
	}
	return bytes.Replace(b, old, by, 1)
}

// Ensure that a file that changes under an open folder is noticed.
func TestGGUFChanged(t *testing.T) {
	tiny := readData(t, "tiny.gguf")
	files := folder(map[string][]byte{"m.gguf": tiny})
	fsys, err := GGUF(files, "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	files["m.gguf"] = &fstest.MapFile{Data: tiny[:len(tiny)-1]}
	if _, err := fsys.Open(WeightsFile); err == nil || !strings.Contains(err.Error(), "m.gguf") {
		t.Fatalf("error %v", err)
	}
}

// FuzzGGUF: a foreign file is refused with a typed error, or is a folder whose
// config, weights and tokenizer hold together as far as this package says.
func FuzzGGUF(f *testing.F) {
	tiny := readData(f, "tiny.gguf")
	f.Add(tiny)
	f.Add(tiny[:len(tiny)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys, err := shown(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrMissing) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		c, err := Open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		config, err := c.Config()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Match(config); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.Names() {
			if _, err := c.Float32(name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// smollm2Path finds the real model: WHALE_SMOLLM2, else models/ of this
// repository, where bench/runs/fetch_smollm2.sh puts it.
func smollm2Path(t testing.TB) string {
	t.Helper()
	path := os.Getenv("WHALE_SMOLLM2")
	if path == "" {
		path = filepath.Join("..", "..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no SmolLM2-135M (%v); run bench/runs/fetch_smollm2.sh or set WHALE_SMOLLM2", err)
	}
	return path
}

// Ensure that the published SmolLM2-135M-Instruct file reads as the reference
// library reads it: shape, every tensor by samples and sum, tokenizer ids.
func TestSmolLM2(t *testing.T) {
	var golden struct {
		Texts []struct {
			Text string
			IDs  []int32
		}
		Weights []struct {
			Name   string
			At     []int
			Values []float32
			Sum    float64
		}
	}
	path := smollm2Path(t)
	if err := json.Unmarshal(readData(t, "smollm2.golden.json"), &golden); err != nil {
		t.Fatal(err)
	}
	c, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Config()
	want, _ := ParseConfig([]byte(smollm2))
	want.DType = F32
	if err != nil || len(got.Tensors()) != 272 || got.Parameters() != want.Parameters() || got.RopeTheta != want.RopeTheta || got.RMSEps != want.RMSEps || !got.Tied {
		t.Errorf("config %+v, %v", got, err)
	}
	if len(golden.Weights) != 272 || len(golden.Texts) < 10 {
		t.Fatalf("%d weights and %d texts in the golden file", len(golden.Weights), len(golden.Texts))
	}
	for _, w := range golden.Weights {
		values, err := c.Float32(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range w.At {
			if values[at] != w.Values[i] {
				t.Errorf("%s[%d] is %v, want %v", w.Name, at, values[at], w.Values[i])
			}
		}
		sum := 0.0
		for _, x := range values {
			sum += float64(x)
		}
		if math.Abs(sum-w.Sum) > 1e-5*max(1, math.Abs(w.Sum)) {
			t.Errorf("%s sums to %v, want %v", w.Name, sum, w.Sum)
		}
	}
	text, err := c.ReadFile(TokenizerFile)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range golden.Texts {
		if ids := tok.Encode(g.Text); !slices.Equal(ids, g.IDs) {
			t.Errorf("%q: %v, want %v", g.Text, ids, g.IDs)
		}
	}
}
