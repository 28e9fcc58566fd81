package trainer

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// sequencesOf are n sequences whose second half was sampled.
func sequencesOf(n, vocab int, seed uint64) []engine.Sequence {
	rng := rand.New(rand.NewPCG(seed, 1))
	list := make([]engine.Sequence, n)
	for i := range list {
		ids := make([]int32, 6+rng.IntN(10))
		for t := range ids {
			ids[t] = int32(rng.IntN(vocab))
		}
		list[i] = engine.Sequence{IDs: ids, Sampled: []engine.Span{{From: len(ids) / 2, To: len(ids)}}}
	}
	return list
}

// frozen is everything that an update may change.
type frozen struct {
	params, m, v []float32
	t            int64
	id           engine.WeightsID
}

func freeze(t testing.TB, tr *Trainer) frozen {
	t.Helper()
	id, err := tr.model.WeightsID()
	if err != nil {
		t.Fatal(err)
	}
	f := frozen{params: host(t, tr.model.params), id: id}
	if tr.opt != nil {
		f.m, f.v, f.t = host(t, tr.opt.m), host(t, tr.opt.v), tr.opt.t
	}
	return f
}

func (f frozen) equal(o frozen) bool {
	return slices.Equal(f.params, o.params) && slices.Equal(f.m, o.m) && slices.Equal(f.v, o.v) && f.t == o.t && f.id == o.id
}

func update(t testing.TB, tr *Trainer, batch []engine.Sequence) engine.Update {
	t.Helper()
	u, err := tr.Learner().Update(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The vector of spec/rsft.md section 3.
func TestAdamWVector(t *testing.T) {
	tr := bare(t, toy(checkpoint.Llama, true), cpu(t, 1), Options{})
	o, err := newOptimizer(tr.model)
	if err != nil {
		t.Fatal(err)
	}
	defer o.free()
	size := tr.model.layout.size
	if err := tr.model.dev.Fill(tr.model.params, 1); err != nil {
		t.Fatal(err)
	}
	adam := AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01}
	for i, g := range []float32{.5, -.25, .1} {
		if err := tr.model.dev.Fill(o.grads, g); err != nil {
			t.Fatal(err)
		}
		norm, err := o.apply(tr.model, adam, 0.01)
		if want := math.Abs(float64(g)) * math.Sqrt(float64(size)); err != nil || math.Abs(norm-want) > 1e-5*want {
			t.Errorf("step %d: norm %v, %v, want %v", i+1, norm, err, want)
		}
		want := []float64{0.9899000002, 0.9871376399, 0.9838864905}[i]
		for j, p := range host(t, tr.model.params) {
			if math.Abs(float64(p)-want) > 2e-7 {
				t.Fatalf("step %d: parameter %d is %.9f, want %.9f", i+1, j, p, want)
			}
		}
	}
}

// Clipping scales the gradient to the limit and leaves a shorter one alone: with moments
// from nothing, m is (1-beta1) times what entered.
func TestClip(t *testing.T) {
	for _, v := range []struct{ clip, want float64 }{{0, 3}, {4, 3}, {1, 1}, {0.5, 0.5}} {
		tr := bare(t, toy(checkpoint.Llama, true), cpu(t, 1), Options{})
		o, err := newOptimizer(tr.model)
		if err != nil {
			t.Fatal(err)
		}
		g := make([]float32, tr.model.layout.size)
		g[3], g[8] = 1, float32(math.Sqrt(8))
		if err := o.grads.Upload(g); err != nil {
			t.Fatal(err)
		}
		adam := DefaultAdamW()
		adam.Clip = v.clip
		norm, err := o.apply(tr.model, adam, 0.01)
		if err != nil || math.Abs(norm-3) > 1e-6 {
			t.Errorf("norm %v, %v", norm, err)
		}
		sum := 0.0
		for _, m := range host(t, o.m) {
			sum += float64(m) * float64(m)
		}
		if got := math.Sqrt(sum) / 0.1; math.Abs(got-v.want) > 1e-5 {
			t.Errorf("clip %v: a gradient of 3 entered as %v", v.clip, got)
		}
		o.free()
	}
}

func TestOverfit(t *testing.T) {
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		c := toy(family, true)
		tr := bare(t, c, cpu(t, 2), Options{Adam: AdamW{LR: 5e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Clip: 1}})
		batch := sequencesOf(8, c.Vocab, 2)
		var u engine.Update
		for range 600 {
			if u = update(t, tr, batch); u.NLL < 0.01 {
				break
			}
		}
		if u.NLL >= 0.01 {
			t.Errorf("%s: NLL %v after 600 steps on 8 sequences", family, u.NLL)
		}
	}
}

func TestSmallStepsLowerTheLoss(t *testing.T) {
	c := toy(checkpoint.Qwen3, true)
	adam := DefaultAdamW()
	adam.LR = 1e-5
	tr := bare(t, c, cpu(t, 1), Options{Adam: adam})
	batch := sequencesOf(32, c.Vocab, 3)
	first := update(t, tr, batch)
	for range 4 {
		update(t, tr, batch)
	}
	if last := update(t, tr, batch); last.NLL >= first.NLL {
		t.Errorf("NLL went from %v to %v", first.NLL, last.NLL)
	}
}

