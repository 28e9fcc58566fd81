package cuda

import (
	"errors"
	"strings"
	"testing"
)

// but is a copy of a with one change.
func but[A any](a A, change func(*A)) A {
	change(&a)
	return a
}

// Every operator refuses arguments that break its contract, names itself and the field, and
// leaves its output alone. The first group is caught by lengths, the second by what indices say.
func TestBadShapes(t *testing.T) {
	t.Run("cpu", func(t *testing.T) { refusesBadShapes(openBed(t, "", 2)) })
	t.Run("simt", func(t *testing.T) { refusesBadShapes(openBed(t, "simt", 1)) })
}

func refusesBadShapes(b *bed) {
	t := b.t
	other := openBed(t, "", 1)
	f, few, ids := b.put(make([]float32, 64)), b.put(make([]float32, 3)), b.ints(make([]int32, 8))
	far, back, three := b.ints([]int32{0, 9}), b.ints([]int32{0, 2, 1}), b.ints([]int32{0, 3})
	out := b.poison(64)
	host, ints, us := make([]float32, 2), make([]int32, 2), make([]float64, 2)
	mm := MatMul{T: 2, N: 4, M: 4, LdX: 4, LdY: 4, X: f, W: f, Y: out}
	att := Attention{T: 2, B: 1, H: 2, K: 1, HeadD: 4, LdQ: 8, LdKV: 4, LdO: 8, Start: b.ints([]int32{0, 2}), Query: f, Key: f, Value: f, Out: out}
	pg := Paged{T: 2, B: 1, H: 2, K: 1, HeadD: 4, P: 2, Pages: 2, MaxPages: 2, LdQ: 8, LdKV: 4, LdO: 8, Seq: ids, Pos: ids, PageTable: ids,
		Query: f, Key: f, Value: f, KeyPages: f, ValuePages: f, Out: out}
	sm := Sample{T: 2, V: 4, LdZ: 4, Valid: 4, Z: f, Tau: host, TopP: host, TopK: ints, U: us, ID: ints}
	ce := CrossEntropy{T: 2, V: 4, LdZ: 4, Tau: 1, Target: ids, Z: f, NLL: out}
	for _, c := range []struct {
		name, op, field string
		err             error
	}{
		{"short x", "matmul", "X", b.MatMul(but(mm, func(a *MatMul) { a.X = few }))},
		{"narrow rows", "matmul", "Y", b.MatMul(but(mm, func(a *MatMul) { a.LdY = 3 }))},
		{"no w", "matmul", "W", b.MatMul(but(mm, func(a *MatMul) { a.W = Floats{} }))},
		{"foreign w", "matmul", "another device", b.MatMul(but(mm, func(a *MatMul) { a.W = other.put(make([]float32, 64)) }))},
		{"negative T", "matmul", "T", b.MatMul(but(mm, func(a *MatMul) { a.T = -1 }))},
		{"no N", "matmul backward x", "N", b.MatMulBackwardX(MatMulGradX{T: 1, M: 1})},
		{"short dw", "matmul backward w", "DW", b.MatMulBackwardW(MatMulGradW{T: 2, N: 4, M: 4, LdDY: 4, LdX: 4, DY: f, X: f, DW: few})},
		{"short y", "add", "Y", b.Add(few, f)},
		{"short table", "embed", "Table", b.Embed(Embed{T: 1, D: 4, V: 40, IDs: ids, Table: f, Y: out})},
		{"short dtable", "embed backward", "DTable", b.EmbedBackward(EmbedGrad{T: 1, D: 4, V: 1, IDs: ids, DY: f, DTable: few})},
		{"split head", "rmsnorm", "Rows", b.RMSNorm(RMSNorm{Rows: 3, N: 2, Heads: 2, LdX: 4, LdY: 4, X: f, W: f, Y: out})},
		{"no rstd", "rmsnorm backward", "RStd", b.RMSNormBackward(RMSNormGrad{Rows: 1, N: 2, Heads: 1, LdX: 2, LdDY: 2, LdDX: 2, DY: f, X: f, W: f, DX: out, DW: out})},
		{"odd R", "rope", "R", b.Rope(Rope{T: 1, Heads: 1, HeadD: 4, R: 3, Ld: 4, MaxPos: 1, Pos: ids, Cos: f, Sin: f, X: out})},
		{"short gu", "swiglu", "GU", b.SwiGLU(SwiGLU{T: 9, I: 4, GU: f, Y: out})},
		{"short dy", "swiglu backward", "DY", b.SwiGLUBackward(SwiGLUGrad{T: 1, I: 4, GU: f, DY: few, DGU: out})},
		{"uneven heads", "attention", "H", b.Attention(but(att, func(a *Attention) { a.H, a.K = 3, 2 }))},
		{"short lse", "attention", "LSE", b.Attention(but(att, func(a *Attention) { a.LSE = few }))},
		{"no dout", "attention backward", "DOut", b.AttentionBackward(AttentionGrad{T: 2, B: 1, H: 2, K: 1, HeadD: 4, LdQ: 8, LdKV: 4, LdO: 8,
			Start: att.Start, Query: f, Key: f, Value: f, Out: f, LSE: f, DQuery: out, DKey: out, DValue: out})},
		{"short pages", "paged attend", "KeyPages", b.PagedAttend(but(pg, func(a *Paged) { a.Pages = 9 }))},
		{"short key", "paged store", "Key", b.PagedStore(but(pg, func(a *Paged) { a.Key = few }))},
		{"no tau", "cross entropy", "Tau", b.CrossEntropy(but(ce, func(a *CrossEntropy) { a.Tau = 0 }))},
		{"no weight", "cross entropy", "Weight", b.CrossEntropy(but(ce, func(a *CrossEntropy) { a.DZ = out }))},
		{"short m", "adamw", "M", b.AdamW(AdamW{C1: 1, C2: 1, P: out, M: few, V: f, G: f})},
		{"short u", "sample", "U", b.Sample(but(sm, func(a *Sample) { a.U = us[:1] }))},
		{"valid", "sample", "Valid", b.Sample(but(sm, func(a *Sample) { a.Valid = 5 }))},

		{"id", "embed", "ids[1] is 9", b.Embed(Embed{T: 2, D: 4, V: 4, IDs: far, Table: f, Y: out})},
		{"id", "embed backward", "ids[1] is 9", b.EmbedBackward(EmbedGrad{T: 2, D: 4, V: 4, IDs: far, DY: f, DTable: out})},
		{"position", "rope", "pos[1] is 9", b.Rope(Rope{T: 2, Heads: 1, HeadD: 4, R: 4, Ld: 4, MaxPos: 3, Pos: far, Cos: f, Sin: f, X: out})},
		{"falling start", "attention", "start[2]", b.Attention(but(att, func(a *Attention) { a.B, a.Start = 2, back }))},
		{"start past T", "attention", "start[1]", b.Attention(but(att, func(a *Attention) { a.Start = three }))},
		{"ends before it begins", "attention", "until", b.Attention(but(att, func(a *Attention) { a.Until = b.ints([]int32{2, 1}) }))},
		{"ends after the row it follows", "attention", "until", b.Attention(but(att, func(a *Attention) { a.Until = b.ints([]int32{1, 3}) }))},
		{"short until", "attention", "Until", b.Attention(but(att, func(a *Attention) { a.Until = b.ints([]int32{2}) }))},
		{"sequence", "paged store", "seq[1] is 9", b.PagedStore(but(pg, func(a *Paged) { a.Seq = far }))},
		{"position", "paged attend", "pos[1] is 9", b.PagedAttend(but(pg, func(a *Paged) { a.Pos = far }))},
		{"page", "paged attend", "page_table[0,1] is 9", b.PagedAttend(but(pg, func(a *Paged) { a.Pos, a.PageTable = b.ints([]int32{0, 2}), far }))},
		{"target", "cross entropy", "target[1] is 9", b.CrossEntropy(but(ce, func(a *CrossEntropy) { a.Target = far }))},
		{"u of 1", "sample", "u[0]", b.Sample(but(sm, func(a *Sample) { a.U = []float64{1, 0} }))},
	} {
		var e *Error
		if !errors.Is(c.err, BadShape) || !errors.As(c.err, &e) || e.Op != c.op || !strings.Contains(e.Text, c.field) {
			t.Errorf("%s: got %v, want %s to refuse and to name %s", c.name, c.err, c.op, c.field)
		}
	}
	sameBits(t, "outputs", b.get(out), spread(nil, 1, 64, 64))
}

