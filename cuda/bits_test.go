package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The bits of a row depend on the row and the widths only: a row computed alone equals the same
// row among others.

func TestMatMulRowsStandAlone(t *testing.T) {
	onEvery(t, func(b *bed) {
		const most = 257
		for _, s := range []struct{ N, M int }{{256, 128}, {767, 128}, {17, 500}, {40, 1024}} {
			x, dy, w := b.put(random(1, most*s.M)), b.put(random(2, most*s.N)), b.put(random(3, s.N*s.M))
			run := func(from, T int) (y, dx []float32) {
				oy, odx := b.poison(T*s.N), b.poison(T*s.M)
				b.must(b.MatMul(MatMul{T: T, N: s.N, M: s.M, LdX: s.M, LdY: s.N, X: x.Slice(from*s.M, (from+T)*s.M), W: w, Y: oy}))
				b.must(b.MatMulBackwardX(MatMulGradX{T: T, N: s.N, M: s.M, LdDY: s.N, LdDX: s.M,
					DY: dy.Slice(from*s.N, (from+T)*s.N), W: w, DX: odx}))
				return b.get(oy), b.get(odx)
			}
			y, dx := run(0, most)
			for _, T := range []int{1, 2, 3, 7, 8, 9, 10, 11, 12, 16, 31, 64, 96, 97, 130, 200} {
				for _, from := range []int{0, most - T} {
					gotY, gotDX := run(from, T)
					name := fmt.Sprintf("N%d M%d rows %d+%d", s.N, s.M, from, T)
					sameBits(b.t, name+" y", gotY, y[from*s.N:(from+T)*s.N])
					sameBits(b.t, name+" dx", gotDX, dx[from*s.M:(from+T)*s.M])
				}
			}
		}
	})
}

// The definition in whale.h, one chain in ascending order, with the fused multiply-add of Go.
func TestMatMulIsOneChain(t *testing.T) {
	const T, N, M = 20, 33, 900
	x, w, y0 := random(1, T*M), random(2, N*M), random(3, T*N)
	want := append([]float32(nil), y0...)
	for i := range want {
		for m := range M {
			want[i] = fma32(x[i/N*M+m], w[i%N*M+m], want[i])
		}
	}
	for _, isa := range []string{"avx512", "avx2"} {
		t.Run(isa, func(t *testing.T) {
			b := openBed(t, isa, 1)
			y := b.put(y0)
			b.must(b.MatMul(MatMul{T: T, N: N, M: M, LdX: M, LdY: N, Accumulate: true, X: b.put(x), W: b.put(w), Y: y}))
			sameBits(t, "y", b.get(y), want)
		})
	}
}

