package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// loraFixture is an adapter of the PEFT library on a model of the reference library.
type loraFixture struct {
	Base          string
	Losses, Norms [2]float64

	base     fixture
	folder   fs.FS
	expected *checkpoint.Checkpoint // logits.N, grad.NAME, after.NAME
}

func readLoRA(t *testing.T, name string) loraFixture {
	t.Helper()
	path := filepath.Join("testdata", "models", "lora-"+name)
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var f loraFixture
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	f.base, f.folder = readFixture(t, f.Base), os.DirFS(path)
	if f.expected, err = checkpoint.Open(renamed{os.DirFS(filepath.Dir(path)), "lora-" + name + ".expected.safetensors"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.expected.Close() })
	return f
}

func (f loraFixture) open(t *testing.T) *Trainer {
	t.Helper()
	adam := DefaultAdamW()
	adam.LR, adam.Decay, adam.Eps = f.base.Adam.LR, f.base.Adam.Decay, f.base.Adam.Eps
	tr, err := OpenAdapter(f.base.files, f.folder, cpu(t, 2), Options{Adam: adam})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func (f loraFixture) floats(t *testing.T, name string) []float32 {
	t.Helper()
	x, err := f.expected.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Ensure that a model with an adapter of PEFT has PEFT's logits, loss and gradients, and that
// two steps of AdamW change the adapter as there and the base not at all.
func TestAdapterAsReference(t *testing.T) {
	for _, name := range []string{"llama", "qwen3"} {
		f := readLoRA(t, name)
		tr := f.open(t)
		for i, r := range f.base.Batches[0] {
			got := logits(t, tr, r.IDs)
			if d := distance(f.floats(t, fmt.Sprintf("logits.%d", i)), got); !(d <= 1e-5) {
				t.Errorf("%s: logits of row %d differ by %g", name, i, d)
			}
		}
		base, before := host(t, tr.model.params), host(t, tr.model.adapters.params)
		for i := range f.base.Batches {
			step, err := tr.Step(t.Context(), f.base.rows(i), f.base.Adam.LR)
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
			for _, tensor := range tr.model.adapters.tensors {
				if d := distance(f.floats(t, "grad."+tensor.Name), tensor.of(grads)); !(d <= 1e-4) {
					t.Errorf("%s: gradient of %s differs by %g", name, tensor.Name, d)
				}
			}
		}
		after := host(t, tr.model.adapters.params)
		for _, tensor := range tr.model.adapters.tensors {
			want, got, start := f.floats(t, "after."+tensor.Name), tensor.of(after), tensor.of(before)
			for j := range want {
				want[j] -= start[j]
				got[j] -= start[j]
			}
			if d := distance(want, got); !(d <= 1e-4) {
				t.Errorf("%s: change of %s in two steps differs by %g", name, tensor.Name, d)
			}
		}
		if !slices.Equal(base, host(t, tr.model.params)) {
			t.Errorf("%s: the base changed", name)
		}
		if n := tr.opt.grads.Len(); n != tr.model.adapters.size {
			t.Errorf("%s: gradients of %d floats for adapters of %d", name, n, tr.model.adapters.size)
		}
	}
}

// logits of every position of a row.
func logits(t *testing.T, tr *Trainer, ids []int32) []float32 {
	t.Helper()
	row := Row{IDs: append(slices.Clone(ids), 0), Weights: append(make([]float32, 1), slices.Repeat([]float32{1}, len(ids))...)}
	batches, _, _, err := tr.batches([]Row{row})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.micro(pass{model: tr.model, micro: batches[0], scale: 1}); err != nil {
		t.Fatal(err)
	}
	return host(t, tr.tape.logits.Slice(0, len(ids)*tr.Config().Vocab))
}

// someLoRA gives a trainer's adapters values that are not zero.
func someLoRA(t *testing.T, tr *Trainer) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	x := make([]float32, tr.model.adapters.size)
	for _, tensor := range tr.model.adapters.tensors {
		for i := range tensor.of(x) {
			x[tensor.at+i] = float32(rng.NormFloat64() * 0.2)
		}
	}
	if err := tr.model.adapters.upload(tr.model, x); err != nil {
		t.Fatal(err)
	}
}

// Every gradient of adapters against finite differences of the double reference, whose
// weights have the adapters merged in.
func TestAdapterGradientsMatchFiniteDifferences(t *testing.T) {
	const h, alpha = 1e-5, 3.0
	dev := cpu(t, 1)
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		c := toy(family, family == checkpoint.Llama)
		tr := bare(t, c, dev, Options{LoRA: LoRA{Rank: 2, Alpha: alpha, Targets: []string{"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"}}})
		someLoRA(t, tr)
		rows := someRows(rand.New(rand.NewPCG(1, 2)), c.Vocab, 3, 9)
		if _, err := tr.Step(t.Context(), rows, 0); err != nil {
			t.Fatal(err)
		}
		a, grads := tr.model.adapters, host(t, tr.opt.grads)
		ref := newReference(c, tr.model.layout, host(t, tr.model.params))
		factors := make([]float64, a.size)
		for i, v := range host(t, a.params) {
			factors[i] = float64(v)
		}
		plain := map[string][]float64{}
		for name, w := range ref.weights {
			plain[name] = slices.Clone(w)
		}
		loss := func() float64 {
			for i := 0; i < len(a.tensors); i++ {
				A := a.tensors[i]
				for j := i + 1; j < len(a.tensors); j++ {
					B := a.tensors[j]
					name, ok := strings.CutSuffix(A.Name, ".lora_A.weight")
					if !ok || B.Name != name+".lora_B.weight" {
						continue
					}
					name = strings.TrimPrefix(name, "base_model.model.") + ".weight"
					for n := range B.Shape[0] {
						for m := range A.Shape[1] {
							sum := 0.0
							for r := range a.Rank {
								sum += factors[B.at+n*a.Rank+r] * factors[A.at+r*A.Shape[1]+m]
							}
							ref.weights[name][n*A.Shape[1]+m] = plain[name][n*A.Shape[1]+m] + alpha/2*sum
						}
					}
				}
			}
			return ref.loss(rows, 1)
		}
		rng := rand.New(rand.NewPCG(3, 3))
		for _, tensor := range a.tensors {
			for range 3 {
				i := tensor.at + rng.IntN(tensor.n)
				keep := factors[i]
				factors[i] = keep + h
				up := loss()
				factors[i] = keep - h
				want := (up - loss()) / (2 * h)
				factors[i] = keep
				if math.Abs(want-float64(grads[i])) > 1e-3*math.Abs(want)+2e-6 {
					t.Errorf("%s %s[%d]: gradient %g, finite difference %g", family, tensor.Name, i-tensor.at, grads[i], want)
				}
			}
		}
	}
}

