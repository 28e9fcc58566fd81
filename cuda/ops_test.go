package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// output is one array that an operator wrote, with its double-precision reference.
type output struct {
	name string
	got  []float32
	want []float64
}

// opCase is one operator at one shape. run makes the call on a device and returns all that it
// wrote; every case runs on every instruction set with 1, 2 and 3 threads, and those of little
// work on simt.
type opCase struct {
	name string
	tol  float64
	run  func(b *bed) []output
}

// everything is the limit of opCases that leaves no shape out.
const everything = math.MaxInt

// opCases are the cases of at most the given work, in multiply-adds or so.
func opCases(most int) []opCase {
	var cases []opCase
	for _, f := range []func(int) []opCase{matmulCases, normCases, ropeCases, attentionCases, swigluCases, lossCases, flatCases} {
		cases = append(cases, f(most)...)
	}
	return cases
}

// The one table: operator x shape x tolerance, through every path. Threads must not change a
// bit, and AVX2 gives the bits of AVX-512.
func TestOps(t *testing.T) {
	for _, c := range opCases(everything) {
		t.Run(c.name, func(t *testing.T) {
			first := map[string][]output{}
			for _, isa := range isas {
				t.Run(isa, func(t *testing.T) {
					for threads := 1; threads <= 3; threads++ {
						outs := c.run(openBed(t, isa, threads))
						if threads == 1 {
							first[isa] = outs
						}
						for i, o := range outs {
							near(t, o.name, o.got, o.want, c.tol)
							sameBits(t, fmt.Sprintf("%s with %d threads", o.name, threads), o.got, first[isa][i].got)
						}
					}
				})
			}
			for i := range first["avx512"] {
				if first["avx2"] != nil {
					sameBits(t, "avx2 "+first["avx2"][i].name, first["avx2"][i].got, first["avx512"][i].got)
				}
			}
		})
	}
}

func zeros(n int) []float64 { return make([]float64, n) }

func matmulCases(most int) (cases []opCase) {
	for _, s := range []struct{ T, N, M, pad int }{
		{0, 3, 4, 0}, {1, 1, 1, 0}, {1, 767, 128, 0}, {2, 33, 17, 3}, {5, 64, 96, 0}, {8, 31, 130, 1}, {11, 48, 40, 0},
		{16, 100, 64, 2}, {23, 256, 128, 0}, {33, 1, 128, 0}, {64, 40, 7, 5}, {97, 130, 70, 0}, {200, 257, 129, 1},
		{300, 20, 400, 0}, {130, 16, 1024, 0}, {500, 128, 33, 0},
	} {
		T, N, M := s.T, s.N, s.M
		if T*N*M > most {
			continue
		}
		ldx, ldy := M+s.pad, N+s.pad
		x, w, dy := random(1, T*M), random(2, N*M), random(3, T*N)
		y0, dx0, dw0 := random(4, T*N), random(5, T*M), random(6, N*M)
		name := fmt.Sprintf("matmul T%d N%d M%d", T, N, M)
		tol := 1e-6 * math.Sqrt(float64(M+N+T)) * 4
		cases = append(cases, opCase{name, tol, func(b *bed) []output {
			want, grown := zeros(T*N), wide(y0)
			refMatMul(want, wide(x), wide(w), T, N, M)
			refMatMul(grown, wide(x), wide(w), T, N, M)
			y, y2 := b.poison(max(0, (T-1)*ldy+N)), b.put(spread(y0, T, N, ldy))
			a := MatMul{T: T, N: N, M: M, LdX: ldx, LdY: ldy, X: b.put(spread(x, T, M, ldx)), W: b.put(w), Y: y}
			b.must(b.MatMul(a))
			a.Y, a.Accumulate = y2, true
			b.must(b.MatMul(a))
			y3 := b.poison(max(0, (T-1)*ldy+N))
			a.Y, a.Accumulate, a.Packed = y3, false, b.pack(Float32, a.W, N, M)
			b.must(b.MatMul(a))
			sameBits(b.t, "y of packed w", b.gather(y3, T, N, ldy), b.gather(y, T, N, ldy))
			return []output{{"y", b.gather(y, T, N, ldy), want}, {"y accumulated", b.gather(y2, T, N, ldy), grown}}
		}}, opCase{name + " backward x", tol, func(b *bed) []output {
			want, grown := zeros(T*M), wide(dx0)
			refMatMulGradX(want, wide(dy), wide(w), T, N, M)
			refMatMulGradX(grown, wide(dy), wide(w), T, N, M)
			dx, dx2 := b.poison(max(0, (T-1)*ldx+M)), b.put(spread(dx0, T, M, ldx))
			a := MatMulGradX{T: T, N: N, M: M, LdDY: ldy, LdDX: ldx, DY: b.put(spread(dy, T, N, ldy)), W: b.put(w), DX: dx}
			b.must(b.MatMulBackwardX(a))
			a.DX, a.Accumulate = dx2, true
			b.must(b.MatMulBackwardX(a))
			return []output{{"dx", b.gather(dx, T, M, ldx), want}, {"dx accumulated", b.gather(dx2, T, M, ldx), grown}}
		}}, opCase{name + " backward w", tol, func(b *bed) []output {
			want := wide(dw0)
			refMatMulGradW(want, wide(dy), wide(x), T, N, M)
			dw := b.put(dw0)
			b.must(b.MatMulBackwardW(MatMulGradW{T: T, N: N, M: M, LdDY: ldy, LdX: ldx,
				DY: b.put(spread(dy, T, N, ldy)), X: b.put(spread(x, T, M, ldx)), DW: dw}))
			return []output{{"dw", b.get(dw), want}}
		}})
	}
	return cases
}

