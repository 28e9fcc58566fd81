package cuda

// Causal grouped-query attention: packed sequences (training) and a paged cache (generation).

/*
#include "whale.h"
#cgo noescape whale_attention_forward
#cgo nocallback whale_attention_forward
#cgo noescape whale_attention_backward
#cgo nocallback whale_attention_backward
#cgo noescape whale_paged_store
#cgo nocallback whale_paged_store
#cgo noescape whale_paged_attend
#cgo nocallback whale_paged_attend
*/
import "C"

// Attention is causal attention over packed sequences (spec/models.md 1.3). Start [B+1]:
// sequence b owns rows Start[b]..Start[b+1), Start[0] = 0, Start[B] = T. Until [T], if it is there,
// makes the sequences trees in pre-order, of rows that share how they begin: rows t..Until[t]-1
// see row t. Head h of row t starts
// at t*LdQ + h*HeadD; query head h reads key/value head h / (H/K). Scale multiplies the scores
// (HeadD^-1/2). Precision BF16 lets a device round factors to bfloat16. Out
// rows are LdO apart. LSE [T, H] is the log-sum-exp of the scaled scores for
// the backward; it may be zero.
type Attention struct {
	T, B, H, K, HeadD, LdQ, LdKV, LdO int
	Scale                             float32
	Precision                         Precision
	Start, Until                      Ints
	Query, Key, Value                 Floats
	Out, LSE                          Floats
}

// heads is the part of the shape that all four calls share.
func (c *check) heads(t, b, h, k, d int) {
	c.atLeast("T", t, 0)
	c.atLeast("B", b, 0)
	c.atLeast("H", h, 1)
	c.atLeast("K", k, 1)
	c.atLeast("HeadD", d, 1)
	if c.err == nil && h%k != 0 {
		c.fail("H is %d, not a multiple of K %d", h, k)
	}
}

