package cuda

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// blocks8 is x rounded to 8 bits as whale.h says: whole numbers and the scale of every 64 of them.
func blocks8(x []float32) (q []int32, scale []float32) {
	for from := 0; from < len(x); from += 64 {
		block := x[from:min(from+64, len(x))]
		top := float32(0)
		for _, v := range block {
			top = max(top, float32(math.Abs(float64(v))))
		}
		inv := float32(0)
		if top > 0 {
			inv = 127 / top
		}
		for _, v := range block {
			q = append(q, int32(math.RoundToEven(float64(v*inv))))
		}
		scale = append(scale, top/127)
	}
	return q, scale
}

// refMatMul8 adds x wᵀ of rounded factors to y, block by block, each step rounded to float32.
func refMatMul8(y, x, w []float32, T, N, M int) {
	for t := range T {
		xq, xs := blocks8(x[t*M : (t+1)*M])
		for n := range N {
			wq, ws := blocks8(w[n*M : (n+1)*M])
			for b := range xs {
				sum := int32(0)
				for m := b * 64; m < min((b+1)*64, M); m++ {
					sum += xq[m] * wq[m]
				}
				y[t*N+n] += float32(sum) * (ws[b] * xs[b])
			}
		}
	}
}

// Every instruction set gives the bits of the definition, on any number of threads; and the
// result is near the product that was not rounded.
func TestInt8Products(t *testing.T) {
	for _, s := range []struct{ T, N, M, pad int }{
		{1, 1, 1, 0}, {1, 767, 128, 0}, {2, 33, 17, 3}, {3, 40, 64, 0}, {5, 64, 96, 0}, {16, 100, 65, 2}, {17, 16, 700, 0}, {300, 40, 64, 1},
	} {
		x, w, y0 := random(1, s.T*s.M), random(2, s.N*s.M), random(3, s.T*s.N)
		x[0], w[s.M/2] = 300, 0 // one outlier
		want, exact := append([]float32(nil), y0...), wide(y0)
		refMatMul8(want, x, w, s.T, s.N, s.M)
		refMatMul(exact, wide(x), wide(w), s.T, s.N, s.M)
		for _, isa := range isas {
			t.Run(fmt.Sprintf("T%d N%d M%d %s", s.T, s.N, s.M, isa), func(t *testing.T) {
				for threads := 1; threads <= 3; threads++ {
					b := openBed(t, isa, threads)
					wd := b.put(w)
					y := b.put(spread(y0, s.T, s.N, s.N+s.pad))
					b.must(b.MatMul(MatMul{T: s.T, N: s.N, M: s.M, LdX: s.M + s.pad, LdY: s.N + s.pad, Accumulate: true, Precision: Int8,
						X: b.put(spread(x, s.T, s.M, s.M+s.pad)), W: wd, Packed: b.pack(Int8, wd, s.N, s.M), Y: y}))
					got := b.gather(y, s.T, s.N, s.N+s.pad)
					sameBits(t, fmt.Sprintf("y with %d threads", threads), got, want)
					var off, all float64
					for i := s.N; i < len(got); i++ { // but for the row of the outlier
						off, all = off+math.Pow(float64(got[i])-exact[i], 2), all+math.Pow(exact[i], 2)
					}
					if off > 4e-4*all {
						t.Errorf("off by %.3g of the size", math.Sqrt(off/all))
					}
				}
			})
		}
	}
}

// Rows that hold nothing, denormals and what is not finite.
func TestInt8EdgeValues(t *testing.T) {
	onEvery(t, func(b *bed) {
		const M = 70
		inf := float32(math.Inf(1))
		x := make([]float32, 5*M)
		x[1*M], x[2*M+3], x[3*M+66], x[4*M] = 1e-42, nan, inf, 2
		w := make([]float32, M)
		for i := range w {
			w[i] = 1
		}
		y, wd := b.poison(5), b.put(w)
		b.must(b.MatMul(MatMul{T: 5, N: 1, M: M, LdX: M, LdY: 1, Precision: Int8, X: b.put(x), W: wd, Packed: b.pack(Int8, wd, 1, M), Y: y}))
		got := b.get(y)
		if got[0] != 0 || got[1] != 0 || got[2] == got[2] || !(got[3] != got[3] || math.IsInf(float64(got[3]), 0)) || math.Abs(float64(got[4])-2) > 1e-6 {
			b.t.Errorf("zero, denormal, NaN, inf, 2: %v", got)
		}
	})
}

// What is left out on purpose is refused: no packed weight, no backward.
func TestInt8IsForPackedForwardOnly(t *testing.T) {
	b := openBed(t, "portable", 1)
	x := b.put([]float32{1})
	for name, err := range map[string]error{
		"no packed weight": b.MatMul(MatMul{T: 1, N: 1, M: 1, LdX: 1, LdY: 1, Precision: Int8, X: x, W: x, Y: b.put([]float32{0})}),
		"backward x":       b.MatMulBackwardX(MatMulGradX{T: 1, N: 1, M: 1, LdDY: 1, LdDX: 1, Precision: Int8, DY: x, W: x, DX: b.put([]float32{0})}),
		"backward w":       b.MatMulBackwardW(MatMulGradW{T: 1, N: 1, M: 1, LdDY: 1, LdX: 1, Precision: Int8, DY: x, X: x, DW: b.put([]float32{0})}),
	} {
		if !errors.Is(err, BadShape) {
			t.Errorf("%s: %v, want bad shape", name, err)
		}
	}
	if !b.Has(Int8) || Int8.String() != "int8" {
		t.Errorf("has %v, name %q", b.Has(Int8), Int8)
	}
}

// Decode: few rows against a weight that is not in the cache (SmolLM2-135M's gate and up, 30 layers).
func BenchmarkFewRows(b *testing.B) {
	d := benchDevice(b, 1)
	const N, M, layers = 3072, 576, 30
	w := benchFloats(b, d, N*M)
	for _, p := range []Precision{Float32, BF16, BF16x3, Int8} {
		if !d.Has(p) {
			continue
		}
		packed := make([]Floats, layers)
		for i := range packed {
			packed[i] = benchFloats(b, d, d.PackedFloats(p, N, M))
			if err := d.PackWeight(Pack{N: N, M: M, Precision: p, W: w, Packed: packed[i]}); err != nil {
				b.Fatal(err)
			}
		}
		for _, T := range []int{1, 4, 16, 64} {
			x, y := benchFloats(b, d, T*M), benchFloats(b, d, T*N)
			b.Run(fmt.Sprintf("%s/T%d", p, T), func(b *testing.B) {
				start := cpuSeconds()
				measure(b, 2*N*M*float64(T*layers), func() error {
					for i := range packed {
						if err := d.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, Precision: p, X: x, W: w, Packed: packed[i], Y: y}); err != nil {
							return err
						}
					}
					return nil
				})
				b.ReportMetric(float64(4*layers*packed[0].Len())*float64(b.N+1)/(cpuSeconds()-start)/1e9, "GB/cpu-s")
			})
		}
	}
}
