package cuda

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// bf16 rounds to bfloat16, to nearest even.
func bf16(x float32) float64 {
	b := math.Float32bits(x)
	return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
}

func rounded(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = bf16(v)
	}
	return y
}

// bf16ISAs are the ways of multiplying bfloat16.
var bf16ISAs = []string{"avx512", "amx", "amx-emulated"}

// openBF16 opens a device that has bfloat16 products, or skips.
func openBF16(t *testing.T, isa string, threads int) *bed {
	t.Helper()
	b := openBed(t, isa, threads)
	if !b.Has(BF16) || !b.Has(BF16x3) {
		t.Skip("this processor has no bfloat16 products (AVX512_BF16): nothing tested")
	}
	return b
}

// onBF16 runs f on every way of multiplying bfloat16 and in both precisions made of it.
func onBF16(t *testing.T, f func(t *testing.T, isa string, p Precision)) {
	for _, isa := range bf16ISAs {
		for _, p := range []Precision{BF16, BF16x3} {
			t.Run(isa+" "+p.String(), func(t *testing.T) { f(t, isa, p) })
		}
	}
}

// bf16Shape is the shape of three products in bfloat16.
type bf16Shape struct{ T, N, M, pad int }

var bf16Shapes = []bf16Shape{
	{1, 1, 1, 0}, {1, 767, 128, 0}, {2, 33, 17, 3}, {5, 64, 96, 0}, {8, 31, 130, 1}, {16, 100, 64, 2},
	{33, 1, 128, 0}, {97, 130, 70, 0}, {200, 257, 129, 1}, {30, 20, 1600, 0}, {801, 40, 33, 0},
}

func (s bf16Shape) name() string { return fmt.Sprintf("T%d N%d M%d", s.T, s.N, s.M) }

// products runs the three products, holds them to double precision, and returns y, dx and dw. The
// factors of the reference are rounded if the device rounds them. Packing must not change a bit.
func (s bf16Shape) products(b *bed, p Precision) [][]float32 {
	T, N, M, ldx, ldy := s.T, s.N, s.M, s.M+s.pad, s.N+s.pad
	x, w, dy, dw0, y0 := random(1, T*M), random(2, N*M), random(3, T*N), random(4, N*M), random(5, T*N)
	factor, tol := rounded, 4e-6*math.Sqrt(float64(M+N+T))
	if p == BF16x3 { // a product of two factors is off by 4e-6 of its size, the worst of thousands by six times that
		factor, tol = wide, 2.5e-5*math.Sqrt(float64(M+N+T))
	}
	wantY, wantMore, wantDX, wantDW := zeros(T*N), wide(y0), zeros(T*M), wide(dw0)
	refMatMul(wantY, factor(x), factor(w), T, N, M)
	refMatMul(wantMore, factor(x), factor(w), T, N, M)
	refMatMulGradX(wantDX, factor(dy), factor(w), T, N, M)
	refMatMulGradW(wantDW, factor(dy), factor(x), T, N, M)
	y, packedY, dx, packedDX, dw := b.poison((T-1)*ldy+N), b.poison((T-1)*ldy+N), b.poison((T-1)*ldx+M), b.poison((T-1)*ldx+M), b.put(dw0)
	xd, dyd, wd, more := b.put(spread(x, T, M, ldx)), b.put(spread(dy, T, N, ldy)), b.put(w), b.put(spread(y0, T, N, ldy))
	a := MatMul{T: T, N: N, M: M, LdX: ldx, LdY: ldy, Precision: p, X: xd, W: wd, Y: y}
	b.must(b.MatMul(a))
	a.Y, a.Packed = packedY, b.pack(p, wd, N, M)
	b.must(b.MatMul(a))
	a.Y, a.Accumulate = more, true
	b.must(b.MatMul(a))
	g := MatMulGradX{T: T, N: N, M: M, LdDY: ldy, LdDX: ldx, Precision: p, DY: dyd, W: wd, DX: dx}
	b.must(b.MatMulBackwardX(g))
	g.DX, g.Packed = packedDX, a.Packed
	b.must(b.MatMulBackwardX(g))
	b.must(b.MatMulBackwardW(MatMulGradW{T: T, N: N, M: M, LdDY: ldy, LdX: ldx, Precision: p, DY: dyd, X: xd, DW: dw}))
	got := [][]float32{b.gather(y, T, N, ldy), b.gather(dx, T, M, ldx), b.get(dw), b.gather(more, T, N, ldy)}
	sameBits(b.t, "y of packed w", b.gather(packedY, T, N, ldy), got[0])
	sameBits(b.t, "dx of packed w", b.gather(packedDX, T, M, ldx), got[1])
	for i, want := range [][]float64{wantY, wantDX, wantDW, wantMore} {
		name := []string{"y", "dx", "dw", "y accumulated"}[i]
		near(b.t, name, got[i], want, tol)
		if e := relative(got[i], want); p == BF16x3 && e > 1e-5 {
			b.t.Errorf("%s: relative error %.1e, at most 1e-5", name, e)
		}
	}
	return got
}