// Attention is the packed forward; see the type Attention.
func (d *Device) Attention(a Attention) error {
	c := check{d: d, op: "attention"}
	c.heads(a.T, a.B, a.H, a.K, a.HeadD)
	c.holds("Start", a.Start.memory, a.B+1)
	c.optional("Until", a.Until.memory, a.T)
	c.matrix("Query", a.Query.memory, a.T, a.LdQ, a.H*a.HeadD)
	c.matrix("Key", a.Key.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("Value", a.Value.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("Out", a.Out.memory, a.T, a.LdO, a.H*a.HeadD)
	c.optional("LSE", a.LSE.memory, a.T*a.H)
	s := C.whale_attention{T: C.int(a.T), B: C.int(a.B), H: C.int(a.H), K: C.int(a.K), d: C.int(a.HeadD),
		ldq: C.int(a.LdQ), ldkv: C.int(a.LdKV), ldo: C.int(a.LdO), scale: C.float(a.Scale), precision: C.whale_precision(a.Precision),
		start: a.Start.c(), until: a.Until.c(),
		q: a.Query.c(), k: a.Key.c(), v: a.Value.c(), o: a.Out.c(), lse: a.LSE.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_attention_forward(dev, &s) })
}

// AttentionGrad is the backward of Attention. DQuery, DKey and DValue are overwritten and have
// the strides of Query, Key and Value; DOut has the stride of Out.
type AttentionGrad struct {
	T, B, H, K, HeadD, LdQ, LdKV, LdO int
	Scale                             float32
	Precision                         Precision
	Start, Until                      Ints
	Query, Key, Value                 Floats
	Out, LSE, DOut                    Floats
	DQuery, DKey, DValue              Floats
}

// AttentionBackward is the packed backward; see AttentionGrad.
func (d *Device) AttentionBackward(a AttentionGrad) error {
	c := check{d: d, op: "attention backward"}
	c.heads(a.T, a.B, a.H, a.K, a.HeadD)
	c.holds("Start", a.Start.memory, a.B+1)
	c.optional("Until", a.Until.memory, a.T)
	c.matrix("Query", a.Query.memory, a.T, a.LdQ, a.H*a.HeadD)
	c.matrix("Key", a.Key.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("Value", a.Value.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("Out", a.Out.memory, a.T, a.LdO, a.H*a.HeadD)
	c.matrix("DOut", a.DOut.memory, a.T, a.LdO, a.H*a.HeadD)
	c.holds("LSE", a.LSE.memory, a.T*a.H)
	c.matrix("DQuery", a.DQuery.memory, a.T, a.LdQ, a.H*a.HeadD)
	c.matrix("DKey", a.DKey.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("DValue", a.DValue.memory, a.T, a.LdKV, a.K*a.HeadD)
	s := C.whale_attention_grad{T: C.int(a.T), B: C.int(a.B), H: C.int(a.H), K: C.int(a.K), d: C.int(a.HeadD),
		ldq: C.int(a.LdQ), ldkv: C.int(a.LdKV), ldo: C.int(a.LdO), scale: C.float(a.Scale), precision: C.whale_precision(a.Precision),
		start: a.Start.c(), until: a.Until.c(),
		q: a.Query.c(), k: a.Key.c(), v: a.Value.c(), o: a.Out.c(), lse: a.LSE.c(), do_: a.DOut.c(),
		dq: a.DQuery.c(), dk: a.DKey.c(), dv: a.DValue.c()}
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_attention_backward(dev, &s) })
}

// PageFloats is the room of a page of P positions, in the keys as in the values of a layer.
func (d *Device) PageFloats(p Precision, k, headD, P int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ptr == nil {
		return 0
	}
	return int(C.whale_page_floats(d.ptr, C.whale_precision(p), C.int(k), C.int(headD), C.int(P)))
}

// Paged is attention over a paged cache of one layer: KeyPages and ValuePages are
// [Pages, PageFloats]: [P, K*HeadD] in float32. Row t belongs to sequence Seq[t] at position Pos[t]; PageTable
// [B, MaxPages] maps position / P to a page. PagedStore writes the rows' Key (after norm and
// RoPE) and Value to their pages and does not use Query and Out; PagedAttend reads positions
// 0..Pos[t] of the pages and does not use Key and Value. Rows have the same bits as in
// Attention.
type Paged struct {
	T, B, H, K, HeadD, P, Pages, MaxPages, LdQ, LdKV, LdO int
	Scale                                                 float32
	Precision                                             Precision
	Seq, Pos                                              Ints // [T]
	PageTable                                             Ints // [B, MaxPages]
	Query, Key, Value                                     Floats
	KeyPages, ValuePages                                  Floats
	Out                                                   Floats
}

func (a *Paged) c() C.whale_paged {
	return C.whale_paged{T: C.int(a.T), B: C.int(a.B), H: C.int(a.H), K: C.int(a.K), d: C.int(a.HeadD), P: C.int(a.P),
		pages: C.int(a.Pages), max_pages: C.int(a.MaxPages), ldq: C.int(a.LdQ), ldkv: C.int(a.LdKV), ldo: C.int(a.LdO),
		scale: C.float(a.Scale), precision: C.whale_precision(a.Precision),
		seq: a.Seq.c(), pos: a.Pos.c(), page_table: a.PageTable.c(),
		q: a.Query.c(), k: a.Key.c(), v: a.Value.c(), kpages: a.KeyPages.c(), vpages: a.ValuePages.c(), o: a.Out.c()}
}

func (c *check) paged(a *Paged) {
	c.heads(a.T, a.B, a.H, a.K, a.HeadD)
	c.atLeast("P", a.P, 1)
	c.atLeast("Pages", a.Pages, 0)
	c.atLeast("MaxPages", a.MaxPages, 0)
	c.holds("Seq", a.Seq.memory, a.T)
	c.holds("Pos", a.Pos.memory, a.T)
	c.holds("PageTable", a.PageTable.memory, a.B*a.MaxPages)
	floats := a.Pages * c.d.PageFloats(a.Precision, a.K, a.HeadD, a.P)
	c.holds("KeyPages", a.KeyPages.memory, floats)
	c.holds("ValuePages", a.ValuePages.memory, floats)
}

// PagedStore writes keys and values of the rows to the cache; see Paged. A sequence, position
// or page out of range is BadShape and nothing is written.
func (d *Device) PagedStore(a Paged) error {
	c := check{d: d, op: "paged store"}
	c.paged(&a)
	c.matrix("Key", a.Key.memory, a.T, a.LdKV, a.K*a.HeadD)
	c.matrix("Value", a.Value.memory, a.T, a.LdKV, a.K*a.HeadD)
	s := a.c()
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_paged_store(dev, &s) })
}

// PagedAttend attends to the cache; see Paged. A sequence, position or page out of range is
// BadShape and nothing is written.
func (d *Device) PagedAttend(a Paged) error {
	c := check{d: d, op: "paged attend"}
	c.paged(&a)
	c.matrix("Query", a.Query.memory, a.T, a.LdQ, a.H*a.HeadD)
	c.matrix("Out", a.Out.memory, a.T, a.LdO, a.H*a.HeadD)
	s := a.c()
	return c.run(func(dev *C.whale_device) C.whale_status { return C.whale_paged_attend(dev, &s) })
}
