package trainer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Ensure that seeded sampling draws what the reference library's logits and its temperature,
// top-k and top-p make of the same random numbers.
func TestSampledAsReference(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "models", "sampled.json"))
	if err != nil {
		t.Fatal(err)
	}
	var drawn map[string][]struct {
		Temperature float64
		TopK        int     `json:"top_k"`
		TopP        float64 `json:"top_p"`
		Seed        uint64
		IDs         []int32
		LogPs       []float64
	}
	if err := json.Unmarshal(text, &drawn); err != nil {
		t.Fatal(err)
	}
	for _, name := range models {
		f := readFixture(t, name)
		tr := f.open(t)
		if len(drawn[name]) < 12 {
			t.Errorf("%s: %d samples", name, len(drawn[name]))
		}
		for _, d := range drawn[name] {
			c, err := tr.Policy().Generate(t.Context(), engine.Request{Prompt: f.Prompt, MaxTokens: 12, Seed: d.Seed,
				Sampling: engine.Sampling{Temperature: d.Temperature, TopK: d.TopK, TopP: d.TopP}})
			if err != nil || !slices.Equal(c.Sampled, d.IDs) {
				t.Errorf("%s, seed %d at %v/%v/%v: %v, %v, want %v", name, d.Seed, d.Temperature, d.TopK, d.TopP, c.Sampled, err, d.IDs)
				continue
			}
			for i, want := range d.LogPs {
				if math.Abs(float64(c.LogProbs[i])-want) > 1e-4 {
					t.Errorf("%s, seed %d: log-probability %d is %v, want %v", name, d.Seed, i, c.LogProbs[i], want)
				}
			}
		}
	}
}
