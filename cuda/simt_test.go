package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// simtWork is the most work of a case on simt: everything with WHALE_SIMT=full.
func simtWork() int {
	if os.Getenv("WHALE_SIMT") == "full" {
		return everything
	}
	return 250_000
}

// The one table once more, on the CUDA kernels: in both orders of threads, with a worker pool,
// and with every access examined. Only the order of blocks could tell them apart, and it must not.
func TestOpsOnSIMT(t *testing.T) {
	for _, c := range opCases(simtWork()) {
		t.Run(c.name, func(t *testing.T) {
			var first []output
			for _, way := range []string{"simt", "simt reverse", "simt shuffle", "simt checked"} {
				threads := 1
				if way == "simt reverse" {
					threads = 3
				}
				outs := c.run(openBed(t, way, threads))
				if first == nil {
					first = outs
				}
				for i, o := range outs {
					near(t, way+" "+o.name, o.got, o.want, c.tol)
					sameBits(t, way+" "+o.name, o.got, first[i].got)
				}
			}
		})
	}
}

// Where a card has a library for products, both factors are rounded into scratch first.
func TestProductsOfALibrary(t *testing.T) {
	for _, c := range matmulCases(simtWork()) {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range c.run(openBed(t, "simt library", 1)) {
				near(t, o.name, o.got, o.want, c.tol)
			}
		})
	}
}

func TestBF16ProductsOnSIMT(t *testing.T) {
	for _, s := range bf16Shapes {
		t.Run(s.name(), func(t *testing.T) {
			for _, way := range []string{"simt", "simt checked", "simt library"} {
				if b := openBed(t, way, 1); !b.slow(s.T * s.N * s.M) {
					s.products(b, BF16)
				}
			}
		})
	}
}

// Attention in bfloat16 is attention of rounded factors, within the rounding of its weights.
func TestAttentionInBF16(t *testing.T) {
	b := openBed(t, "simt", 2)
	for _, s := range slices.Concat(attentionShapes, attentionTrees) {
		T := s.T()
		if b.slow(T * T * s.H * s.d) {
			continue
		}
		q, k, v, do := random(1, T*s.H*s.d), random(2, T*s.K*s.d), random(3, T*s.K*s.d), random(4, T*s.H*s.d)
		o, lse := refAttention(s, rounded(q), rounded(k), rounded(v))
		dq, dk, dv := refAttentionGrad(s, rounded(q), rounded(k), rounded(v), rounded(do))
		a := s.packed(b, q, k, v)
		a.Precision = BF16
		b.must(b.Attention(a))
		near(t, s.name()+" o", b.gather(a.Out, T, s.H*s.d, a.LdO), o, 2e-2)
		near(t, s.name()+" lse", b.get(a.LSE), lse, 2e-2)
		g := s.backward(b, a, do)
		b.must(b.AttentionBackward(g))
		near(t, s.name()+" dq", b.gather(g.DQuery, T, s.H*s.d, a.LdQ), dq, 4e-2)
		near(t, s.name()+" dk", b.gather(g.DKey, T, s.K*s.d, a.LdKV), dk, 4e-2)
		near(t, s.name()+" dv", b.gather(g.DValue, T, s.K*s.d, a.LdKV), dv, 4e-2)
	}
}

// A cache in bfloat16 takes half the room. Rows that decode are attention over the rounded keys and
// values in float32, rows of a prompt that of rounded factors; nothing beside what was stored is read.
func TestPagedCacheInBF16(t *testing.T) {
	for _, way := range []string{"simt", "simt checked"} {
		b := openBed(t, way, 1)
		for _, s := range []attShape{
			{start: []int32{0, 50, 51, 70}, H: 4, K: 2, d: 32}, {start: []int32{0, 33}, H: 6, K: 2, d: 20}, {start: []int32{0, 40, 70}, H: 8, K: 1, d: 64},
			{start: []int32{0, 9}, H: 3, K: 1, d: 6}, {start: []int32{0, 20, 21}, H: 2, K: 2, d: 128},
		} {
			T, width := s.T(), s.H*s.d
			q, k, v := random(1, T*width), random(2, T*s.K*s.d), random(3, T*s.K*s.d)
			a := b.cacheOf(BF16, s, 5, k, v)
			if got, want := a.KeyPages.Len(), (a.Pages*a.P*s.K*s.d+1)/2; got != want {
				t.Errorf("%s: the cache takes %d floats, want %d", s.name(), got, want)
			}
			a.Query, a.Out = b.put(q), b.poison(T*width)
			b.must(b.PagedAttend(a))
			want, _ := refAttention(s, rounded(q), rounded(k), rounded(v))
			near(t, s.name()+" prompts", b.get(a.Out), want, 2e-2)
			seq, pos := s.rows()
			want, _ = refAttention(s, wide(q), rounded(k), rounded(v))
			for row := range T {
				a.T, a.Seq, a.Pos = 1, b.ints(seq[row:row+1]), b.ints(pos[row:row+1])
				a.Query, a.Out = b.put(q[row*width:(row+1)*width]), b.poison(width)
				b.must(b.PagedAttend(a))
				near(t, fmt.Sprintf("%s row %d", s.name(), row), b.get(a.Out), want[row*width:(row+1)*width], 3e-6)
			}
		}
	}
}

