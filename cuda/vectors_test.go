package cuda

import (
	"math"
	"testing"
)

// The numbers printed in spec/models.md and spec/rsft.md.

func TestVectorRMSNorm(t *testing.T) {
	onAll(t, func(b *bed) {
		y := b.poison(2)
		b.must(b.RMSNorm(RMSNorm{Rows: 1, N: 2, Heads: 1, LdX: 2, LdY: 2, Eps: 1e-6, X: b.put([]float32{3, -4}), W: b.put([]float32{2, .5}), Y: y}))
		near(b.t, "y", b.get(y), []float64{1.69705621, -0.56568540}, 1e-7)
	})
}

func TestVectorRope(t *testing.T) {
	onAll(t, func(b *bed) {
		cos, sin := ropeTable(4, 4, 10000)
		x := b.put([]float32{1, 2, 3, 4})
		b.must(b.Rope(Rope{T: 1, Heads: 1, HeadD: 4, R: 4, Ld: 4, MaxPos: 4, Pos: b.ints([]int32{3}), Cos: b.put(narrow(cos)), Sin: b.put(narrow(sin)), X: x}))
		near(b.t, "x", b.get(x), []float64{-1.41335252, 1.87911807, -2.82885748, 4.05819114}, 1e-7)
	})
}

func TestVectorAdamW(t *testing.T) {
	onAll(t, func(b *bed) {
		p, m, v := b.put([]float32{1}), b.put([]float32{0}), b.put([]float32{0})
		want := []float64{0.9899000002, 0.9871376399, 0.9838864905}
		for i, g := range []float32{.5, -.25, .1} {
			k := float64(i + 1)
			b.must(b.AdamW(AdamW{LR: .01, B1: .9, B2: .999, Eps: 1e-8, Decay: .01, Clip: 1, C1: 1 - math.Pow(.9, k), C2: 1 - math.Pow(.999, k),
				P: p, M: m, V: v, G: b.put([]float32{g})}))
			near(b.t, "p", b.get(p), want[i:i+1], 1.5e-7)
		}
	})
}

// A small decay must not vanish in 1 - lr*decay.
func TestAdamWDecayIsNotRoundedAway(t *testing.T) {
	onAll(t, func(b *bed) {
		p, m, v := b.put([]float32{1}), b.put([]float32{0}), b.put([]float32{0})
		a := AdamW{LR: 1e-6, B1: .9, B2: .999, Eps: 1e-8, Decay: .03, Clip: 1, C1: .1, C2: .001, P: p, M: m, V: v, G: b.put([]float32{0})}
		b.must(b.AdamW(a))
		sameBits(b.t, "p", b.get(p), []float32{1 - 3e-8})
		a.Decay = 0.06
		b.must(b.AdamW(a))
		if got := b.get(p)[0]; got >= 1 {
			b.t.Fatalf("p is %v after decay of half a spacing", got)
		}
	})
}

// silu(x) = x / (1 + e^-x) shows e^x over its whole range: the relative error stays at a few
// units of the last place, far into the tails.
func TestExpIsAccurateEverywhere(t *testing.T) {
	var x []float32
	for v := -87.0; v <= 88; v += .0371 {
		x = append(x, float32(v))
	}
	gu := append(append([]float32(nil), x...), make([]float32, len(x))...)
	for i := range x {
		gu[len(x)+i] = 1
	}
	onAll(t, func(b *bed) {
		y := b.poison(len(x))
		b.must(b.SwiGLU(SwiGLU{T: 1, I: len(x), GU: b.put(gu), Y: y}))
		for i, got := range b.get(y) {
			want := float64(x[i]) * sigmoid(float64(x[i]))
			if math.Abs(float64(got)-want) > 4e-7*math.Abs(want) {
				b.t.Fatalf("silu(%v) is %v, want %v", x[i], got, want)
			}
		}
	})
}
