package cuda

import (
	"math"
	"testing"
)

// Each backward reference against central differences of its forward reference, both in double
// precision. TestOps holds the device to the references, so the two together are the gradient
// check of the device.

// differences fails unless grad is the gradient of the loss with respect to x.
func differences(t *testing.T, name string, x, grad []float64, loss func() float64) {
	t.Helper()
	const h = 1e-5
	if len(x) != len(grad) {
		t.Fatalf("%s: %d gradients of %d elements", name, len(grad), len(x))
	}
	for i := range x {
		at := x[i]
		x[i] = at + h
		up := loss()
		x[i] = at - h
		down := loss()
		x[i] = at
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-7*max(1, math.Abs(want)) {
			t.Fatalf("%s[%d] is %v, differences give %v", name, i, grad[i], want)
		}
	}
}

func dot(x, y []float64) (s float64) {
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

func TestGradientMatMul(t *testing.T) {
	const T, N, M = 3, 5, 4
	x, w, dy := wide(random(1, T*M)), wide(random(2, N*M)), wide(random(3, T*N))
	dx, dw := zeros(T*M), zeros(N*M)
	refMatMulGradX(dx, dy, w, T, N, M)
	refMatMulGradW(dw, dy, x, T, N, M)
	loss := func() float64 {
		y := zeros(T * N)
		refMatMul(y, x, w, T, N, M)
		return dot(y, dy)
	}
	differences(t, "dx", x, dx, loss)
	differences(t, "dw", w, dw, loss)
}

func TestGradientRMSNorm(t *testing.T) {
	const rows, n, eps = 3, 7, 1e-3
	x, w, dy := wide(random(1, rows*n)), wide(random(2, n)), wide(random(3, rows*n))
	_, rstd := refRMSNorm(x, w, rows, n, eps)
	dx, dw := refRMSNormGrad(dy, x, w, rstd, rows, n)
	loss := func() float64 {
		y, _ := refRMSNorm(x, w, rows, n, eps)
		return dot(y, dy)
	}
	differences(t, "dx", x, dx, loss)
	differences(t, "dw", w, dw, loss)
}

func TestGradientRope(t *testing.T) {
	pos := []int32{4, 9}
	cos, sin := ropeTable(10, 4, 100)
	x, dy := wide(random(1, 2*2*6)), wide(random(2, 2*2*6))
	dx := append([]float64(nil), dy...)
	refRope(dx, pos, cos, sin, 2, 6, 4, true)
	differences(t, "dx", x, dx, func() float64 {
		y := append([]float64(nil), x...)
		refRope(y, pos, cos, sin, 2, 6, 4, false)
		return dot(y, dy)
	})
}

func TestGradientAttention(t *testing.T) {
	gradientAttention(t, attShape{start: []int32{0, 2, 6}, H: 4, K: 2, d: 3})
	gradientAttention(t, planted(attShape{H: 4, K: 2, d: 3}, []path{{0, 3}, {2, 2}, {1, 1}}, []path{{0, 1}, {1, 1}}))
}

func gradientAttention(t *testing.T, s attShape) {
	q, k, v := wide(random(1, s.T()*s.H*s.d)), wide(random(2, s.T()*s.K*s.d)), wide(random(3, s.T()*s.K*s.d))
	do := wide(random(4, s.T()*s.H*s.d))
	dq, dk, dv := refAttentionGrad(s, q, k, v, do)
	loss := func() float64 {
		o, _ := refAttention(s, q, k, v)
		return dot(o, do)
	}
	differences(t, "dq", q, dq, loss)
	differences(t, "dk", k, dk, loss)
	differences(t, "dv", v, dv, loss)
}

func TestGradientSwiGLU(t *testing.T) {
	const T, I = 2, 5
	gu, dy := wide(random(1, T*2*I)), wide(random(2, T*I))
	differences(t, "dgu", gu, refSwiGLUGrad(gu, dy, T, I), func() float64 { return dot(refSwiGLU(gu, T, I), dy) })
}

func TestGradientCrossEntropy(t *testing.T) {
	const T, V, tau = 3, 6, .8
	z, target, weight := wide(random(1, T*V)), []int32{5, 0, 2}, []float64{.5, 0, .25}
	_, dz := refCrossEntropy(z, target, weight, T, V, tau)
	differences(t, "dz", z, dz, func() float64 {
		nll, _ := refCrossEntropy(z, target, weight, T, V, tau)
		return dot(nll, weight)
	})
}
