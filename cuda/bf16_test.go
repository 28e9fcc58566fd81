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

// openBF16 opens a device that has bfloat16 products, or skips.
func openBF16(t *testing.T, threads int) *bed {
	d, err := Open("cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	has := d.Has(BF16)
	d.Close()
	if !has {
		t.Skip("this processor has no bfloat16 products (AVX512_BF16): nothing tested")
	}
	return openBed(t, "", threads)
}

// bf16Shape is the shape of three products in bfloat16.
type bf16Shape struct{ T, N, M, pad int }

var bf16Shapes = []bf16Shape{
	{1, 1, 1, 0}, {1, 767, 128, 0}, {2, 33, 17, 3}, {5, 64, 96, 0}, {8, 31, 130, 1}, {16, 100, 64, 2},
	{33, 1, 128, 0}, {97, 130, 70, 0}, {200, 257, 129, 1}, {30, 20, 1600, 0}, {801, 40, 33, 0},
}

func (s bf16Shape) name() string { return fmt.Sprintf("T%d N%d M%d", s.T, s.N, s.M) }

// products runs the three products of rounded factors, holds them to double precision, and
// returns y, dx and dw. Packing must not change a bit.
func (s bf16Shape) products(b *bed) [][]float32 {
	T, N, M, ldx, ldy := s.T, s.N, s.M, s.M+s.pad, s.N+s.pad
	x, w, dy, dw0 := random(1, T*M), random(2, N*M), random(3, T*N), random(4, N*M)
	wantY, wantDX, wantDW := zeros(T*N), zeros(T*M), wide(dw0)
	refMatMul(wantY, rounded(x), rounded(w), T, N, M)
	refMatMulGradX(wantDX, rounded(dy), rounded(w), T, N, M)
	refMatMulGradW(wantDW, rounded(dy), rounded(x), T, N, M)
	y, packedY, dx, packedDX, dw := b.poison((T-1)*ldy+N), b.poison((T-1)*ldy+N), b.poison((T-1)*ldx+M), b.poison((T-1)*ldx+M), b.put(dw0)
	xd, dyd, wd := b.put(spread(x, T, M, ldx)), b.put(spread(dy, T, N, ldy)), b.put(w)
	a := MatMul{T: T, N: N, M: M, LdX: ldx, LdY: ldy, Precision: BF16, X: xd, W: wd, Y: y}
	b.must(b.MatMul(a))
	a.Y, a.Packed = packedY, b.pack(BF16, wd, N, M)
	b.must(b.MatMul(a))
	g := MatMulGradX{T: T, N: N, M: M, LdDY: ldy, LdDX: ldx, Precision: BF16, DY: dyd, W: wd, DX: dx}
	b.must(b.MatMulBackwardX(g))
	g.DX, g.Packed = packedDX, a.Packed
	b.must(b.MatMulBackwardX(g))
	b.must(b.MatMulBackwardW(MatMulGradW{T: T, N: N, M: M, LdDY: ldy, LdX: ldx, Precision: BF16, DY: dyd, X: xd, DW: dw}))
	got := [][]float32{b.gather(y, T, N, ldy), b.gather(dx, T, M, ldx), b.get(dw)}
	sameBits(b.t, "y of packed w", b.gather(packedY, T, N, ldy), got[0])
	sameBits(b.t, "dx of packed w", b.gather(packedDX, T, M, ldx), got[1])
	tol := 4e-6 * math.Sqrt(float64(M+N+T))
	for i, want := range [][]float64{wantY, wantDX, wantDW} {
		near(b.t, []string{"y", "dx", "dw"}[i], got[i], want, tol)
	}
	return got
}

// The three products of rounded factors, against double precision; threads must not change a bit.
func TestBF16Products(t *testing.T) {
	for _, s := range bf16Shapes {
		t.Run(s.name(), func(t *testing.T) {
			first := s.products(openBF16(t, 1))
			for threads := 2; threads <= 3; threads++ {
				for i, got := range s.products(openBF16(t, threads)) {
					sameBits(t, fmt.Sprintf("output %d with %d threads", i, threads), got, first[i])
				}
			}
		})
	}
}

func TestBF16RowsStandAlone(t *testing.T) {
	b := openBF16(t, 1)
	const most, N, M = 97, 100, 900
	x, w := b.put(random(1, most*M)), b.put(random(2, N*M))
	run := func(from, T int) []float32 {
		y := b.poison(T * N)
		b.must(b.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, Precision: BF16, X: x.Slice(from*M, (from+T)*M), W: w, Y: y}))
		return b.get(y)
	}
	all := run(0, most)
	for _, T := range []int{1, 2, 3, 4, 7, 8, 13, 15, 64} {
		for _, from := range []int{0, most - T} {
			sameBits(t, fmt.Sprintf("rows %d+%d", from, T), run(from, T), all[from*N:(from+T)*N])
		}
	}
}

// Paths without the instructions say so and leave the output alone.
func TestBF16IsRefusedWhereItIsMissing(t *testing.T) {
	b := openBed(t, "portable", 1)
	y := b.put([]float32{7})
	err := b.MatMul(MatMul{T: 1, N: 1, M: 1, LdX: 1, LdY: 1, Precision: BF16, X: b.put([]float32{1}), W: b.put([]float32{1}), Y: y})
	if !errors.Is(err, NoDevice) || b.Has(BF16) || !b.Has(Float32) {
		t.Errorf("error %v, bf16 %v, float32 %v", err, b.Has(BF16), b.Has(Float32))
	}
	if got := b.get(y); !slices.Equal(got, []float32{7}) {
		t.Errorf("y is %v", got)
	}
}
