package cuda

// Matrix products: y = x Wᵀ and its two backwards.

/*
#include "device.h"
#cgo noescape whale_matmul_forward
#cgo nocallback whale_matmul_forward
#cgo noescape whale_matmul_backward_x
#cgo nocallback whale_matmul_backward_x
#cgo noescape whale_matmul_backward_w
#cgo nocallback whale_matmul_backward_w
*/
import "C"

// MatMul is y[t,n] = (Accumulate ? y[t,n] : 0) + sum over m of x[t,m] w[n,m]. X is [T, M] with
// rows LdX apart, W [N, M] contiguous, Y [T, N] with rows LdY apart. Each element is one chain
// of multiply-adds in ascending m.
type MatMul struct {
	T, N, M, LdX, LdY int
	Accumulate        bool
	X, W              Floats
	Y                 Floats
}

// MatMul multiplies by a transposed weight; see the type MatMul.
func (d *Device) MatMul(a MatMul) error {
	c := check{d: d, op: "matmul"}
	c.product(a.T, a.N, a.M)
	c.matrix("X", a.X.memory, a.T, a.LdX, a.M)
	c.holds("W", a.W.memory, a.N*a.M)
	c.matrix("Y", a.Y.memory, a.T, a.LdY, a.N)
	s := C.whale_matmul{T: C.int(a.T), N: C.int(a.N), M: C.int(a.M), ldx: C.int(a.LdX), ldy: C.int(a.LdY),
		accumulate: flag(a.Accumulate), x: a.X.c(), w: a.W.c(), y: a.Y.c()}
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
	DY, W               Floats // [T, N], [N, M]
	DX                  Floats // [T, M]
}

// MatMulBackwardX is the gradient to the input; see MatMulGradX.
func (d *Device) MatMulBackwardX(a MatMulGradX) error {
	c := check{d: d, op: "matmul backward x"}
	c.product(a.T, a.N, a.M)
	c.matrix("DY", a.DY.memory, a.T, a.LdDY, a.N)
	c.holds("W", a.W.memory, a.N*a.M)
	c.matrix("DX", a.DX.memory, a.T, a.LdDX, a.M)
	s := C.whale_matmul_grad_x{T: C.int(a.T), N: C.int(a.N), M: C.int(a.M), lddy: C.int(a.LdDY), lddx: C.int(a.LdDX),
		accumulate: flag(a.Accumulate), dy: a.DY.c(), w: a.W.c(), dx: a.DX.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_matmul_backward_x(dev, &s) })
}

// MatMulGradW is dw[n,m] += sum over t of dy[t,n] x[t,m].
type MatMulGradW struct {
	T, N, M, LdDY, LdX int
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
		dy: a.DY.c(), x: a.X.c(), dw: a.DW.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_matmul_backward_w(dev, &s) })
}

// fmaLoop runs rounds of multiply-adds that never leave the registers, on all threads, and
// returns the number of operations: the ceiling that benchmarks compare with.
func (d *Device) fmaLoop(rounds int) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(C.whale_fma_loop(d.ptr, C.int(rounds)))
}