// Ensure that a saved adapter is what PEFT writes: its tensors and, as far as they mean
// something here, its settings; and that what was saved goes on bit for bit.
func TestAdapterSavesAsPEFTAndResumes(t *testing.T) {
	f := readLoRA(t, "qwen3")
	tr := f.open(t)
	batch := sequencesOf(4, tr.Config().Vocab, 3)
	update(t, tr, batch)
	dir := filepath.Join(t.TempDir(), "state")
	id, err := tr.Save(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	open := func(dir fs.FS) *checkpoint.Checkpoint {
		c, err := checkpoint.Open(renamed{dir, checkpoint.AdapterFile})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	saved, theirs := open(os.DirFS(dir)), open(f.folder)
	if !slices.Equal(saved.Names(), theirs.Names()) {
		t.Errorf("tensors %v, PEFT has %v", saved.Names(), theirs.Names())
	}
	for _, name := range theirs.Names() {
		got, _ := saved.Tensor(name)
		want, _ := theirs.Tensor(name)
		if !slices.Equal(got.Shape, want.Shape) || got.DType != want.DType {
			t.Errorf("%s is %v %s, PEFT has %v %s", name, got.Shape, got.DType, want.Shape, want.DType)
		}
	}
	got, err := checkpoint.ReadAdapter(os.DirFS(dir))
	want, err2 := checkpoint.ReadAdapter(f.folder)
	if err != nil || err2 != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("settings %+v (%v), PEFT has %+v (%v)", got, err, want, err2)
	}
	if _, err := os.Stat(filepath.Join(dir, checkpoint.WeightsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the base was saved too: %v", err)
	}

	other := f.open(t)
	if err := other.Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := other.Policy().Weights(); got != id {
		t.Errorf("loaded weights are %s, saved were %s", got, id)
	}
	if a, b := update(t, tr, batch), update(t, other, batch); a.Weights != b.Weights || a.Weights == id {
		t.Errorf("the next step gives %s, after loading %s, before %s", a.Weights, b.Weights, id)
	}
	if !slices.Equal(host(t, tr.opt.m), host(t, other.opt.m)) || !slices.Equal(host(t, tr.opt.v), host(t, other.opt.v)) {
		t.Error("moments differ after loading")
	}
}

// Ensure that generation sees the adapters: after an update the learner agrees with what the
// policy reports, and the policy says something else than the base.
func TestPolicySeesAdapters(t *testing.T) {
	f := readLoRA(t, "llama")
	tr := f.open(t)
	adapter, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: f.base.Prompt, MaxTokens: len(f.base.Greedy)})
	if err != nil || slices.Equal(adapter.Sampled, f.base.Greedy) {
		t.Errorf("%v, %v: the base's greedy reply, in spite of the adapter", adapter.Sampled, err)
	}
	for range 3 {
		var batch []engine.Sequence
		for seed := range uint64(4) {
			r := engine.Request{Prompt: f.base.Prompt, MaxTokens: 12, Seed: seed, Sampling: engine.Sampling{Temperature: 1, TopP: 1}}
			c, err := tr.Policy().Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			ids := append(slices.Clone(r.Prompt), c.Sampled...)
			batch = append(batch, engine.Sequence{IDs: ids, Sampled: []engine.Span{{From: len(r.Prompt), To: len(ids)}}, LogProbs: c.LogProbs})
		}
		if u := update(t, tr, batch); u.Apart || u.DriftMax > 1e-5 {
			t.Errorf("learner and policy differ by %g", u.DriftMax)
		}
	}
}

