package trainer

import (
	"fmt"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Row is one training sequence. Weights[t] is the weight of predicting IDs[t] from what
// stands before it; Weights[0] is 0, since nothing predicts the first id. Weights are not
// negative; most are 0 or 1.
type Row struct {
	IDs     []int32
	Weights []float32
}

// rowOf turns an engine sequence into a row: its weight on what the policy sampled.
func rowOf(s engine.Sequence) (Row, error) {
	r := Row{IDs: s.IDs, Weights: make([]float32, len(s.IDs))}
	weight := s.Weight
	if weight == 0 {
		weight = 1
	}
	end := 1 // position 0 is never predicted
	for _, span := range s.Sampled {
		if span.From < end || span.To < span.From || span.To > len(s.IDs) {
			return Row{}, fmt.Errorf("sampled span [%d,%d) of %d ids overlaps, starts at 0 or runs out", span.From, span.To, len(s.IDs))
		}
		for t := span.From; t < span.To; t++ {
			r.Weights[t] = weight
		}
		end = span.To
	}
	return r, nil
}

// check refuses what the model can't run: ids outside the vocabulary, lengths beyond the
// context, weights that are negative or not finite.
func (r Row) check(vocab, context int) error {
	if len(r.Weights) != len(r.IDs) {
		return fmt.Errorf("%d weights for %d ids", len(r.Weights), len(r.IDs))
	}
	if len(r.IDs) > context+1 {
		return fmt.Errorf("%d ids, the model's context is %d: %w", len(r.IDs), context, engine.ErrContext)
	}
	for t, id := range r.IDs {
		w := r.Weights[t]
		switch {
		case id < 0 || int(id) >= vocab:
			return fmt.Errorf("id %d at position %d is outside the vocabulary of %d: %w", id, t, vocab, engine.ErrContext)
		case !(w >= 0) || w > maxWeight:
			return fmt.Errorf("weight %v at position %d is not in [0,%g]", w, t, maxWeight)
		case t == 0 && w != 0:
			return fmt.Errorf("weight %v at position 0, which nothing predicts", w)
		}
	}
	return nil
}

const maxWeight float32 = 1e6

// inputs is the number of ids that influence the loss: all before the last one with a weight.
func (r Row) inputs() int {
	for t := len(r.IDs) - 1; t > 0; t-- {
		if r.Weights[t] != 0 {
			return t
		}
	}
	return 0
}

// weighted is the number of weights that are not 0.
func weighted(weights []float32) (n int) {
	for _, w := range weights {
		if w != 0 {
			n++
		}
	}
	return n
}