func normCases(most int) (cases []opCase) {
	for _, s := range []struct{ T, n, heads, pad int }{{1, 2, 1, 0}, {3, 17, 1, 5}, {300, 128, 1, 0}, {40, 32, 6, 64}, {7, 600, 1, 0}, {2, 5, 3, 1}} {
		rows, n, ld := s.T*s.heads, s.n, s.heads*s.n+s.pad
		if rows*n > most {
			continue
		}
		width := s.heads * s.n
		x, w, dy, dx0, dw0 := random(1, rows*n), random(2, n), random(3, rows*n), random(4, rows*n), random(5, n)
		name := fmt.Sprintf("rmsnorm T%d n%d heads%d", s.T, n, s.heads)
		wantY, wantR := refRMSNorm(wide(x), wide(w), rows, n, 1e-5)
		cases = append(cases, opCase{name, 1e-6, func(b *bed) []output {
			y, rstd, in := b.poison((s.T-1)*ld+width), b.poison(rows), b.put(spread(x, s.T, width, ld))
			a := RMSNorm{Rows: rows, N: n, Heads: s.heads, LdX: ld, LdY: ld, Eps: 1e-5, X: in, W: b.put(w), Y: y, RStd: rstd}
			b.must(b.RMSNorm(a))
			a.Y, a.RStd = in, Floats{}
			b.must(b.RMSNorm(a))
			return []output{{"y", b.gather(y, s.T, width, ld), wantY}, {"rstd", b.get(rstd), wantR},
				{"y in place", b.gather(in, s.T, width, ld), wantY}}
		}}, opCase{name + " backward", 2e-6 * math.Sqrt(float64(rows+n)), func(b *bed) []output {
			dx, dw := refRMSNormGrad(wide(dy), wide(x), wide(w), wantR, rows, n)
			grown, dwGrown := wide(dx0), wide(dw0)
			for i := range grown {
				grown[i] += dx[i]
			}
			for i := range dwGrown {
				dwGrown[i] += dw[i]
			}
			g, gdx, gdw, sdw := b.put(spread(dy, s.T, width, ld)), b.put(spread(dx0, s.T, width, ld)), b.put(dw0), b.put(dw0)
			a := RMSNormGrad{Rows: rows, N: n, Heads: s.heads, LdX: ld, LdDY: ld, LdDX: ld, Accumulate: true, DY: g,
				X: b.put(spread(x, s.T, width, ld)), W: b.put(w), RStd: b.put(narrow(wantR)), DX: gdx, DW: gdw}
			b.must(b.RMSNormBackward(a))
			a.Accumulate, a.DX, a.DW = false, g, sdw
			b.must(b.RMSNormBackward(a))
			return []output{{"dx accumulated", b.gather(gdx, s.T, width, ld), grown}, {"dw", b.get(gdw), dwGrown},
				{"dx over dy", b.gather(g, s.T, width, ld), dx}, {"dw again", b.get(sdw), dwGrown}}
		}})
	}
	return cases
}