// Ensure that the model folder has the adapters merged in.
func TestMergedModel(t *testing.T) {
	f := readLoRA(t, "qwen3")
	tr := f.open(t)
	dir := filepath.Join(t.TempDir(), "merged")
	if err := tr.SaveModel(dir, checkpoint.F32); err != nil {
		t.Fatal(err)
	}
	merged, err := OpenDir(dir, cpu(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(merged.Close)
	ids := f.base.Batches[0][0].IDs
	if d := distance(logits(t, tr, ids), logits(t, merged, ids)); !(d <= 1e-5) {
		t.Errorf("logits differ by %g", d)
	}
}

// Ensure that what does not fit is refused by name and changes nothing.
func TestAdapterRefusals(t *testing.T) {
	f := readLoRA(t, "llama")
	for _, v := range []struct {
		lora LoRA
		says string
	}{
		{LoRA{Rank: -1}, "rank -1"}, {LoRA{Rank: 2, Alpha: math.NaN()}, "alpha NaN"}, {LoRA{Rank: 2, Targets: []string{"lm_head"}}, `"lm_head" is unknown`},
		{LoRA{Rank: 2, Targets: []string{"q_proj", "q_proj"}}, "twice"},
	} {
		if _, err := Open(f.base.files, cpu(t, 1), Options{LoRA: v.lora}); err == nil || !strings.Contains(err.Error(), v.says) {
			t.Errorf("%+v: %v, want %q", v.lora, err, v.says)
		}
	}
	tr := f.open(t)
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := tr.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for says, o := range map[string]struct {
		model fixture
		lora  LoRA
	}{
		"an adapter of weights": {readFixture(t, "llama-untied"), tr.model.adapters.LoRA},
		"rank 3, alpha 8":       {f.base, LoRA{Rank: 2}},
		"holds an adapter":      {f.base, LoRA{}},
	} {
		other, err := Open(o.model.files, cpu(t, 1), Options{LoRA: o.lora})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Close)
		before := other.Policy().Weights()
		if err := other.Load(t.Context(), dir); err == nil || !strings.Contains(err.Error(), says) || other.Policy().Weights() != before {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
