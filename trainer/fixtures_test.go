package trainer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// alphabet is a tokenizer of 29 letters and three control tokens, in the vocabulary of 32
// that the fixtures have.
func alphabet() []byte {
	vocab := map[string]int{}
	for i, r := range "abcdefghijklmnopqrstuvwxyz.,!" {
		vocab[string(r)] = i
	}
	text, _ := json.Marshal(map[string]any{"version": "1.0",
		"added_tokens": []map[string]any{{"id": 29, "content": "<|endoftext|>", "special": true},
			{"id": 30, "content": "<|im_start|>", "special": true}, {"id": 31, "content": "<|im_end|>", "special": true}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel"}, "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	return text
}

// fixture is a model of the reference library, and what that library computed with it.
type fixture struct {
	Config  json.RawMessage
	Batches [2][]struct {
		IDs     []int32
		Weights []float32
	}
	Losses, Norms [2]float64
	Adam          struct{ LR, Decay, Eps float64 }
	Prompt        []int32
	Greedy        []int32

	files    fstest.MapFS           // the model's folder
	expected *checkpoint.Checkpoint // tensors logits.N, grad.NAME, after.NAME
}

var models = []string{"llama-tied", "llama-untied", "qwen3-tied", "qwen3-untied"}

func readFixture(t *testing.T, name string) fixture {
	t.Helper()
	read := func(suffix string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "models", name+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var f fixture
	if err := json.Unmarshal(read(".json"), &f); err != nil {
		t.Fatal(err)
	}
	f.files = fstest.MapFS{checkpoint.ConfigFile: {Data: f.Config}, checkpoint.WeightsFile: {Data: read(".safetensors")}, tokenizerFile: {Data: alphabet()}}
	var err error
	if f.expected, err = checkpoint.Open(fstest.MapFS{checkpoint.WeightsFile: {Data: read(".expected.safetensors")}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.expected.Close() })
	return f
}

func (f fixture) rows(batch int) []Row {
	var rows []Row
	for _, r := range f.Batches[batch] {
		rows = append(rows, Row{IDs: r.IDs, Weights: r.Weights})
	}
	return rows
}

func (f fixture) floats(t *testing.T, name string) []float32 {
	t.Helper()
	x, err := f.expected.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// open loads the fixture's model with the optimizer that the reference used.
func (f fixture) open(t *testing.T) *Trainer {
	t.Helper()
	adam := DefaultAdamW()
	adam.LR, adam.Decay, adam.Eps = f.Adam.LR, f.Adam.Decay, f.Adam.Eps
	tr, err := Open(f.files, cpu(t, 2), Options{Adam: adam})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// Ensure that logits are those of the reference library at every position.
func TestLogitsAsReference(t *testing.T) {
	for _, name := range models {
		f := readFixture(t, name)
		tr := f.open(t)
		vocab := tr.Config().Vocab
		for i, r := range f.Batches[0] {
			row := Row{IDs: append(slices.Clone(r.IDs), 0), Weights: append(make([]float32, 1), slices.Repeat([]float32{1}, len(r.IDs))...)}
			batches, _, _, err := tr.batches([]Row{row})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.micro(pass{model: tr.model, micro: batches[0], scale: 1}); err != nil {
				t.Fatal(err)
			}
			got := host(t, tr.tape.logits.Slice(0, len(r.IDs)*vocab))
			if d := distance(f.floats(t, fmt.Sprintf("logits.%d", i)), got); !(d <= 1e-5) {
				t.Errorf("%s: logits of row %d differ by %g", name, i, d)
			}
		}
	}
}

// Ensure that the loss, every gradient and the weights after two steps of clipped AdamW
// are those of the reference library.
func TestTrainingAsReference(t *testing.T) {
	for _, name := range models {
		f := readFixture(t, name)
		tr := f.open(t)
		before := host(t, tr.model.params)
		for i := range f.Batches {
			step, err := tr.Step(t.Context(), f.rows(i), f.Adam.LR)
			if err != nil || step.Skipped {
				t.Fatalf("%s: %+v, %v", name, step, err)
			}
			if math.Abs(step.NLL-f.Losses[i]) > 1e-5*f.Losses[i] || math.Abs(step.GradNorm-f.Norms[i]) > 1e-4*f.Norms[i] {
				t.Errorf("%s: step %d: loss %v and norm %v, want %v and %v", name, i, step.NLL, step.GradNorm, f.Losses[i], f.Norms[i])
			}
			if i > 0 {
				continue
			}
			grads := host(t, tr.opt.grads)
			for _, tensor := range tr.model.layout.tensors {
				if d := distance(f.floats(t, "grad."+tensor.Name), tensor.of(grads)); !(d <= 1e-4) {
					t.Errorf("%s: gradient of %s differs by %g", name, tensor.Name, d)
				}
			}
		}
		after := host(t, tr.model.params)
		for _, tensor := range tr.model.layout.tensors {
			want, got, start := f.floats(t, "after."+tensor.Name), tensor.of(after), tensor.of(before)
			for j := range want { // compare what the steps changed
				want[j] -= start[j]
				got[j] -= start[j]
			}
			if d := distance(want, got); !(d <= 1e-4) {
				t.Errorf("%s: change of %s in two steps differs by %g", name, tensor.Name, d)
			}
		}
	}
}

// Ensure that greedy generation continues a prompt as the reference library does.
func TestGreedyAsReference(t *testing.T) {
	for _, name := range models {
		f := readFixture(t, name)
		tr := f.open(t)
		c, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: f.Prompt, MaxTokens: len(f.Greedy)})
		if err != nil || !slices.Equal(c.Sampled, f.Greedy) {
			t.Errorf("%s: %v, %v, want %v", name, c.Sampled, err, f.Greedy)
		}
	}
}

// Ensure that the published SmolLM2-135M-Instruct, opened from its GGUF file, gives the
// logits and the greedy reply of the reference library.
func TestSmolLM2AsReference(t *testing.T) {
	path := smollm2Path(t)
	var golden struct {
		Prompt, Greedy []int32
		Reply          string
		Top            struct {
			IDs    []int32
			Logits []float64
		}
	}
	b, err := os.ReadFile(filepath.Join("testdata", "gguf", "smollm2.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	files, err := checkpoint.Folder(path)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Open(files, cpu(t, 2), Options{Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	c, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: golden.Prompt, MaxTokens: len(golden.Greedy) + 4})
	if err != nil || !slices.Equal(c.Sampled, golden.Greedy) || c.Text != strings.TrimSuffix(golden.Reply, "<|im_end|>") {
		t.Errorf("%v %q, %v, want %v %q", c.Sampled, c.Text, err, golden.Greedy, golden.Reply)
	}
	// Differences of log-probabilities are differences of logits.
	rows := make([]Row, len(golden.Top.IDs))
	for i, id := range golden.Top.IDs {
		rows[i] = Row{IDs: append(slices.Clone(golden.Prompt), id), Weights: append(make([]float32, len(golden.Prompt)), 1)}
	}
	scores, err := tr.Score(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		got, want := float64(scores[i][0]-scores[0][0]), golden.Top.Logits[i]-golden.Top.Logits[0]
		if math.Abs(got-want) > 1e-5*golden.Top.Logits[0] {
			t.Errorf("logit of %d is %v above the first, want %v", golden.Top.IDs[i], got, want)
		}
	}
}