func ropeCases(most int) (cases []opCase) {
	for _, s := range []struct{ T, heads, d, R, pad int }{{1, 1, 4, 4, 0}, {60, 6, 32, 32, 64}, {9, 2, 40, 20, 3}, {5, 1, 128, 64, 0}} {
		ld, width := s.heads*s.d+s.pad, s.heads*s.d
		if s.T*width > most {
			continue
		}
		x, pos := random(1, s.T*width), make([]int32, s.T)
		for i := range pos {
			pos[i] = int32(i * 7 % 50)
		}
		cos, sin := ropeTable(50, s.R, 1e4)
		cases = append(cases, opCase{fmt.Sprintf("rope T%d heads%d d%d R%d", s.T, s.heads, s.d, s.R), 1e-6, func(b *bed) []output {
			want, back := wide(x), wide(x)
			refRope(want, pos, cos, sin, s.heads, s.d, s.R, false)
			refRope(back, pos, cos, sin, s.heads, s.d, s.R, true)
			y, z := b.put(spread(x, s.T, width, ld)), b.put(spread(x, s.T, width, ld))
			a := Rope{T: s.T, Heads: s.heads, HeadD: s.d, R: s.R, Ld: ld, MaxPos: 50, Pos: b.ints(pos),
				Cos: b.put(narrow(cos)), Sin: b.put(narrow(sin)), X: y}
			b.must(b.Rope(a))
			a.X, a.Inverse = z, true
			b.must(b.Rope(a))
			return []output{{"x", b.gather(y, s.T, width, ld), want}, {"x back", b.gather(z, s.T, width, ld), back}}
		}})
	}
	return cases
}

// attentionShapes are packed batches, some with empty sequences and odd widths.
var attentionShapes = []attShape{
	{start: []int32{0, 1}, H: 1, K: 1, d: 16},
	{start: []int32{0, 3, 3, 40}, H: 4, K: 2, d: 32},
	{start: []int32{0, 50, 51, 230}, H: 4, K: 2, d: 32},
	{start: []int32{0, 33}, H: 6, K: 2, d: 20},
	{start: []int32{0, 70, 100}, H: 8, K: 1, d: 64},
	{start: []int32{0, 17}, H: 32, K: 1, d: 8},
	{start: []int32{0, 300}, H: 2, K: 2, d: 128},
}

// path is one path of a tree: n rows of its own, from position pos of the path before it on.
type path struct{ pos, n int }

// attentionTrees are batches whose sequences share how they begin: each is a list of trees.
var attentionTrees = []attShape{
	planted(attShape{H: 4, K: 2, d: 32}, []path{{0, 3}, {1, 1}}),
	planted(attShape{H: 4, K: 2, d: 32}, []path{{0, 60}, {47, 9}, {47, 20}, {50, 1}, {1, 40}}, []path{{0, 5}}, []path{{0, 20}, {16, 4}, {17, 3}, {2, 2}}),
	planted(attShape{H: 6, K: 2, d: 20}, []path{{0, 33}, {32, 8}, {33, 6}}, []path{{0, 2}, {0, 3}}), // the last is a forest
	planted(attShape{H: 8, K: 1, d: 64}, []path{{0, 40}, {20, 25}, {44, 10}, {20, 31}}),
}

// planted gives a shape trees.
func planted(s attShape, trees ...[]path) attShape {
	s.start = []int32{0}
	for _, tree := range trees {
		var on []int // the rows of the current path
		for _, p := range tree {
			for _, row := range on[p.pos:] {
				s.until[row] = int32(len(s.until))
			}
			on = on[:p.pos]
			for range p.n {
				on = append(on, len(s.until))
				s.until = append(s.until, 0)
			}
		}
		for _, row := range on {
			s.until[row] = int32(len(s.until))
		}
		s.start = append(s.start, int32(len(s.until)))
	}
	return s
}

func (a attShape) name() string {
	kind := "attention"
	if a.until != nil {
		kind = "attention in trees"
	}
	return fmt.Sprintf("%s %v H%d K%d d%d", kind, a.start, a.H, a.K, a.d)
}