// Nothing sampled, nothing changed; that holds for a batch that is empty too.
func TestEmptyAcceptanceChangesNothing(t *testing.T) {
	c := toy(checkpoint.Llama, true)
	tr := bare(t, c, cpu(t, 1), Options{})
	silent := []engine.Sequence{{IDs: []int32{1, 2, 3}}, {IDs: []int32{4}}, {}}
	for range 2 {
		before := freeze(t, tr)
		for _, batch := range [][]engine.Sequence{nil, silent} {
			u := update(t, tr, batch)
			if !u.Skipped || u.Tokens != 0 || u.Weights != before.id {
				t.Errorf("update %+v, want skipped with weights %s", u, before.id)
			}
		}
		if !freeze(t, tr).equal(before) {
			t.Error("an update on nothing changed something")
		}
		update(t, tr, sequencesOf(3, c.Vocab, 4))
	}
}

func TestGradientThatIsNotFinite(t *testing.T) {
	c := toy(checkpoint.Llama, false)
	tr := bare(t, c, cpu(t, 1), Options{})
	update(t, tr, sequencesOf(2, c.Vocab, 5))
	params := host(t, tr.model.params)
	params[tr.model.layout.head.at] = float32(math.Inf(1))
	if err := tr.model.upload(params); err != nil {
		t.Fatal(err)
	}
	before := freeze(t, tr)
	u := update(t, tr, sequencesOf(2, c.Vocab, 5))
	if !u.Skipped || !(math.IsNaN(u.GradNorm) || math.IsInf(u.GradNorm, 0)) {
		t.Errorf("update %+v, want skipped", u)
	}
	if !freeze(t, tr).equal(before) {
		t.Error("a skipped update changed something")
	}
}

func TestCancelledUpdateChangesNothing(t *testing.T) {
	c := toy(checkpoint.Llama, true)
	tr := bare(t, c, cpu(t, 1), Options{})
	update(t, tr, sequencesOf(2, c.Vocab, 6))
	before := freeze(t, tr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Learner().Update(ctx, sequencesOf(2, c.Vocab, 7)); !errors.Is(err, context.Canceled) {
		t.Errorf("update: %v", err)
	}
	if !freeze(t, tr).equal(before) {
		t.Error("a cancelled update changed something")
	}
}

func TestSequencesThatCannotBeTrained(t *testing.T) {
	c := toy(checkpoint.Llama, true)
	tr := bare(t, c, cpu(t, 1), Options{Context: 8})
	before := freeze(t, tr)
	spans := func(s ...engine.Span) []engine.Span { return s }
	for name, s := range map[string]engine.Sequence{
		"span at 0":          {IDs: []int32{1, 2}, Sampled: spans(engine.Span{From: 0, To: 1})},
		"span beyond":        {IDs: []int32{1, 2}, Sampled: spans(engine.Span{From: 1, To: 3})},
		"spans overlap":      {IDs: []int32{1, 2, 3, 4}, Sampled: spans(engine.Span{From: 1, To: 3}, engine.Span{From: 2, To: 4})},
		"span backwards":     {IDs: []int32{1, 2, 3, 4}, Sampled: spans(engine.Span{From: 3, To: 1})},
		"id outside":         {IDs: []int32{1, 99}, Sampled: spans(engine.Span{From: 1, To: 2})},
		"negative id":        {IDs: []int32{-1, 9}, Sampled: spans(engine.Span{From: 1, To: 2})},
		"too long":           {IDs: make([]int32, 10), Sampled: spans(engine.Span{From: 1, To: 10})},
		"too few log-probs":  {IDs: []int32{1, 2, 3}, Sampled: spans(engine.Span{From: 1, To: 3}), LogProbs: []float32{-1}},
		"too many log-probs": {IDs: []int32{1, 2}, Sampled: spans(engine.Span{From: 1, To: 2}), LogProbs: []float32{-1, -1}},
	} {
		if _, err := tr.Learner().Update(t.Context(), []engine.Sequence{s}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	full := engine.Sequence{IDs: make([]int32, 9), Sampled: spans(engine.Span{From: 8, To: 9})}
	if !freeze(t, tr).equal(before) {
		t.Error("a refused sequence changed something")
	}
	if u := update(t, tr, []engine.Sequence{full}); u.Forward != 8 {
		t.Errorf("a sequence that fills the context: %+v", u)
	}
}

// Save, load into another trainer, go on: the same bits as without a break.
func TestSavedStateContinuesBitForBit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "state")
	dev := cpu(t, 2)
	tr := serve(t, small(checkpoint.Qwen3), dev, Options{})
	fresh, err := tr.Learner().Save(t.Context(), dir) // no moments yet; the next Save replaces it
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		update(t, tr, sequencesOf(4, 259, i))
	}
	id, err := tr.Learner().Save(t.Context(), dir)
	if err != nil || id == fresh || id != tr.Policy().Weights() {
		t.Fatalf("saved %s, then %s, %v", fresh, id, err)
	}
	saved := freeze(t, tr)
	update(t, tr, sequencesOf(4, 259, 9))
	want := freeze(t, tr)

	other, err := OpenDir(dir, dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := other.Policy().Weights(); got != id {
		t.Errorf("the saved folder as a model has weights %s, want %s", got, id)
	}
	update(t, other, sequencesOf(4, 259, 77)) // moments that Load must replace
	if err := other.Learner().Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if !freeze(t, other).equal(saved) {
		t.Error("loaded state differs from the saved one")
	}
	update(t, other, sequencesOf(4, 259, 9))
	if !freeze(t, other).equal(want) {
		t.Error("the step after loading differs from the uninterrupted one")
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("left beside the state: %v, %v", entries, err)
	}
}

func TestLoadRefusesAndKeeps(t *testing.T) {
	dev := cpu(t, 1)
	tr := serve(t, small(checkpoint.Llama), dev, Options{})
	update(t, tr, sequencesOf(2, 259, 1))
	for name, spoil := range map[string]func(dir string) error{
		"no state file": func(dir string) error { return os.Remove(filepath.Join(dir, stateFile)) },
		"other version": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"format":9}`), 0o644)
		},
		"no JSON": func(dir string) error { return os.WriteFile(filepath.Join(dir, stateFile), []byte(`{`), 0o644) },
		"other weights": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"format":1,"weights":"w0","steps":1}`), 0o644)
		},
		"moments cut":      func(dir string) error { return os.Truncate(filepath.Join(dir, optimizerFile), 4000) },
		"moments negative": func(dir string) error { return spoilLast(filepath.Join(dir, optimizerFile), -1) },
		"moments NaN":      func(dir string) error { return spoilLast(filepath.Join(dir, optimizerFile), float32(math.NaN())) },
		"weights infinite": func(dir string) error {
			return spoilLast(filepath.Join(dir, checkpoint.WeightsFile), float32(math.Inf(1)))
		},
		"moments gone":     func(dir string) error { return os.Remove(filepath.Join(dir, optimizerFile)) },
		"weights cut":      func(dir string) error { return os.Truncate(filepath.Join(dir, checkpoint.WeightsFile), 4000) },
		"another model's":  func(dir string) error { return otherModel(t, dir) },
		"folder not there": os.RemoveAll,
	} {
		dir := filepath.Join(t.TempDir(), "state")
		if _, err := tr.Save(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		before := freeze(t, tr)
		if err := tr.Load(t.Context(), dir); err == nil {
			t.Errorf("%s: loaded", name)
		}
		if !freeze(t, tr).equal(before) {
			t.Errorf("%s: a refused load changed something", name)
		}
	}
}

