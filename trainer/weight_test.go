package trainer

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// A sequence's weight is that of its sampled ids, 1 when it has none.
func TestRowOf_weight(t *testing.T) {
	for weight, want := range map[float32]float32{0: 1, 1: 1, .25: .25, 3: 3} {
		row, err := rowOf(engine.Sequence{IDs: []int32{5, 6, 7, 8}, Sampled: []engine.Span{{From: 2, To: 4}}, Weight: weight})
		if err != nil {
			t.Fatal(err)
		}
		if row.Weights[1] != 0 || row.Weights[2] != want || row.Weights[3] != want {
			t.Errorf("weight %v: %v", weight, row.Weights)
		}
	}
	row, err := rowOf(engine.Sequence{IDs: []int32{5, 6}, Sampled: []engine.Span{{From: 1, To: 2}}, Weight: -1})
	if err != nil {
		t.Fatal(err)
	}
	if row.check(9, 9) == nil {
		t.Error("a negative weight is taken")
	}
}
