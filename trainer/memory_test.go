package trainer

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Ensure that a trainer holds what it planned, once everything was in use.
func TestMemoryIsAsPlanned(t *testing.T) {
	for _, o := range []Options{
		{}, {Recompute: true, MicroTokens: 32}, {LoRA: LoRA{Rank: 2, Alpha: 1}}, {Memory: 600_000},
	} {
		f := readFixture(t, "qwen3-untied")
		tr, err := Open(f.files, cpu(t, 1), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tr.Close)
		rows := someRows(rand.New(rand.NewPCG(1, 1)), tr.Config().Vocab, 300, 64)
		for range 2 {
			if _, err := tr.Step(t.Context(), rows, 0); err != nil {
				t.Fatal(err)
			}
		}
		p, g := tr.Memory(), tr.policy.g
		held := map[string]int{
			"weights": tr.model.params.Len() + tr.model.cos.Len() + tr.model.sin.Len(), "packed": tr.model.packs.memory.Len(),
			"optimizer": tr.opt.memory.Len(), "training": tr.tape.memory.Len(), "cache": g.cache.memory.Len(), "generation": g.scratch.memory.Len(),
		}
		if a := tr.model.adapters; a != nil {
			held["weights"] += a.params.Len() + a.scaled.Len()
		}
		planned := map[string]int64{
			"weights": p.Weights, "packed": p.Packed, "optimizer": p.Gradients + p.Moments, "training": p.Activations,
			"cache": p.Cache, "generation": p.Generation + p.Logits,
		}
		total := 0
		for part, floats := range held {
			total += floats
			if part == "training" || part == "generation" { // the logits of both are one part
				continue
			}
			if d := math.Abs(float64(4*floats)/float64(planned[part]) - 1); d > 0.1 {
				t.Errorf("%+v: %s hold %d bytes, planned %d", o, part, 4*floats, planned[part])
			}
		}
		if ratio := float64(4*total) / float64(p.Total()); ratio > 1.01 || ratio < 0.9 {
			t.Errorf("%+v: holds %d bytes, planned %v", o, 4*total, p)
		}
	}
}

// Ensure that every limit from the smallest plan on is kept, that more memory never means
// more recomputation, and that less is refused with a plan that names its parts.
func TestMemoryLimit(t *testing.T) {
	c := toy(checkpoint.Qwen3, true)
	c.Layers = checkpoint.LayersOf(checkpoint.FullAttention, 6)
	dev := cpu(t, 1)
	smallest, err := planMemory(c, dev, &Options{Memory: 1})
	if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "moments") || !strings.Contains(err.Error(), "LoRA") {
		t.Fatalf("%v", err)
	}
	if _, err := planMemory(c, dev, &Options{Memory: smallest.Total() - 1}); !errors.Is(err, ErrMemory) {
		t.Errorf("a byte less than the smallest: %v", err)
	}
	frozen, err := planMemory(c, dev, &Options{Memory: smallest.Total() - 1, Frozen: true})
	if err != nil || frozen.Gradients+frozen.Moments+frozen.Activations != 0 || strings.Contains(frozen.String(), "activations") {
		t.Errorf("to generate only, a byte less: %v, %v", frozen, err)
	}
	recomputed, kept := false, false
	for limit := smallest.Total(); limit < 20*smallest.Total(); limit += limit / 9 {
		o := Options{Memory: limit}
		p, err := planMemory(c, dev, &o)
		if err != nil || p.Total() > limit {
			t.Fatalf("%d bytes: %v, %v", limit, p, err)
		}
		if o.MicroTokens < c.MaxPositions || o.MicroTokens != p.MicroTokens || o.Recompute != p.Recompute || o.CacheTokens < c.MaxPositions {
			t.Errorf("%d bytes: %+v of %v", limit, o, p)
		}
		if p.Recompute && kept {
			t.Errorf("%d bytes: recomputed, less kept everything", limit)
		}
		recomputed, kept = recomputed || p.Recompute, kept || !p.Recompute
	}
	if !recomputed || !kept {
		t.Errorf("recomputed %v, kept %v: want both", recomputed, kept)
	}
}