// A call without rows is no work for any operator, whichever way it lays out the product.
func TestNoRows(t *testing.T) {
	onAll(t, takesNoRows)
}

func takesNoRows(b *bed) {
	t := b.t
	for _, n := range []int{1, 16, 256} {
		w, y := b.put(make([]float32, n*n)), b.poison(n)
		for name, err := range map[string]error{
			"matmul":            b.MatMul(MatMul{N: n, M: n, LdX: n, LdY: n, X: w, W: w, Y: y}),
			"matmul accumulate": b.MatMul(MatMul{N: n, M: n, LdX: n, LdY: n, Accumulate: true, X: w, W: w, Y: y}),
			"backward x":        b.MatMulBackwardX(MatMulGradX{N: n, M: n, LdDY: n, LdDX: n, DY: w, W: w, DX: y}),
			"backward w":        b.MatMulBackwardW(MatMulGradW{N: n, M: n, LdDY: n, LdX: n, DY: w, X: w, DW: w}),
			"embed":             b.Embed(Embed{D: n, V: n, Table: w, Y: y}),
			"rmsnorm":           b.RMSNorm(RMSNorm{N: n, Heads: 1, LdX: n, LdY: n, X: w, W: w, Y: y}),
			"swiglu":            b.SwiGLU(SwiGLU{I: n, GU: w, Y: y}),
			"cross entropy":     b.CrossEntropy(CrossEntropy{V: n, LdZ: n, Tau: 1, Z: w, NLL: y}),
		} {
			if err != nil {
				t.Errorf("%s of no rows, width %d: %v", name, n, err)
			}
		}
	}
}