// What the kernels can't do is refused by name.
func TestShapesWithoutKernels(t *testing.T) {
	b := openBed(t, "simt", 1)
	f, ids := b.poison(2000), b.ints([]int32{0, 1})
	odd := Paged{T: 1, B: 1, H: 1, K: 1, HeadD: 5, P: 2, Pages: 1, MaxPages: 1, LdQ: 5, LdKV: 5, LdO: 5, Precision: BF16, Seq: ids, Pos: ids,
		PageTable: ids, Query: f, Key: f, Value: f, KeyPages: f, ValuePages: f, Out: f}
	wide := odd
	wide.HeadD, wide.LdQ, wide.LdKV, wide.LdO = 160, 160, 160, 160
	for says, err := range map[string]error{
		"a cache in bfloat16 holds pairs: K*d is 5": b.PagedStore(odd),
		"holds pairs": b.PagedAttend(odd),
		"heads of width 160: there are kernels for up to 128": b.PagedAttend(wide),
		"paged attend: heads of width 160":                    b.PagedAttend(wide),
	} {
		if !errors.Is(err, BadShape) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want BadShape with %q", err, says)
		}
	}
	if b.Has(Int8) {
		t.Error("there is no product in 8 bits")
	}
}

// mutant is a kernel file in which one thing is wrong, and an operator that it breaks.
type mutant struct {
	file, from, to string
	nth            int    // which occurrence of from
	says           string // what the checked build finds
	run            func(b *bed) error
}

