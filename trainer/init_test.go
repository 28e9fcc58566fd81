package trainer

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// nano is the shape of spec/nano.md section 2, model A.
func nano() checkpoint.Config {
	return checkpoint.Config{Family: checkpoint.Qwen3, Vocab: 767, Hidden: 128, Intermediate: 384, Heads: 4, KVHeads: 2, HeadDim: 32,
		Layers: checkpoint.LayersOf(checkpoint.FullAttention, 3), QKNorm: true, Tied: true,
		RMSEps: 1e-6, RopeTheta: 1e4, MaxPositions: 2048, DType: checkpoint.F32}
}

func TestMimeticInit(t *testing.T) {
	c := nano()
	m, err := newModel(c, cpu(t, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.free()
	if n := c.Parameters(); n != 689_088 {
		t.Errorf("%d parameters, want 689,088", n)
	}
	w, err := m.mimetic(1)
	if err != nil {
		t.Fatal(err)
	}
	tensor := map[string][]float32{}
	for _, n := range m.layout.tensors {
		tensor[n.Name] = n.of(w)
	}
	for i := range c.Layers {
		part := func(name string) []float32 { return tensor[checkpoint.LayerName(i, name)] }
		v, o, q, k := part("self_attn.v_proj"), part("self_attn.o_proj"), part("self_attn.q_proj"), part("self_attn.k_proj")
		for r := range 64 {
			for s := range 64 {
				want := 0.0
				if r == s {
					want = 1
				}
				if got := dotRow(v[r*128:], v[s*128:], 128); math.Abs(got-want) > 1e-6 {
					t.Fatalf("layer %d: value rows %d and %d have product %v", i, r, s, got)
				}
			}
		}
		for h := range 4 {
			for j := range 32 {
				for n := range 128 {
					if o[n*128+h*32+j] != v[(h/2*32+j)*128+n]/2 {
						t.Fatalf("layer %d: o_proj[%d,%d] is not half of its value row", i, n, h*32+j)
					}
				}
			}
		}
		if !slices.Equal(q[:32*128], k[:32*128]) || !slices.Equal(q[64*128:96*128], k[32*128:]) || slices.Equal(q[32*128:64*128], k[:32*128]) {
			t.Errorf("layer %d: first query head of each group is not its key", i)
		}
		for name, want := range map[string]float64{
			"self_attn.k_proj": 0.6 / math.Sqrt(128), "mlp.gate_proj": 0.6 / math.Sqrt(128), "mlp.up_proj": 0.6 / math.Sqrt(128),
			"mlp.down_proj": 0.6 / math.Sqrt(384) / math.Sqrt(6), "self_attn.q_norm": 0, "input_layernorm": 0} {
			if got := deviation(part(name)); math.Abs(got-want) > 0.03*want {
				t.Errorf("layer %d %s: standard deviation %v, want %v", i, name, got, want)
			}
		}
		if part("self_attn.k_norm")[0] != 1 || part("post_attention_layernorm")[5] != 1 {
			t.Errorf("layer %d: norm weights are not 1", i)
		}
	}
	if got := deviation(tensor[checkpoint.EmbedName]); math.Abs(got-0.1) > 0.003 || tensor[checkpoint.NormName][7] != 0.3 {
		t.Errorf("embedding deviates by %v, final norm is %v", got, tensor[checkpoint.NormName][7])
	}
	again, err := m.mimetic(1)
	if err != nil || !slices.Equal(w, again) {
		t.Error("the same seed gave other weights")
	}
	if other, err := m.mimetic(2); err != nil || slices.Equal(w, other) {
		t.Error("another seed gave the same weights")
	}
}

func TestMimeticInitNeedsRoom(t *testing.T) {
	c := toy(checkpoint.Llama, true)
	c.KVHeads = 4
	tr := bare(t, c, cpu(t, 1), Options{})
	if err := tr.InitMimetic(1); !errors.Is(err, checkpoint.ErrUnsupported) {
		t.Errorf("16 value rows in 12 dimensions: %v", err)
	}
}

func dotRow(a, b []float32, n int) float64 {
	sum := 0.0
	for i := range n {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// deviation is the standard deviation around the mean.
func deviation(x []float32) float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / float64(len(x))
		square += float64(v) * float64(v) / float64(len(x))
	}
	return math.Sqrt(max(0, square-mean*mean))
}