// packed puts q, k and v of one fused projection on the device and names their strides.
func (a attShape) packed(b *bed, q, k, v []float32) Attention {
	T, ldq, ldkv, ldo := a.T(), a.H*a.d+5, a.K*a.d+3, a.H*a.d+1
	var until Ints
	if a.until != nil {
		until = b.ints(a.until)
	}
	return Attention{T: T, B: len(a.start) - 1, H: a.H, K: a.K, HeadD: a.d, LdQ: ldq, LdKV: ldkv, LdO: ldo,
		Scale: float32(a.scale()), Start: b.ints(a.start), Until: until, Query: b.put(spread(q, T, a.H*a.d, ldq)),
		Key: b.put(spread(k, T, a.K*a.d, ldkv)), Value: b.put(spread(v, T, a.K*a.d, ldkv)),
		Out: b.poison((T-1)*ldo + a.H*a.d), LSE: b.poison(T * a.H)}
}

// backward is the backward of a, whose outputs are there.
func (s attShape) backward(b *bed, a Attention, do []float32) AttentionGrad {
	return AttentionGrad{T: a.T, B: a.B, H: s.H, K: s.K, HeadD: s.d, LdQ: a.LdQ, LdKV: a.LdKV, LdO: a.LdO, Scale: a.Scale,
		Precision: a.Precision, Start: a.Start, Until: a.Until, Query: a.Query, Key: a.Key, Value: a.Value, Out: a.Out, LSE: a.LSE,
		DOut: b.put(spread(do, a.T, s.H*s.d, a.LdO)), DQuery: b.poison(a.Query.Len()),
		DKey: b.poison(a.Key.Len()), DValue: b.poison(a.Value.Len())}
}

func attentionCases(most int) (cases []opCase) {
	for _, s := range slices.Concat(attentionShapes, attentionTrees) {
		T := s.T()
		if T*T*s.H*s.d > most {
			continue
		}
		q, k, v, do := random(1, T*s.H*s.d), random(2, T*s.K*s.d), random(3, T*s.K*s.d), random(4, T*s.H*s.d)
		o, lse := refAttention(s, wide(q), wide(k), wide(v))
		cases = append(cases, opCase{s.name(), 3e-6, func(b *bed) []output {
			a := s.packed(b, q, k, v)
			b.must(b.Attention(a))
			return []output{{"o", b.gather(a.Out, T, s.H*s.d, a.LdO), o}, {"lse", b.get(a.LSE), lse}}
		}}, opCase{s.name() + " backward", 1e-5, func(b *bed) []output {
			dq, dk, dv := refAttentionGrad(s, wide(q), wide(k), wide(v), wide(do))
			a := s.packed(b, q, k, v)
			b.must(b.Attention(a))
			g := s.backward(b, a, do)
			b.must(b.AttentionBackward(g))
			return []output{{"dq", b.gather(g.DQuery, T, s.H*s.d, a.LdQ), dq}, {"dk", b.gather(g.DKey, T, s.K*s.d, a.LdKV), dk},
				{"dv", b.gather(g.DValue, T, s.K*s.d, a.LdKV), dv}}
		}})
	}
	return cases
}

func swigluCases(most int) (cases []opCase) {
	for _, s := range []struct{ T, I int }{{1, 1}, {300, 384}, {5, 31}, {2, 100}} {
		if s.T*s.I > most {
			continue
		}
		gu, dy := random(1, s.T*2*s.I), random(2, s.T*s.I)
		for i := range gu {
			gu[i] *= 4
		}
		cases = append(cases, opCase{fmt.Sprintf("swiglu T%d I%d", s.T, s.I), 1e-6, func(b *bed) []output {
			in, y, d := b.put(gu), b.poison(s.T*s.I), b.poison(s.T*2*s.I)
			b.must(b.SwiGLU(SwiGLU{T: s.T, I: s.I, GU: in, Y: y}))
			g := SwiGLUGrad{T: s.T, I: s.I, GU: in, DY: b.put(dy), DGU: d}
			b.must(b.SwiGLUBackward(g))
			g.DGU = in
			b.must(b.SwiGLUBackward(g))
			want := refSwiGLUGrad(wide(gu), wide(dy), s.T, s.I)
			return []output{{"y", b.get(y), refSwiGLU(wide(gu), s.T, s.I)}, {"dgu", b.get(d), want}, {"dgu in place", b.get(in), want}}
		}})
	}
	return cases
}

