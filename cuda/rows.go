package cuda

// Operators that work row by row: fill, add, embedding, RMSNorm, RoPE, SwiGLU.

/*
#include "whale.h"
#cgo noescape whale_embed_forward
#cgo nocallback whale_embed_forward
#cgo noescape whale_embed_backward
#cgo nocallback whale_embed_backward
#cgo noescape whale_rmsnorm_forward
#cgo nocallback whale_rmsnorm_forward
#cgo noescape whale_rmsnorm_backward
#cgo nocallback whale_rmsnorm_backward
#cgo noescape whale_rope_apply
#cgo nocallback whale_rope_apply
#cgo noescape whale_swiglu_forward
#cgo nocallback whale_swiglu_forward
#cgo noescape whale_swiglu_backward
#cgo nocallback whale_swiglu_backward
*/
import "C"

// Fill sets every element of x to value.
func (d *Device) Fill(x Floats, value float32) error {
	c := check{d: d, op: "fill"}
	c.holds("X", x.memory, x.n)
	return c.run(func(dev *C.whale_device) C.whale_status {
		return C.whale_fill(dev, x.c(), C.size_t(x.n), C.float(value))
	})
}

// Add is y += x over x.Len() elements.
func (d *Device) Add(y, x Floats) error {
	c := check{d: d, op: "add"}
	c.holds("X", x.memory, x.n)
	c.holds("Y", y.memory, x.n)
	return c.run(func(dev *C.whale_device) C.whale_status {
		return C.whale_add(dev, y.c(), x.c(), C.size_t(x.n))
	})
}

// Embed is y[t,:] = table[ids[t],:] with y [T, D], table [V, D]. An id outside [0, V) is BadShape.
type Embed struct {
	T, D, V int
	IDs     Ints // [T]
	Table   Floats
	Y       Floats
}

// Embed looks rows up; see the type Embed.
func (d *Device) Embed(a Embed) error {
	c := check{d: d, op: "embed"}
	c.atLeast("T", a.T, 0)
	c.atLeast("D", a.D, 1)
	c.atLeast("V", a.V, 1)
	c.holds("IDs", a.IDs.memory, a.T)
	c.holds("Table", a.Table.memory, a.V*a.D)
	c.holds("Y", a.Y.memory, a.T*a.D)
	s := C.whale_embed{T: C.int(a.T), D: C.int(a.D), V: C.int(a.V), ids: a.IDs.c(), table: a.Table.c(), y: a.Y.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_embed_forward(dev, &s) })
}

// EmbedGrad is dtable[ids[t],:] += dy[t,:], rows taken in order.
type EmbedGrad struct {
	T, D, V int
	IDs     Ints   // [T]
	DY      Floats // [T, D]
	DTable  Floats // [V, D] +=
}

// EmbedBackward adds the gradient of the rows looked up; see EmbedGrad.
func (d *Device) EmbedBackward(a EmbedGrad) error {
	c := check{d: d, op: "embed backward"}
	c.atLeast("T", a.T, 0)
	c.atLeast("D", a.D, 1)
	c.atLeast("V", a.V, 1)
	c.holds("IDs", a.IDs.memory, a.T)
	c.holds("DY", a.DY.memory, a.T*a.D)
	c.holds("DTable", a.DTable.memory, a.V*a.D)
	s := C.whale_embed_grad{T: C.int(a.T), D: C.int(a.D), V: C.int(a.V), ids: a.IDs.c(), dy: a.DY.c(), dtable: a.DTable.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_embed_backward(dev, &s) })
}

// RMSNorm is y = w * x / sqrt(mean(x^2) + eps) over N elements (spec/models.md 1.1, plain).
// Row r starts at (r / Heads) * LdX + (r % Heads) * N: Heads > 1 norms each head of a fused
// projection; Heads = 1, LdX = N is the ordinary case. Rows counts norm rows (T * Heads).
// RStd [Rows] is written for the backward and may be zero. Y may be X if no backward follows.
type RMSNorm struct {
	Rows, N, Heads, LdX, LdY int
	Eps                      float32
	X, W                     Floats
	Y, RStd                  Floats
}

// RMSNorm normalises rows; see the type RMSNorm.
func (d *Device) RMSNorm(a RMSNorm) error {
	c := check{d: d, op: "rmsnorm"}
	c.norm(a.Rows, a.N, a.Heads)
	c.normRows("X", a.X, a.Rows, a.N, a.Heads, a.LdX)
	c.normRows("Y", a.Y, a.Rows, a.N, a.Heads, a.LdY)
	c.holds("W", a.W.memory, a.N)
	c.optional("RStd", a.RStd.memory, a.Rows)
	s := C.whale_rmsnorm{rows: C.int(a.Rows), n: C.int(a.N), heads: C.int(a.Heads), ldx: C.int(a.LdX), ldy: C.int(a.LdY),
		eps: C.float(a.Eps), x: a.X.c(), w: a.W.c(), y: a.Y.c(), rstd: a.RStd.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_rmsnorm_forward(dev, &s) })
}

func (c *check) norm(rows, n, heads int) {
	c.atLeast("Rows", rows, 0)
	c.atLeast("N", n, 1)
	c.atLeast("Heads", heads, 1)
	if c.err == nil && rows%heads != 0 {
		c.fail("Rows is %d, not a multiple of Heads %d", rows, heads)
	}
}

