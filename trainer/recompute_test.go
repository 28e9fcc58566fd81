package trainer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Ensure that recomputed activations give the same bits as kept ones, with and without
// adapters, and take less room.
func TestRecomputedActivationsGiveTheSameBits(t *testing.T) {
	dev := cpu(t, 2)
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		for _, rank := range []int{0, 2} {
			for _, precision := range []cuda.Precision{cuda.Float32, cuda.BF16} {
				if !dev.Has(precision) {
					continue
				}
				c := toy(family, true)
				c.Layers = checkpoint.LayersOf(checkpoint.FullAttention, 4)
				rows := someRows(rand.New(rand.NewPCG(5, 6)), c.Vocab, 12, 40)
				var grads [2][]float32
				var room [2]int
				for i, recompute := range []bool{false, true} {
					tr := bare(t, c, dev, Options{Recompute: recompute, Precision: precision, MicroTokens: 100, LoRA: LoRA{Rank: rank}})
					if rank > 0 {
						someLoRA(t, tr)
					}
					if _, err := tr.Step(t.Context(), rows, 0); err != nil {
						t.Fatal(err)
					}
					grads[i], room[i] = host(t, tr.opt.grads), tr.tape.memory.Len()
				}
				if !slices.Equal(grads[0], grads[1]) {
					t.Errorf("%s, rank %d, %s: gradients differ by %g", family, rank, precision, distance(grads[0], grads[1]))
				}
				if room[1] >= room[0] {
					t.Errorf("%s: %d floats recomputed, %d kept", family, room[1], room[0])
				}
			}
		}
	}
}
