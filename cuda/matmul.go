package cuda

// Matrix products: y = x Wᵀ and its two backwards.

/*
#include "device.h"
#cgo noescape whale_pack_weight
#cgo nocallback whale_pack_weight
#cgo noescape whale_matmul_forward
#cgo nocallback whale_matmul_forward
#cgo noescape whale_matmul_backward_x
#cgo nocallback whale_matmul_backward_x
#cgo noescape whale_matmul_backward_w
#cgo nocallback whale_matmul_backward_w
*/
import "C"

// Precision is the arithmetic of a matrix product.
type Precision int

// Float32 is the default. BF16 rounds both factors to bfloat16 and sums in float32; only
// machines with such instructions have it (Device.Has), elsewhere products answer NoDevice. Int8
// rounds both factors to 8 bits, 64 summed indices at a scale, and is for generation: forward
// products with a packed weight only. BF16x3 is nearly float32, from three products of bfloat16:
// fast where those run on AMX, and slower than float32 elsewhere.
const (
	Float32 Precision = C.WHALE_FLOAT32
	BF16    Precision = C.WHALE_BF16
	Int8    Precision = C.WHALE_INT8
	BF16x3  Precision = C.WHALE_BF16X3
)

// String is "float32", "bf16", "int8" or "bf16x3".
func (p Precision) String() string {
	switch p {
	case BF16:
		return "bf16"
	case Int8:
		return "int8"
	case BF16x3:
		return "bf16x3"
	}
	return "float32"
}

// Has reports whether products of this precision run here.
func (d *Device) Has(p Precision) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ptr != nil && C.whale_has(d.ptr, C.whale_precision(p)) != 0
}

// PackedFloats is the room that PackWeight needs for a weight [N, M].
func (d *Device) PackedFloats(p Precision, n, m int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ptr == nil {
		return 0
	}
	return int(C.whale_packed_floats(d.ptr, C.whale_precision(p), C.int(n), C.int(m)))
}

// Pack is a weight W [N, M] and the room for its copy in the order in which products of one
// precision read it.
type Pack struct {
	N, M      int
	Precision Precision
	W         Floats
	Packed    Floats // PackedFloats
}

// PackWeight writes the copy, which is stale once W changes. Errors: BadShape, NoDevice
// (no such precision), Broken.
func (d *Device) PackWeight(a Pack) error {
	c := check{d: d, op: "pack weight"}
	c.product(0, a.N, a.M)
	c.holds("W", a.W.memory, a.N*a.M)
	c.holds("Packed", a.Packed.memory, d.PackedFloats(a.Precision, a.N, a.M))
	s := C.whale_pack{N: C.int(a.N), M: C.int(a.M), precision: C.whale_precision(a.Precision), w: a.W.c(), packed: a.Packed.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_pack_weight(dev, &s) })
}

// MatMul is y[t,n] = (Accumulate ? y[t,n] : 0) + sum over m of x[t,m] w[n,m]. X is [T, M] with
// rows LdX apart, W [N, M] contiguous, Y [T, N] with rows LdY apart. Each element is one chain
// of multiply-adds in ascending m. Packed, if there, is what PackWeight made of W for this
// precision; it changes the speed and not the bits.
type MatMul struct {
	T, N, M, LdX, LdY int
	Accumulate        bool
	Precision         Precision
	X, W, Packed      Floats
	Y                 Floats
}

// MatMul multiplies by a transposed weight; see the type MatMul.
func (d *Device) MatMul(a MatMul) error {
	c := check{d: d, op: "matmul"}
	c.product(a.T, a.N, a.M)
	c.matrix("X", a.X.memory, a.T, a.LdX, a.M)
	c.holds("W", a.W.memory, a.N*a.M)
	c.matrix("Y", a.Y.memory, a.T, a.LdY, a.N)
	if !a.Packed.IsNil() {
		c.holds("Packed", a.Packed.memory, d.PackedFloats(a.Precision, a.N, a.M))
	}
	s := C.whale_matmul{T: C.int(a.T), N: C.int(a.N), M: C.int(a.M), ldx: C.int(a.LdX), ldy: C.int(a.LdY),
		accumulate: flag(a.Accumulate), precision: C.whale_precision(a.Precision),
		x: a.X.c(), w: a.W.c(), packed: a.Packed.c(), y: a.Y.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_matmul_forward(dev, &s) })
}

func (c *check) product(t, n, m int) {
	c.atLeast("T", t, 0)
	c.atLeast("N", n, 1)
	c.atLeast("M", m, 1)
}

// MatMulGradX is dx[t,m] = (Accumulate ? dx[t,m] : 0) + sum over n of dy[t,n] w[n,m].
type MatMulGradX struct {
	T, N, M, LdDY, LdDX int
	Accumulate          bool
	Precision           Precision
	DY, W, Packed       Floats // [T, N], [N, M]; Packed as in MatMul, or nothing
	DX                  Floats // [T, M]
}

// MatMulBackwardX is the gradient to the input; see MatMulGradX.
func (d *Device) MatMulBackwardX(a MatMulGradX) error {
	c := check{d: d, op: "matmul backward x"}
	c.product(a.T, a.N, a.M)
	c.matrix("DY", a.DY.memory, a.T, a.LdDY, a.N)
	c.holds("W", a.W.memory, a.N*a.M)
	if !a.Packed.IsNil() {
		c.holds("Packed", a.Packed.memory, d.PackedFloats(a.Precision, a.N, a.M))
	}
	c.matrix("DX", a.DX.memory, a.T, a.LdDX, a.M)
	s := C.whale_matmul_grad_x{T: C.int(a.T), N: C.int(a.N), M: C.int(a.M), lddy: C.int(a.LdDY), lddx: C.int(a.LdDX),
		accumulate: flag(a.Accumulate), precision: C.whale_precision(a.Precision),
		dy: a.DY.c(), w: a.W.c(), packed: a.Packed.c(), dx: a.DX.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_matmul_backward_x(dev, &s) })
}

// MatMulGradW is dw[n,m] += sum over t of dy[t,n] x[t,m].
type MatMulGradW struct {
	T, N, M, LdDY, LdX int
	Precision          Precision
	DY, X              Floats // [T, N], [T, M]
	DW                 Floats // [N, M] +=
}

// MatMulBackwardW adds the gradient to the weight; see MatMulGradW.
func (d *Device) MatMulBackwardW(a MatMulGradW) error {
	c := check{d: d, op: "matmul backward w"}
	c.product(a.T, a.N, a.M)
	c.matrix("DY", a.DY.memory, a.T, a.LdDY, a.N)
	c.matrix("X", a.X.memory, a.T, a.LdX, a.M)
	c.holds("DW", a.DW.memory, a.N*a.M)
	s := C.whale_matmul_grad_w{T: C.int(a.T), N: C.int(a.N), M: C.int(a.M), lddy: C.int(a.LdDY), ldx: C.int(a.LdX),
		precision: C.whale_precision(a.Precision), dy: a.DY.c(), x: a.X.c(), dw: a.DW.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_matmul_backward_w(dev, &s) })
}

// fmaLoop runs rounds of multiply-adds that never leave the registers, on all threads, and
// returns the number of operations: the ceiling that benchmarks compare with.
func (d *Device) fmaLoop(rounds int) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(C.whale_fma_loop(d.ptr, C.int(rounds)))
}