func lossCases(most int) (cases []opCase) {
	for _, s := range []struct {
		T, V, pad int
		tau       float32
	}{{1, 1, 0, 1}, {40, 767, 1, 1}, {3, 50, 0, .7}, {30, 2049, 3, 1.3}} {
		if s.T*s.V > most {
			continue
		}
		z, target, weight := random(1, s.T*s.V), make([]int32, s.T), random(3, s.T)
		for t := range target {
			target[t] = int32(t * 31 % s.V)
			for i := range s.V {
				z[t*s.V+i] = 5*z[t*s.V+i] - 40*float32(t%3-1)
			}
		}
		weight[0] = 0
		ld := s.V + s.pad
		cases = append(cases, opCase{fmt.Sprintf("cross entropy T%d V%d", s.T, s.V), 2e-6, func(b *bed) []output {
			nll, dz := refCrossEntropy(wide(z), target, wide(weight), s.T, s.V, float64(s.tau))
			in, out, n1, n2, n3 := b.put(spread(z, s.T, s.V, ld)), b.poison((s.T-1)*ld+s.V), b.poison(s.T), b.poison(s.T), b.poison(s.T)
			a := CrossEntropy{T: s.T, V: s.V, LdZ: ld, Tau: s.tau, Target: b.ints(target), Z: in, NLL: n1}
			b.must(b.CrossEntropy(a))
			a.Weight, a.DZ, a.NLL = b.put(weight), out, n2
			b.must(b.CrossEntropy(a))
			a.DZ, a.NLL = in, n3
			b.must(b.CrossEntropy(a))
			return []output{{"nll", b.get(n1), nll}, {"dz", b.gather(out, s.T, s.V, ld), dz}, {"nll with dz", b.get(n2), nll},
				{"dz in place", b.gather(in, s.T, s.V, ld), dz}, {"nll in place", b.get(n3), nll}}
		}})
	}
	return cases
}

func flatCases(most int) (cases []opCase) {
	for _, n := range []int{1, 15, 1000, 50_001} {
		if n > most {
			continue
		}
		x, y, m, v := random(1, n), random(2, n), random(3, n), random(4, n)
		for i := range v {
			v[i] *= v[i]
		}
		cases = append(cases, opCase{fmt.Sprintf("flat n%d", n), 1e-6, func(b *bed) []output {
			sum, want, seven := b.put(y), wide(y), make([]float64, n)
			squares := 0.0
			for i := range want {
				want[i] += float64(x[i])
				seven[i] = 7
				squares += float64(x[i]) * float64(x[i])
			}
			b.must(b.Add(sum, b.put(x)))
			filled := b.poison(n)
			b.must(b.Fill(filled, 7))
			got, err := b.SumSquares(b.put(x))
			b.must(err)
			if math.Abs(got-squares) > 1e-13*squares {
				b.t.Fatalf("sum of squares is %v, want %v", got, squares)
			}
			return []output{{"sum", b.get(sum), want}, {"filled", b.get(filled), seven}}
		}}, opCase{fmt.Sprintf("adamw n%d", n), 1e-6, func(b *bed) []output {
			a := AdamW{LR: .01, B1: .9, B2: .999, Eps: 1e-8, Decay: .1, Clip: .5, C1: 1 - math.Pow(.9, 3), C2: 1 - math.Pow(.999, 3),
				P: b.put(y), M: b.put(m), V: b.put(v), G: b.put(x)}
			b.must(b.AdamW(a))
			p, m, v := wide(y), wide(m), wide(v)
			refAdamW(a, p, m, v, wide(x))
			return []output{{"p", b.get(a.P), p}, {"m", b.get(a.M), m}, {"v", b.get(a.V), v}}
		}})
	}
	const T, D, V = 70, 100, 9
	table, dy, d0, ids := random(1, V*D), random(2, T*D), random(3, V*D), make([]int32, T)
	for t := range ids {
		ids[t] = int32(t * t % V)
	}
	return append(cases, opCase{"embed", 1e-6, func(b *bed) []output {
		y, d, want, grad := b.poison(T*D), b.put(d0), zeros(T*D), wide(d0)
		for t, id := range ids {
			for i := range D {
				want[t*D+i] = float64(table[int(id)*D+i])
				grad[int(id)*D+i] += float64(dy[t*D+i])
			}
		}
		b.must(b.Embed(Embed{T: T, D: D, V: V, IDs: b.ints(ids), Table: b.put(table), Y: y}))
		b.must(b.EmbedBackward(EmbedGrad{T: T, D: D, V: V, IDs: b.ints(ids), DY: b.put(dy), DTable: d}))
		return []output{{"y", b.get(y), want}, {"dtable", b.get(d), grad}}
	}})
}