// spoilLast overwrites the last float of a file.
func spoilLast(path string, value float32) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(text[len(text)-4:], math.Float32bits(value))
	return os.WriteFile(path, text, 0o600)
}

// A state is loaded in place: the device gives out no second set of weights or moments.
func TestLoadTakesNoRoom(t *testing.T) {
	dev := cpu(t, 1)
	tr := serve(t, small(checkpoint.Llama), dev, Options{})
	update(t, tr, sequencesOf(2, 259, 1))
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := tr.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want := freeze(t, tr)
	update(t, tr, sequencesOf(2, 259, 2))
	room, err := dev.Room()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Reserve(room.Used); err != nil { // the peak counts from here
		t.Fatal(err)
	}
	if err := tr.Load(t.Context(), dir); err != nil || !freeze(t, tr).equal(want) {
		t.Fatalf("not what was saved (%v)", err)
	}
	if after, err := dev.Room(); err != nil || after.Used != room.Used || after.Peak > room.Used {
		t.Errorf("%d bytes in use, %d at the peak, before %d (%v)", after.Used, after.Peak, room.Used, err)
	}
}

func otherModel(t *testing.T, dir string) error {
	c := small(checkpoint.Llama)
	c.Hidden = 16
	_, err := serve(t, c, cpu(t, 1), Options{}).Save(t.Context(), dir)
	return err
}

// A model written as BF16 opens with the weights rounded and generates.
func TestSaveModelAsBF16(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	tr := serve(t, small(checkpoint.Qwen3), cpu(t, 1), Options{})
	if err := tr.SaveModel(dir, checkpoint.BF16); err != nil {
		t.Fatal(err)
	}
	other, err := OpenDir(dir, cpu(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	got, want := host(t, other.model.params), host(t, tr.model.params)
	for i := range got {
		if got[i] != checkpoint.FromBF16(checkpoint.ToBF16(want[i])) {
			t.Fatalf("parameter %d is %v, was %v", i, got[i], want[i])
		}
	}
	for _, name := range []string{stateFile, optimizerFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("a saved model holds %s", name)
		}
	}
}
