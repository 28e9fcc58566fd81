package cuda

// The loss and the optimizer.

/*
#include "whale.h"
#cgo noescape whale_xent_loss
#cgo nocallback whale_xent_loss
#cgo noescape whale_adamw_step
#cgo nocallback whale_adamw_step
#cgo noescape whale_sumsq
#cgo nocallback whale_sumsq
*/
import "C"

// CrossEntropy is nll[t] = logsumexp(z_t / Tau) - z_t[target[t]] / Tau on logits Z [T, V] with
// rows LdZ apart. If DZ is given, dz = weight[t] / Tau * (softmax(z / Tau) - onehot(target)) is
// written with the same stride; DZ may be Z. Weight [T] (already divided by the number of
// trained tokens) may be zero only without DZ; a weight of 0 gives a row of exact zeros.
// Columns V and up of a row are neither read nor written. A target outside [0, V) is BadShape.
type CrossEntropy struct {
	T, V, LdZ int
	Tau       float32
	Target    Ints   // [T]
	Weight    Floats // [T]
	Z, DZ     Floats
	NLL       Floats // [T]
}

// CrossEntropy is the loss and its gradient; see the type CrossEntropy.
func (d *Device) CrossEntropy(a CrossEntropy) error {
	c := check{d: d, op: "cross entropy"}
	c.atLeast("T", a.T, 0)
	c.atLeast("V", a.V, 1)
	if !(a.Tau > 0) {
		c.fail("Tau is %g, needs to be positive", a.Tau)
	}
	c.holds("Target", a.Target.memory, a.T)
	c.matrix("Z", a.Z.memory, a.T, a.LdZ, a.V)
	if !a.DZ.IsNil() {
		c.matrix("DZ", a.DZ.memory, a.T, a.LdZ, a.V)
		c.holds("Weight", a.Weight.memory, a.T)
	}
	c.holds("NLL", a.NLL.memory, a.T)
	s := C.whale_xent{T: C.int(a.T), V: C.int(a.V), ldz: C.int(a.LdZ), tau: C.float(a.Tau), target: a.Target.c(),
		weight: a.Weight.c(), z: a.Z.c(), dz: a.DZ.c(), nll: a.NLL.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_xent_loss(dev, &s) })
}

// SumSquares is the sum of the squares of x in double precision, added in a fixed order.
func (d *Device) SumSquares(x Floats) (float64, error) {
	c := check{d: d, op: "sum of squares"}
	c.holds("X", x.memory, x.n)
	var sum C.double
	err := c.run(func(dev *C.whale_device) C.whale_status {
		return C.whale_sumsq(dev, x.c(), C.size_t(x.n), &sum)
	})
	return float64(sum), err
}

// AdamW is one step with decoupled decay (spec/rsft.md 3) on P.Len() parameters. The gradient
// is multiplied by Clip first. C1 = 1 - B1^t and C2 = 1 - B2^t are the bias corrections.
type AdamW struct {
	LR, B1, B2, Eps, Decay, Clip float32
	C1, C2                       float64
	P, M, V                      Floats // updated
	G                            Floats // read only
}

// AdamW updates parameters and moments; see the type AdamW.
func (d *Device) AdamW(a AdamW) error {
	c := check{d: d, op: "adamw"}
	n := a.P.n
	c.holds("P", a.P.memory, n)
	c.holds("M", a.M.memory, n)
	c.holds("V", a.V.memory, n)
	c.holds("G", a.G.memory, n)
	if !(a.C1 > 0) || !(a.C2 > 0) {
		c.fail("C1 and C2 are %g and %g, need to be positive", a.C1, a.C2)
	}
	s := C.whale_adamw{n: C.size_t(n), lr: C.float(a.LR), b1: C.float(a.B1), b2: C.float(a.B2), eps: C.float(a.Eps),
		decay: C.float(a.Decay), clip: C.float(a.Clip), c1: C.double(a.C1), c2: C.double(a.C2),
		p: a.P.c(), m: a.M.c(), v: a.V.c(), g: a.G.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_adamw_step(dev, &s) })
}
