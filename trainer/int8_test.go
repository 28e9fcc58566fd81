package trainer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Generation in 8 bits reports what its rounded model thinks: near what the learner finds, not
// the same, and the learner's own numbers are those of a trainer that never rounds.
func TestInt8RoundsGenerationAlone(t *testing.T) {
	for _, lora := range []LoRA{{}, {Rank: 2, Alpha: 4, Targets: []string{"q_proj", "down_proj"}}} {
		dev := cpu(t, 2)
		c := small(checkpoint.Llama)
		exact := serve(t, c, dev, Options{LoRA: lora})
		rounded := serve(t, c, dev, Options{LoRA: lora, Int8: true})
		rng := rand.New(rand.NewPCG(5, 5))
		var batch []engine.Sequence
		for range 6 {
			r := engine.Request{Prompt: someRows(rng, c.Vocab, 1, 9)[0].IDs, MaxTokens: 8, Sampling: engine.Sampling{Temperature: 1}, Seed: rng.Uint64()}
			done, err := rounded.Policy().Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			n := len(r.Prompt)
			batch = append(batch, engine.Sequence{IDs: slices.Concat(r.Prompt, done.Sampled),
				Sampled: []engine.Span{{From: n, To: n + len(done.Sampled)}}, LogProbs: done.LogProbs})
		}
		got, err := rounded.Learner().Update(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		want, err := exact.Learner().Update(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		if got.Weights != want.Weights || got.NLL != want.NLL {
			t.Errorf("the learner of a policy in 8 bits gives %v, one without %v", got, want)
		}
		if got.Drift == 0 || got.Drift > 0.1 || got.Apart || !want.Apart {
			t.Errorf("drift %v, apart %v; to one that should not round: apart %v", got.Drift, got.Apart, want.Apart)
		}
	}
}

// After an update generation rounds the new weights.
func TestInt8FollowsTheWeights(t *testing.T) {
	dev := cpu(t, 1)
	c := small(checkpoint.Llama)
	a, b := serve(t, c, dev, Options{Int8: true}), serve(t, c, dev, Options{Int8: true})
	rows := someRows(rand.New(rand.NewPCG(6, 6)), c.Vocab, 3, 20)
	request := engine.Request{Prompt: rows[0].IDs[:5], MaxTokens: 12, Sampling: engine.Sampling{Temperature: 1}, Seed: 4}
	before, err := a.Policy().Generate(t.Context(), request) // packs the old weights
	if err != nil {
		t.Fatal(err)
	}
	var after [2]engine.Completion
	for i, tr := range []*Trainer{a, b} {
		if _, err := tr.Step(t.Context(), rows, 0.1); err != nil {
			t.Fatal(err)
		}
		if after[i], err = tr.Policy().Generate(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(after[0].LogProbs, after[1].LogProbs) || slices.Equal(after[0].LogProbs, before.LogProbs) {
		t.Errorf("log-probs %v and %v, before the update %v", after[0].LogProbs, after[1].LogProbs, before.LogProbs)
	}
}

// A device without products in 8 bits is refused when the model is made.
func TestInt8ThatIsMissing(t *testing.T) {
	dev, err := cuda.Open("simt", 1)
	if errors.Is(err, cuda.NoDevice) {
		t.Skip("no device here lacks 8 bits: nothing tested")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if _, err := New(small(checkpoint.Llama), letters(t), dev, Options{Int8: true}); !errors.Is(err, cuda.NoDevice) {
		t.Errorf("error %v, want NoDevice", err)
	}
}