// fma32 is a*b+c rounded once: the product is exact in double, and the sum is rounded to odd
// before it is narrowed.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	t := s - p
	if rest := (p - (s - t)) + (float64(c) - t); rest != 0 && math.Float64bits(s)&1 == 0 {
		if (rest > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

func TestRowOpsStandAlone(t *testing.T) {
	onAll(t, func(b *bed) {
		const T, I, V = 90, 100, 767
		gu, z, w := b.put(random(1, T*2*I)), b.put(random(2, T*V)), b.put(random(3, V))
		target := make([]int32, T)
		tgt := b.ints(target)
		run := func(from, n int) (outs [][]float32) {
			y, nll, norm := b.poison(n*I), b.poison(n), b.poison(n*V)
			b.must(b.SwiGLU(SwiGLU{T: n, I: I, GU: gu.Slice(from*2*I, (from+n)*2*I), Y: y}))
			rows := z.Slice(from*V, (from+n)*V)
			b.must(b.CrossEntropy(CrossEntropy{T: n, V: V, LdZ: V, Tau: 1, Target: tgt, Z: rows, NLL: nll}))
			b.must(b.RMSNorm(RMSNorm{Rows: n, N: V, Heads: 1, LdX: V, LdY: V, Eps: 1e-5, X: rows, W: w, Y: norm}))
			return [][]float32{b.get(y), b.get(nll), b.get(norm)}
		}
		all := run(0, T)
		for _, from := range []int{0, 41, T - 1} {
			for i, got := range run(from, 1) {
				width := len(all[i]) / T
				sameBits(b.t, fmt.Sprintf("op %d row %d", i, from), got, all[i][from*width:(from+1)*width])
			}
		}
	})
}

// cache is a paged cache filled from dense keys and values, its pages in scrambled order.
func (b *bed) cache(s attShape, P int, k, v []float32) Paged {
	return b.cacheOf(Float32, s, P, k, v)
}

func (b *bed) cacheOf(precision Precision, s attShape, P int, k, v []float32) Paged {
	B, most := len(s.start)-1, 0
	for i := range B {
		most = max(most, int(s.start[i+1]-s.start[i]))
	}
	perSeq := (most + P - 1) / P
	pages := B*perSeq + 3
	table, scrambled := make([]int32, B*perSeq), rand.New(rand.NewPCG(9, 9)).Perm(pages)
	for i := range table {
		table[i] = int32(scrambled[i])
	}
	seq, pos := s.rows()
	room := pages * b.PageFloats(precision, s.K, s.d, P)
	a := Paged{T: s.T(), B: B, H: s.H, K: s.K, HeadD: s.d, P: P, Pages: pages, MaxPages: perSeq, Precision: precision, LdQ: s.H * s.d,
		LdKV: s.K * s.d, LdO: s.H * s.d, Scale: float32(s.scale()), Seq: b.ints(seq), Pos: b.ints(pos), PageTable: b.ints(table),
		Key: b.put(k), Value: b.put(v), KeyPages: b.poison(room), ValuePages: b.poison(room)}
	b.must(b.PagedStore(a))
	return a
}

// rows is the sequence and position of every row.
func (s attShape) rows() (seq, pos []int32) {
	for i := range len(s.start) - 1 {
		for t := s.start[i]; t < s.start[i+1]; t++ {
			seq, pos = append(seq, int32(i)), append(pos, t-s.start[i])
		}
	}
	return seq, pos
}

// Whole prompts, chunks of prompts and single tokens from the paged cache all give the bits of
// packed attention. Unwritten places of the cache hold poison, so nothing beyond a row's
// position is touched.
func TestPagedIsPacked(t *testing.T) {
	onAll(t, func(b *bed) {
		for _, s := range []attShape{
			{start: []int32{0, 50, 51, 130}, H: 4, K: 2, d: 32}, {start: []int32{0, 33}, H: 6, K: 2, d: 20}, {start: []int32{0, 40, 70}, H: 8, K: 1, d: 64}, {start: []int32{0, 200}, H: 2, K: 2, d: 128},
		} {
			T, width := s.T(), s.H*s.d
			if b.slow(T * T * width) {
				continue
			}
			q, k, v := random(1, T*width), random(2, T*s.K*s.d), random(3, T*s.K*s.d)
			packed := s.packed(b, q, k, v)
			b.must(b.Attention(packed))
			want := b.gather(packed.Out, T, width, packed.LdO)
			seq, pos := s.rows()
			for _, P := range []int{16, 5, 1} {
				a := b.cache(s, P, k, v)
				qd := b.put(q)
				for _, size := range []int{T, 29, 3, 1} {
					out := b.poison(T * width)
					for from := 0; from < T; from += size {
						n := min(size, T-from)
						a.T, a.Seq, a.Pos = n, b.ints(seq[from:from+n]), b.ints(pos[from:from+n])
						a.Query, a.Out = qd.Slice(from*width, (from+n)*width), out.Slice(from*width, (from+n)*width)
						b.must(b.PagedAttend(a))
					}
					b.same(fmt.Sprintf("%s P%d in calls of %d", s.name(), P, size), b.get(out), want)
				}
			}
		}
	})
}

// Rows of different sequences in one call, in any order (decode of a batch).
func TestPagedRowsInAnyOrder(t *testing.T) {
	onAll(t, func(b *bed) {
		s := attShape{start: []int32{0, 20, 45, 60}, H: 4, K: 2, d: 32}
		T, width := s.T(), s.H*s.d
		q, k, v := random(1, T*width), random(2, T*s.K*s.d), random(3, T*s.K*s.d)
		packed := s.packed(b, q, k, v)
		b.must(b.Attention(packed))
		want := b.gather(packed.Out, T, width, packed.LdO)
		a := b.cache(s, 8, k, v)
		seq, pos := s.rows()
		var mixedSeq, mixedPos []int32
		var mixedQ, mixedWant []float32
		for i := range T {
			t := i * 37 % T
			mixedSeq, mixedPos = append(mixedSeq, seq[t]), append(mixedPos, pos[t])
			mixedQ = append(mixedQ, q[t*width:(t+1)*width]...)
			mixedWant = append(mixedWant, want[t*width:(t+1)*width]...)
		}
		a.Seq, a.Pos, a.Query, a.Out = b.ints(mixedSeq), b.ints(mixedPos), b.put(mixedQ), b.poison(T*width)
		b.must(b.PagedAttend(a))
		b.same("out", b.get(a.Out), mixedWant)
	})
}

// Decode of samples that share the pages of their prompt gives the bits of packed attention,
// however much is shared and whoever else is in the call.
func TestPagedSharedPrompts(t *testing.T) {
	onAll(t, func(b *bed) { b.sharedPrompts(Float32, 8) })
}

// sharedPrompts decodes a token of ten samples, of which eight share the pages of their prompt.
func (b *bed) sharedPrompts(precision Precision, P int) {
	const prompt, H, K, d = 45, 4, 2, 32
	lengths := []int{50, 61, 45, 46, 90, 50, 48, 72, 12, 50} // the ninth ends within the prompt
	key, value := random(1, prompt*K*d), random(2, prompt*K*d)
	s := attShape{start: []int32{0}, H: H, K: K, d: d}
	var k, v []float32
	for i, n := range lengths {
		shared := min(n, prompt) * K * d
		k = append(append(k, key[:shared]...), random(uint64(10+i), n*K*d-shared)...)
		v = append(append(v, value[:shared]...), random(uint64(50+i), n*K*d-shared)...)
		s.start = append(s.start, s.start[i]+int32(n))
	}
	T, width := s.T(), H*d
	q := random(3, T*width)
	packed := s.packed(b, q, k, v)
	packed.Precision = precision
	b.must(b.Attention(packed))
	all := b.gather(packed.Out, T, width, packed.LdO)
	a := b.cacheOf(precision, s, P, k, v)
	table := make([]int32, a.B*a.MaxPages)
	b.must(a.PageTable.Download(table))
	var last, seq []int32
	var want, queries []float32
	for i, n := range lengths {
		if i != 3 && i != 7 { // two samples have copies of their own
			copy(table[i*a.MaxPages:i*a.MaxPages+min(n, prompt)/P], table)
		}
		row := (int(s.start[i+1]) - 1) * width
		last, seq = append(last, int32(n-1)), append(seq, int32(i))
		want, queries = append(want, all[row:row+width]...), append(queries, q[row:row+width]...)
	}
	a.T, a.Seq, a.Pos, a.PageTable = len(seq), b.ints(seq), b.ints(last), b.ints(table)
	a.Query, a.Out = b.put(queries), b.poison(len(want))
	b.must(b.PagedAttend(a))
	b.same("out", b.get(a.Out), want)
}

// A row of a tree has the bits that it has at the end of its path alone.
func TestTreesArePaths(t *testing.T) {
	onAll(t, func(b *bed) {
		for _, s := range attentionTrees {
			T, width := s.T(), s.H*s.d
			if b.slow(T * T * width) {
				continue
			}
			q, k, v := random(1, T*width), random(2, T*s.K*s.d), random(3, T*s.K*s.d)
			tree := s.packed(b, q, k, v)
			b.must(b.Attention(tree))
			got := b.gather(tree.Out, T, width, tree.LdO)
			alone := attShape{start: []int32{0}, H: s.H, K: s.K, d: s.d}
			var rows []int // of the tree, for every row of the paths
			for i := range len(s.start) - 1 {
				for row := int(s.start[i]); row < int(s.start[i+1]); row++ {
					if int(s.until[row]) == row+1 { // a path ends here
						rows = append(rows, s.seen(i, row)...)
						alone.start = append(alone.start, int32(len(rows)))
					}
				}
			}
			pick := func(x []float32, n int) (y []float32) {
				for _, row := range rows {
					y = append(y, x[row*n:(row+1)*n]...)
				}
				return y
			}
			paths := alone.packed(b, pick(q, width), pick(k, s.K*s.d), pick(v, s.K*s.d))
			b.must(b.Attention(paths))
			b.same(s.name(), pick(got, width), b.gather(paths.Out, len(rows), width, paths.LdO))
		}
	})
}

// A value that is not a number at a position must not reach the rows before it.
func TestAttentionNeverLooksAhead(t *testing.T) {
	onEvery(t, func(b *bed) { b.neverLooksAhead(Float32) })
}

func (b *bed) neverLooksAhead(precision Precision) {
	s := attShape{start: []int32{0, 60}, H: 2, K: 1, d: 32}
	q, k, v := random(1, 60*64), random(2, 60*32), random(3, 60*32)
	rows := func() []float32 {
		a := s.packed(b, q, k, v)
		a.Precision = precision
		b.must(b.Attention(a))
		return b.gather(a.Out, 60, 64, a.LdO)[:41*64]
	}
	want := rows()
	for i := 41 * 32; i < 60*32; i++ {
		k[i], v[i] = nan, float32(math.Inf(1))
	}
	sameBits(b.t, "rows before", rows(), want)
}
