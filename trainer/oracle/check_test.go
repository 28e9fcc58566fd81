package oracle

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// Ensure that the trainer's gradients on the CPU are the oracle's.
func TestTrainerAgainstOracle(t *testing.T) {
	dev, err := cuda.Open("cpu", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	results, err := Check(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 4 {
		t.Fatalf("%d results", len(results))
	}
	for _, r := range results {
		t.Logf("%s: loss %.4f differs by %.1e, gradient of %s by %.1e", r.Model, r.Loss, r.Drift, r.Tensor, r.Worst)
		if !r.OK() || r.Tensor == "" {
			t.Errorf("%+v", r)
		}
	}
}