// library compiles the changed file alone.
func (m mutant) library(t *testing.T) string {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(sources, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var data []byte
			data, err = sources.ReadFile(path)
			files[path] = &fstest.MapFile{Data: data, Mode: 0o644}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(files[m.file].Data), m.from)
	if len(parts) < m.nth+2 {
		t.Fatalf("%s has %d of %q, not %d", m.file, len(parts)-1, m.from, m.nth+1)
	}
	text := strings.Join(parts[:m.nth+1], m.from) + m.to + strings.Join(parts[m.nth+1:], m.from)
	files[m.file].Data = []byte(text)
	path, err := simtLibrary(simtBuild{sources: files, units: []string{m.file}, checked: true})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const barrier = "__syncthreads();"

// A norm over rows that fill several blocks of threads.
func someNorm(b *bed) error {
	const rows, n = 9, 40
	x := b.put(random(1, rows*n))
	return b.RMSNormBackward(RMSNormGrad{Rows: rows, N: n, Heads: 1, LdX: n, LdDY: n, LdDX: n, DY: x, X: x,
		W: b.put(random(2, n)), RStd: b.put(random(3, rows)), DX: b.poison(rows * n), DW: b.put(random(4, n))})
}

func someProduct(b *bed) error {
	const n = 70
	x := b.put(random(1, n*n))
	return b.MatMul(MatMul{T: n, N: n, M: n, LdX: n, LdY: n, X: x, W: x, Y: b.poison(n * n)})
}

func someLoss(b *bed) error {
	const n = 300
	return b.CrossEntropy(CrossEntropy{T: 1, V: n, LdZ: n, Tau: 1, Target: b.ints([]int32{3}), Z: b.put(random(1, n)), NLL: b.poison(1)})
}

func someSample(b *bed) error {
	const n = 300
	z := b.put(random(1, n))
	return b.Device.Sample(Sample{T: 1, V: n, LdZ: n, Valid: n, Z: z, Tau: []float32{1}, TopP: []float32{.9}, TopK: []int32{20},
		U: []float64{.5}, ID: make([]int32, 1)})
}

func someEmbedding(b *bed) error {
	const T, D = 150, 3
	x := b.put(random(1, T*D))
	return b.EmbedBackward(EmbedGrad{T: T, D: D, V: T, IDs: b.ints(make([]int32, T)), DY: x, DTable: b.put(random(2, T*D))})
}

// The checked build finds every kind of mistake that it is there for: each barrier that is left
// out, a write beside a buffer, two blocks that write one word, a barrier that some threads miss.
func TestCheckedFindsMistakes(t *testing.T) {
	mutants := []mutant{
		{"rows.cu", barrier, "", 0, "no barrier between", someEmbedding},
		{"rows.cu", barrier, "", 1, "no barrier between", someEmbedding},
		{"rows.cu", barrier, "", 2, "no barrier between", someNorm},
		{"rows.cu", "float mean = ", "if (lane_id() == 0) " + barrier + "float mean = ", 0, "threads wait", someNorm},
		{"rows.cu", "dx[i] = g.accumulate", "dx[i + 1] = g.accumulate", 0, "of a buffer of", someNorm},
		{"rows.cu", "a.part[(size_t)blockIdx.x * n + i]", "a.part[i]", 0, "of block 0 with no barrier", someNorm},
	}
	if simtWork() == everything {
		mutants = append(mutants,
			mutant{"product.cu", barrier, "", 0, "no barrier between", someProduct},
			mutant{"product.cu", barrier, "", 1, "no barrier between", someProduct},
			mutant{"head.cu", barrier, "", 0, "no barrier between", someLoss})
		for i := range 6 {
			mutants = append(mutants, mutant{"head.cu", barrier, "", 2 + i, "no barrier between", someSample})
		}
	}
	for _, m := range mutants {
		t.Run(fmt.Sprintf("%s %s %d", m.file, m.from, m.nth), func(t *testing.T) {
			d, err := Open("simt", 1, WithISA("checked"), withKernels(m.library(t)))
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(d.Close)
			b := &bed{d, t}
			err = m.run(b)
			if !errors.Is(err, Broken) || !strings.Contains(err.Error(), m.says) {
				t.Fatalf("%v, want a broken device that says %q", err, m.says)
			}
			if err := b.Fill(Floats{}, 0); !errors.Is(err, Broken) {
				t.Errorf("then a call gives %v, want Broken again", err)
			}
		})
	}
}

// The kernels are right in their own mistakes' absence: the same operators pass.
func TestCheckedPassesWhatIsRight(t *testing.T) {
	for _, run := range []func(b *bed) error{someEmbedding, someNorm, someProduct, someLoss, someSample} {
		b := openBed(t, "simt checked", 1)
		b.must(run(b))
	}
}

// A machine without a compiler says so; nothing is half made.
func TestSIMTWithoutACompiler(t *testing.T) {
	t.Setenv("CXX", "no-such-compiler")
	_, err := Open("simt", 1)
	if !errors.Is(err, NoDevice) || !strings.Contains(err.Error(), "no-such-compiler") {
		t.Errorf("%v, want NoDevice that names the compiler", err)
	}
}

// Uploads go where the host looks: a view in the middle of an index range, and ids that are
// floats are refused.
func TestIndicesAreCheckedOnTheHost(t *testing.T) {
	b := openBed(t, "simt", 1)
	ids := b.ints([]int32{0, 1, 2, 3})
	b.must(ids.Slice(2, 3).Upload([]int32{9}))
	table, y := b.put(random(1, 12)), b.poison(12)
	e := Embed{T: 4, D: 3, V: 4, IDs: ids, Table: table, Y: y}
	if err := b.Embed(e); !errors.Is(err, BadShape) || !strings.Contains(err.Error(), "ids[2] is 9") {
		t.Errorf("%v, want ids[2] refused", err)
	}
	e.IDs = ids.Slice(0, 2)
	e.T = 2
	b.must(b.Embed(e))
	e.IDs = Ints(table)
	if err := b.Embed(e); !errors.Is(err, BadShape) || !strings.Contains(err.Error(), "not memory of indices") {
		t.Errorf("%v, want floats refused as ids", err)
	}
	if !slices.ContainsFunc(b.get(y), func(x float32) bool { return math.IsNaN(float64(x)) }) {
		t.Error("rows beyond T were written")
	}
}
