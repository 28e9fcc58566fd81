package oracle

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

func toy(family string, tied bool) checkpoint.Config {
	return checkpoint.Config{Family: family, Vocab: 11, Hidden: 10, Intermediate: 14, Heads: 4, KVHeads: 2, HeadDim: 4,
		Layers: checkpoint.LayersOf(checkpoint.FullAttention, 2), QKNorm: family == checkpoint.Qwen3, Tied: tied,
		RMSEps: 1e-5, RopeTheta: 100, MaxPositions: 32, DType: checkpoint.F32}
}

func someWeights(c checkpoint.Config, r *rand.Rand) Weights {
	w := Weights{}
	for _, t := range c.Tensors() {
		w[t.Name] = make([]float64, t.Elements())
		for i := range w[t.Name] {
			w[t.Name][i] = 0.4 * r.NormFloat64()
			if len(t.Shape) == 1 {
				w[t.Name][i]++
			}
		}
	}
	return w
}

func someRow(c checkpoint.Config, n int, r *rand.Rand) Row {
	row := Row{IDs: make([]int32, n), Weights: make([]float64, n)}
	for i := range row.IDs {
		row.IDs[i] = int32(r.IntN(c.Vocab))
		if i > 0 {
			row.Weights[i] = []float64{0, 1, 1, 0.3}[r.IntN(4)]
		}
	}
	row.Weights[n-1] = 1
	return row
}

// Ensure that the graph's gradients are those of finite differences of the
// forward pass in plain Go, every tensor, a few elements each.
func TestGradientsMatchFiniteDifferences(t *testing.T) {
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		for _, tied := range []bool{true, false} {
			r := rand.New(rand.NewPCG(1, 2))
			c := toy(family, tied)
			w, row := someWeights(c, r), someRow(c, 7, r)
			_, grads, err := Gradients(c, w, row)
			if err != nil {
				t.Fatal(err)
			}
			loss := func() float64 {
				x, err := Loss(c, w, row)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			for _, tensor := range c.Tensors() {
				values := w[tensor.Name]
				for range 6 {
					i, h := r.IntN(len(values)), 1e-5
					keep := values[i]
					values[i] = keep + h
					up := loss()
					values[i] = keep - h
					want := (up - loss()) / (2 * h)
					values[i] = keep
					if got := grads[tensor.Name][i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%s tied=%v %s[%d]: %v, finite difference %v", family, tied, tensor.Name, i, got, want)
					}
				}
			}
		}
	}
}

// Ensure that what does not fit is refused.
func TestRefusals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := toy(checkpoint.Llama, true)
	w, row := someWeights(c, r), someRow(c, 4, r)
	bad := someWeights(c, r)
	bad[checkpoint.NormName] = bad[checkpoint.NormName][1:]
	for name, err := range map[string]error{
		"weights": second(Gradients(c, bad, row)),
		"id":      second(Gradients(c, w, Row{IDs: []int32{1, 11}, Weights: []float64{0, 1}})),
		"length":  second(Gradients(c, w, Row{IDs: []int32{1}, Weights: []float64{0}})),
		"config":  second(Gradients(checkpoint.Config{}, w, row)),
	} {
		if err == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	huge := someWeights(c, r)
	for i := range huge[checkpoint.EmbedName] {
		huge[checkpoint.EmbedName][i] *= 1e4 // exp of the logits overflows in the graph
	}
	if _, _, err := Gradients(c, huge, row); !errors.Is(err, ErrDisagree) {
		t.Errorf("overflow: %v", err)
	}
}

func second(_ float64, _ Weights, err error) error { return err }