// relative is the length of the error in lengths of what is wanted.
func relative(got []float32, want []float64) float64 {
	var e, all float64
	for i, w := range want {
		e, all = e+(float64(got[i])-w)*(float64(got[i])-w), all+w*w
	}
	return math.Sqrt(e / all)
}

// The three products against double precision; threads must not change a bit.
func TestBF16Products(t *testing.T) {
	onBF16(t, func(t *testing.T, isa string, p Precision) {
		for _, s := range bf16Shapes {
			t.Run(s.name(), func(t *testing.T) {
				first := s.products(openBF16(t, isa, 1), p)
				for threads := 2; threads <= 3; threads++ {
					for i, got := range s.products(openBF16(t, isa, threads), p) {
						sameBits(t, fmt.Sprintf("output %d with %d threads", i, threads), got, first[i])
					}
				}
			})
		}
	})
}

func TestBF16RowsStandAlone(t *testing.T) {
	onBF16(t, func(t *testing.T, isa string, p Precision) {
		b := openBF16(t, isa, 1)
		const most, N, M = 97, 100, 1100
		x, w := b.put(random(1, most*M)), b.put(random(2, N*M))
		packed := b.pack(p, w, N, M)
		run := func(from, T int, packed Floats) []float32 {
			y := b.poison(T * N)
			b.must(b.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, Precision: p, X: x.Slice(from*M, (from+T)*M), W: w, Packed: packed, Y: y}))
			return b.get(y)
		}
		all := run(0, most, Floats{})
		for _, T := range []int{1, 2, 3, 4, 7, 8, 13, 15, 28, 64} {
			for _, from := range []int{0, most - T} {
				for _, packed := range []Floats{{}, packed} {
					sameBits(t, fmt.Sprintf("rows %d+%d", from, T), run(from, T, packed), all[from*N:(from+T)*N])
				}
			}
		}
	})
}

// AMX sums as its instruction is defined: even and odd indices of 32 apart, from zero, with fused
// multiply-adds; then one with the other; then onto what is there.
func TestBF16OnAMXIsItsDefinition(t *testing.T) {
	const T, N, M = 35, 33, 90
	x, w, y0 := random(1, T*M), random(2, N*M), random(3, T*N)
	want := append([]float32(nil), y0...)
	for i := range want {
		for from := 0; from < M; from += 32 {
			var sums [2]float32
			for m := from; m < min(M, from+32); m++ {
				sums[m%2] = fma32(float32(bf16(x[i/N*M+m])), float32(bf16(w[i%N*M+m])), sums[m%2])
			}
			want[i] += sums[0] + sums[1]
		}
	}
	for _, isa := range []string{"amx", "amx-emulated"} {
		t.Run(isa, func(t *testing.T) {
			b := openBF16(t, isa, 1)
			y := b.put(y0)
			b.must(b.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, Accumulate: true, Precision: BF16, X: b.put(x), W: b.put(w), Y: y}))
			sameBits(t, "y", b.get(y), want)
			if b.ISA() != isa {
				t.Errorf("is named %s", b.ISA())
			}
		})
	}
}

// Paths without the instructions say so and leave the output alone.
func TestBF16IsRefusedWhereItIsMissing(t *testing.T) {
	b := openBed(t, "portable", 1)
	y := b.put([]float32{7})
	err := b.MatMul(MatMul{T: 1, N: 1, M: 1, LdX: 1, LdY: 1, Precision: BF16, X: b.put([]float32{1}), W: b.put([]float32{1}), Y: y})
	if !errors.Is(err, NoDevice) || b.Has(BF16) || b.Has(BF16x3) || !b.Has(Float32) {
		t.Errorf("error %v, bf16 %v, bf16x3 %v, float32 %v", err, b.Has(BF16), b.Has(BF16x3), b.Has(Float32))
	}
	if got := b.get(y); !slices.Equal(got, []float32{7}) {
		t.Errorf("y is %v", got)
	}
}

// A tile of AMX that does not exist is no device; where the instructions are missing, neither is "amx".
func TestOpenRefusesAMXThatIsMissing(t *testing.T) {
	if _, err := Open("cpu", 1, WithISA("amx-2")); !errors.Is(err, NoDevice) {
		t.Errorf("error %v, want NoDevice", err)
	}
	if d, err := Open("cpu", 1, WithISA("amx")); err == nil {
		d.Close()
	} else if !errors.Is(err, NoDevice) {
		t.Errorf("error %v, want NoDevice", err)
	}
}
