package cuda

import (
	"fmt"
	"slices"
	"testing"
)

// in16 is packed attention in bfloat16.
func (s attShape) in16(b *bed, q, k, v []float32) Attention {
	a := s.packed(b, q, k, v)
	a.Precision = BF16
	return a
}

// Forward and backward in bfloat16 against double precision, on sequences and on trees; threads must
// not change a bit.
func TestAttentionInBlocksOf16(t *testing.T) {
	for _, s := range slices.Concat(attentionShapes, attentionTrees) {
		t.Run(s.name(), func(t *testing.T) {
			T := s.T()
			q, k, v, do := random(1, T*s.H*s.d), random(2, T*s.K*s.d), random(3, T*s.K*s.d), random(4, T*s.H*s.d)
			o, lse := refAttention(s, wide(q), wide(k), wide(v))
			dq, dk, dv := refAttentionGrad(s, wide(q), wide(k), wide(v), wide(do))
			var first [][]float32
			for threads := 1; threads <= 3; threads++ {
				b := openBF16(t, "avx512", threads)
				a := s.in16(b, q, k, v)
				b.must(b.Attention(a))
				g := s.backward(b, a, do)
				b.must(b.AttentionBackward(g))
				got := [][]float32{b.gather(a.Out, T, s.H*s.d, a.LdO), b.get(a.LSE), b.gather(g.DQuery, T, s.H*s.d, a.LdQ),
					b.gather(g.DKey, T, s.K*s.d, a.LdKV), b.gather(g.DValue, T, s.K*s.d, a.LdKV)}
				if first == nil {
					first = got
				}
				for i, want := range [][]float64{o, lse, dq, dk, dv} {
					name := []string{"o", "lse", "dq", "dk", "dv"}[i]
					sameBits(t, fmt.Sprintf("%s with %d threads", name, threads), got[i], first[i])
					if zero := slices.Max(want) == 0 && slices.Min(want) == 0; zero { // of a single key
						near(t, name, got[i], want, 2e-2)
					} else if e := relative(got[i], want); !(e < 6e-3) {
						t.Errorf("%s: relative error %.1e, at most 6e-3", name, e)
					}
				}
			}
		})
	}
}

// The backward of a tree is that of its paths alone, where every row counts on the first path that has
// it: gradients of queries have the same bits, those of keys and values are the sum over the paths.
func TestTreesArePathsBackwardInBlocksOf16(t *testing.T) {
	b := openBF16(t, "avx512", 1)
	for _, s := range attentionTrees {
		T, width, kv := s.T(), s.H*s.d, s.K*s.d
		q, k, v, do := random(1, T*width), random(2, T*kv), random(3, T*kv), random(4, T*width)
		run := func(s attShape, q, k, v, do []float32) (dq, dk, dv []float32) {
			a := s.in16(b, q, k, v)
			b.must(b.Attention(a))
			g := s.backward(b, a, do)
			b.must(b.AttentionBackward(g))
			return b.gather(g.DQuery, s.T(), width, a.LdQ), b.gather(g.DKey, s.T(), kv, a.LdKV), b.gather(g.DValue, s.T(), kv, a.LdKV)
		}
		dq, dk, dv := run(s, q, k, v, do)
		alone := attShape{start: []int32{0}, H: s.H, K: s.K, d: s.d}
		var rows []int // of the tree, for every row of the paths
		var first []bool
		met := make([]bool, T)
		for i := range len(s.start) - 1 {
			for row := int(s.start[i]); row < int(s.start[i+1]); row++ {
				if int(s.until[row]) != row+1 {
					continue
				}
				for _, r := range s.seen(i, row) {
					rows, first, met[r] = append(rows, r), append(first, !met[r]), true
				}
				alone.start = append(alone.start, int32(len(rows)))
			}
		}
		pick := func(x []float32, n int) (y []float32) {
			for _, row := range rows {
				y = append(y, x[row*n:(row+1)*n]...)
			}
			return y
		}
		counted := pick(do, width)
		for i := range rows {
			if !first[i] {
				clear(counted[i*width : (i+1)*width])
			}
		}
		pq, pk, pv := run(alone, pick(q, width), pick(k, kv), pick(v, kv), counted)
		wantK, wantV := zeros(T*kv), zeros(T*kv)
		for i, row := range rows {
			if first[i] {
				sameBits(t, fmt.Sprintf("%s: dq of row %d", s.name(), row), pq[i*width:(i+1)*width], dq[row*width:(row+1)*width])
			}
			for x := range kv {
				wantK[row*kv+x] += float64(pk[i*kv+x])
				wantV[row*kv+x] += float64(pv[i*kv+x])
			}
		}
		near(t, s.name()+": dk", dk, wantK, 3e-6)
		near(t, s.name()+": dv", dv, wantV, 3e-6)
	}
}

// Rows from pages of blocks, in any calls and with shared pages, have the bits of packed rows, and
// what nobody wrote, or wrote later, is not looked at.
func TestPagedIsPackedInBlocksOf16(t *testing.T) {
	b := openBF16(t, "avx512", 2)
	for _, s := range []attShape{
		{start: []int32{0, 50, 51, 130}, H: 4, K: 2, d: 32}, {start: []int32{0, 33}, H: 6, K: 2, d: 20},
		{start: []int32{0, 40, 70}, H: 8, K: 1, d: 64}, {start: []int32{0, 200}, H: 3, K: 3, d: 128}, {start: []int32{0, 60}, H: 15, K: 1, d: 7},
	} {
		T, width := s.T(), s.H*s.d
		q, k, v := random(1, T*width), random(2, T*s.K*s.d), random(3, T*s.K*s.d)
		packed := s.in16(b, q, k, v)
		b.must(b.Attention(packed))
		want := b.gather(packed.Out, T, width, packed.LdO)
		seq, pos := s.rows()
		for _, P := range []int{16, 48} {
			a := b.cacheOf(BF16, s, P, k, v)
			a.KeyPages, a.ValuePages = b.poison(a.KeyPages.Len()), b.poison(a.KeyPages.Len())
			qd, kd, vd := b.put(q), b.put(k), b.put(v)
			for _, size := range []int{T, 29, 3, 1} {
				out := b.poison(T * width)
				for from := 0; from < T; from += size {
					n := min(size, T-from)
					a.T, a.Seq, a.Pos = n, b.ints(seq[from:from+n]), b.ints(pos[from:from+n])
					a.Key, a.Value = kd.Slice(from*s.K*s.d, (from+n)*s.K*s.d), vd.Slice(from*s.K*s.d, (from+n)*s.K*s.d)
					a.Query, a.Out = qd.Slice(from*width, (from+n)*width), out.Slice(from*width, (from+n)*width)
					b.must(b.PagedStore(a))
					b.must(b.PagedAttend(a))
				}
				sameBits(t, fmt.Sprintf("%s P%d in calls of %d", s.name(), P, size), b.get(out), want)
			}
		}
	}
}

// Samples of one prompt, in one call with others.
func TestPagedSharedPromptsInBlocksOf16(t *testing.T) {
	openBF16(t, "avx512", 1).sharedPrompts(BF16, 16)
}

// What is not a number at a position must not reach the rows before it, forward.
func TestBlocksOf16NeverLookAhead(t *testing.T) { openBF16(t, "avx512", 1).neverLooksAhead(BF16) }