func (c *check) normRows(field string, x Floats, rows, n, heads, ld int) {
	if c.err == nil {
		c.matrix(field, x.memory, rows/heads, ld, heads*n)
	}
}

// RMSNormGrad is the backward of RMSNorm: dx (+= if Accumulate, else =; DX may be DY when
// not accumulating) and dw +=.
type RMSNormGrad struct {
	Rows, N, Heads, LdX, LdDY, LdDX int
	Accumulate                      bool
	DY, X, W, RStd                  Floats
	DX, DW                          Floats
}

// RMSNormBackward is the backward of RMSNorm; see RMSNormGrad.
func (d *Device) RMSNormBackward(a RMSNormGrad) error {
	c := check{d: d, op: "rmsnorm backward"}
	c.norm(a.Rows, a.N, a.Heads)
	c.normRows("DY", a.DY, a.Rows, a.N, a.Heads, a.LdDY)
	c.normRows("X", a.X, a.Rows, a.N, a.Heads, a.LdX)
	c.normRows("DX", a.DX, a.Rows, a.N, a.Heads, a.LdDX)
	c.holds("W", a.W.memory, a.N)
	c.holds("RStd", a.RStd.memory, a.Rows)
	c.holds("DW", a.DW.memory, a.N)
	s := C.whale_rmsnorm_grad{rows: C.int(a.Rows), n: C.int(a.N), heads: C.int(a.Heads), ldx: C.int(a.LdX),
		lddy: C.int(a.LdDY), lddx: C.int(a.LdDX), accumulate: flag(a.Accumulate),
		dy: a.DY.c(), x: a.X.c(), w: a.W.c(), rstd: a.RStd.c(), dx: a.DX.c(), dw: a.DW.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_rmsnorm_backward(dev, &s) })
}

// Rope rotates the first R dims of each of Heads heads of width HeadD in place (rotate-half,
// spec/models.md 1.2). Row t, head h starts at t*Ld + h*HeadD. Cos and Sin are [MaxPos, R/2].
// Inverse rotates back, which is the backward. A position outside the table is BadShape.
type Rope struct {
	T, Heads, HeadD, R, Ld, MaxPos int
	Inverse                        bool
	Pos                            Ints // [T]
	Cos, Sin                       Floats
	X                              Floats
}

// Rope rotates heads in place; see the type Rope.
func (d *Device) Rope(a Rope) error {
	c := check{d: d, op: "rope"}
	c.atLeast("T", a.T, 0)
	c.atLeast("Heads", a.Heads, 1)
	c.atLeast("HeadD", a.HeadD, 1)
	c.atLeast("MaxPos", a.MaxPos, 1)
	if a.R < 2 || a.R > a.HeadD || a.R%2 != 0 {
		c.fail("R is %d, needs an even number up to HeadD %d", a.R, a.HeadD)
	}
	c.holds("Pos", a.Pos.memory, a.T)
	c.holds("Cos", a.Cos.memory, a.MaxPos*a.R/2)
	c.holds("Sin", a.Sin.memory, a.MaxPos*a.R/2)
	c.matrix("X", a.X.memory, a.T, a.Ld, a.Heads*a.HeadD)
	s := C.whale_rope{T: C.int(a.T), heads: C.int(a.Heads), d: C.int(a.HeadD), R: C.int(a.R), ld: C.int(a.Ld),
		max_pos: C.int(a.MaxPos), inverse: flag(a.Inverse), pos: a.Pos.c(), cos: a.Cos.c(), sin: a.Sin.c(), x: a.X.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_rope_apply(dev, &s) })
}

// SwiGLU is y[t,i] = silu(gate) * up; GU [T, 2I] holds gate then up of each row, Y is [T, I].
type SwiGLU struct {
	T, I int
	GU   Floats
	Y    Floats
}

// SwiGLU is the gated activation; see the type SwiGLU.
func (d *Device) SwiGLU(a SwiGLU) error {
	c := check{d: d, op: "swiglu"}
	c.atLeast("T", a.T, 0)
	c.atLeast("I", a.I, 1)
	c.holds("GU", a.GU.memory, a.T*2*a.I)
	c.holds("Y", a.Y.memory, a.T*a.I)
	s := C.whale_swiglu{T: C.int(a.T), I: C.int(a.I), gu: a.GU.c(), y: a.Y.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_swiglu_forward(dev, &s) })
}

// SwiGLUGrad is the backward of SwiGLU: DGU [T, 2I] is overwritten and may be GU; DY is [T, I].
type SwiGLUGrad struct {
	T, I   int
	GU, DY Floats
	DGU    Floats
}

// SwiGLUBackward is the backward of SwiGLU; see SwiGLUGrad.
func (d *Device) SwiGLUBackward(a SwiGLUGrad) error {
	c := check{d: d, op: "swiglu backward"}
	c.atLeast("T", a.T, 0)
	c.atLeast("I", a.I, 1)
	c.holds("GU", a.GU.memory, a.T*2*a.I)
	c.holds("DY", a.DY.memory, a.T*a.I)
	c.holds("DGU", a.DGU.memory, a.T*2*a.I)
	s := C.whale_swiglu_grad{T: C.int(a.T), I: C.int(a.I), gu: a.GU.c(), dy: a.DY.c(), dgu: a.DGU.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_swiglu_backward(dev, &s) })
}
