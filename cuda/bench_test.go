package cuda

import (
	"fmt"
	"syscall"
	"testing"
)

// Each benchmark reports GFLOP/s of one call; BenchmarkPeak is what
// multiply-adds that never leave the registers reach, the number to compare with.

func benchDevice(b *testing.B, threads int) *Device {
	d, err := Open("cpu", threads)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Close)
	return d
}

func benchFloats(b *testing.B, d *Device, n int) Floats {
	f, err := d.Floats(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(f.Free)
	if err := f.Upload(random(7, n)); err != nil {
		b.Fatal(err)
	}
	return f
}

// measure reports GFLOP/s by the clock, and per second of processor time: the second holds on a
// machine that others use too (with several threads it is the rate of one of them).
func measure(b *testing.B, flop float64, call func() error) {
	b.Helper()
	if err := call(); err != nil {
		b.Fatal(err)
	}
	start := cpuSeconds()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	total := flop * float64(b.N) / 1e9
	b.ReportMetric(total/(cpuSeconds()-start), "GFLOP/cpu-s")
	b.ReportMetric(total/b.Elapsed().Seconds(), "GFLOP/s")
}

// cpuSeconds is the processor time of this process so far.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func BenchmarkPeak(b *testing.B) {
	for _, threads := range []int{1, 2} {
		d := benchDevice(b, threads)
		b.Run(fmt.Sprintf("threads%d", threads), func(b *testing.B) {
			measure(b, d.fmaLoop(1<<16), func() error { d.fmaLoop(1 << 16); return nil })
		})
	}
}

// The products of the nano model: fused qkv, gate and up, down, head.
func BenchmarkMatMul(b *testing.B) {
	for _, threads := range []int{1, 2} {
		d := benchDevice(b, threads)
		for _, s := range []struct{ N, M int }{{256, 128}, {768, 128}, {128, 384}, {767, 128}} {
			for _, T := range []int{1, 8, 32, 256, 4096} {
				x, w, y := benchFloats(b, d, T*s.M), benchFloats(b, d, s.N*s.M), benchFloats(b, d, T*s.N)
				flop := 2 * float64(T) * float64(s.N) * float64(s.M)
				name := fmt.Sprintf("N%d/M%d/T%d/threads%d", s.N, s.M, T, threads)
				b.Run("forward/"+name, func(b *testing.B) {
					measure(b, flop, func() error {
						return d.MatMul(MatMul{T: T, N: s.N, M: s.M, LdX: s.M, LdY: s.N, X: x, W: w, Y: y})
					})
				})
				b.Run("backwardx/"+name, func(b *testing.B) {
					measure(b, flop, func() error {
						return d.MatMulBackwardX(MatMulGradX{T: T, N: s.N, M: s.M, LdDY: s.N, LdDX: s.M, DY: y, W: w, DX: x})
					})
				})
				b.Run("backwardw/"+name, func(b *testing.B) {
					measure(b, flop, func() error {
						return d.MatMulBackwardW(MatMulGradW{T: T, N: s.N, M: s.M, LdDY: s.N, LdX: s.M, DY: y, X: x, DW: w})
					})
				})
			}
		}
	}
}

// Packed attention, 4 query heads on 2 key/value heads of width 32, in float32 and where it runs in
// bfloat16; the FLOP counted are those of the causal half, 2 products forward and 5 backward.
func BenchmarkAttention(b *testing.B) {
	for _, threads := range []int{1, 2} {
		d := benchDevice(b, threads)
		for _, length := range []int{64, 256, 1024} {
			const H, K, width = 4, 2, 32
			B := 4096 / length
			T := B * length
			start := make([]int32, B+1)
			for i := range start {
				start[i] = int32(i * length)
			}
			st, err := d.Ints(B + 1)
			if err == nil {
				err = st.Upload(start)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(st.Free)
			qkv, o, lse, dqkv := benchFloats(b, d, T*256), benchFloats(b, d, T*128), benchFloats(b, d, T*H), benchFloats(b, d, T*256)
			n := T * 256
			a := Attention{T: T, B: B, H: H, K: K, HeadD: width, LdQ: 256, LdKV: 256, LdO: 128, Scale: .17, Start: st,
				Query: qkv, Key: qkv.Slice(128, n), Value: qkv.Slice(192, n), Out: o, LSE: lse}
			g := AttentionGrad{T: T, B: B, H: H, K: K, HeadD: width, LdQ: 256, LdKV: 256, LdO: 128, Scale: .17, Start: st,
				Query: qkv, Key: qkv.Slice(128, n), Value: qkv.Slice(192, n), Out: o, LSE: lse, DOut: benchFloats(b, d, T*128),
				DQuery: dqkv, DKey: dqkv.Slice(128, n), DValue: dqkv.Slice(192, n)}
			flop := float64(B) * float64(length) * float64(length+1) / 2 * H * width * 2
			for _, p := range []Precision{Float32, BF16} {
				if !d.Has(p) {
					continue
				}
				a.Precision, g.Precision = p, p
				name := fmt.Sprintf("%v/length%d/threads%d", p, length, threads)
				b.Run("forward/"+name, func(b *testing.B) {
					measure(b, 2*flop, func() error { return d.Attention(a) })
				})
				b.Run("backward/"+name, func(b *testing.B) {
					measure(b, 5*flop, func() error { return d.AttentionBackward(g) })
				})
			}
		}
	}
}

// One decode step: 64 sequences, each one token at position length-1 of a paged cache.
func BenchmarkPagedAttend(b *testing.B) {
	d := benchDevice(b, 1)
	for _, c := range []struct{ H, K, width, P, length int }{{4, 2, 32, 16, 300}, {4, 2, 32, 64, 300}, {16, 8, 128, 64, 300}} {
		const B = 64
		perSeq := (c.length + c.P - 1) / c.P
		kv := B * perSeq * c.P * c.K * c.width
		index := func(f func(i int) int32, n int) Ints {
			x, err := d.Ints(n)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(x.Free)
			v := make([]int32, n)
			for i := range v {
				v[i] = f(i)
			}
			if err := x.Upload(v); err != nil {
				b.Fatal(err)
			}
			return x
		}
		own := func(i int) int32 { return int32(i) }
		a := Paged{T: B, B: B, H: c.H, K: c.K, HeadD: c.width, P: c.P, Pages: B * perSeq, MaxPages: perSeq, LdQ: c.H * c.width,
			LdKV: c.K * c.width, LdO: c.H * c.width, Scale: .1, Seq: index(own, B), PageTable: index(own, B*perSeq),
			Pos:   index(func(int) int32 { return int32(c.length - 1) }, B),
			Query: benchFloats(b, d, B*c.H*c.width), Out: benchFloats(b, d, B*c.H*c.width),
			KeyPages: benchFloats(b, d, kv), ValuePages: benchFloats(b, d, kv)}
		b.Run(fmt.Sprintf("H%d/K%d/d%d/P%d/length%d", c.H, c.K, c.width, c.P, c.length), func(b *testing.B) {
			measure(b, 4*B*float64(c.length*c.H*c.width), func() error { return d.PagedAttend(a) })
		})
	}
}

// Rows a second of processor time of the operators that are not products, at the nano model's widths.
func BenchmarkRows(b *testing.B) {
	d := benchDevice(b, 1)
	const T, D, I, V = 1024, 128, 384, 767
	x, w, y, rstd := benchFloats(b, d, T*2*I), benchFloats(b, d, V), benchFloats(b, d, T*2*I), benchFloats(b, d, T)
	ids, err := d.Ints(T)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ids.Free)
	rows := func(name string, call func() error) {
		b.Run(name, func(b *testing.B) {
			start := cpuSeconds()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*T/(cpuSeconds()-start)/1e6, "Mrows/cpu-s")
		})
	}
	rows("rmsnorm", func() error {
		return d.RMSNorm(RMSNorm{Rows: T, N: D, Heads: 1, LdX: D, LdY: D, Eps: 1e-5, X: x, W: w, Y: y, RStd: rstd})
	})
	rows("rmsnorm backward", func() error {
		return d.RMSNormBackward(RMSNormGrad{Rows: T, N: D, Heads: 1, LdX: D, LdDY: D, LdDX: D, DY: x, X: x, W: w, RStd: rstd, DX: y, DW: w})
	})
	rows("swiglu", func() error { return d.SwiGLU(SwiGLU{T: T, I: I, GU: x, Y: y}) })
	rows("swiglu backward", func() error {
		return d.SwiGLUBackward(SwiGLUGrad{T: T, I: I, GU: x, DY: y, DGU: y})
	})
	rows("cross entropy", func() error {
		return d.CrossEntropy(CrossEntropy{T: T, V: V, LdZ: V, Tau: 1, Target: ids, Weight: rstd, Z: x, DZ: y, NLL: rstd})
	})
	for _, c := range []struct {
		name string
		topK int32
		topP float32
	}{{"sample", 0, 1}, {"sample top_k 20", 20, 1}, {"sample top_p .9", 0, .9}} {
		s := Sample{T: T, V: V, LdZ: V, Valid: V, Z: x, Tau: make([]float32, T), TopP: make([]float32, T), TopK: make([]int32, T),
			U: make([]float64, T), ID: make([]int32, T), LogP: make([]float32, T), Behaviour: make([]float32, T)}
		for t := range T {
			s.Tau[t], s.TopP[t], s.TopK[t], s.U[t] = 1, c.topP, c.topK, float64(t)/T
		}
		rows(c.name, func() error { return d.Sample(s) })
	}
}

// Products of a train step in bfloat16, forward and both backwards.
func BenchmarkTrainProducts(b *testing.B) {
	d := benchDevice(b, 1)
	for _, s := range []struct {
		name    string
		T, N, M int
	}{
		{"nano/qkv", 2048, 256, 128}, {"nano/gateup", 2048, 768, 128}, {"nano/down", 2048, 128, 384}, {"nano/head", 2048, 768, 128},
		{"7.5m/qkv", 2048, 768, 256}, {"7.5m/gateup", 2048, 1408, 256}, {"7.5m/down", 2048, 256, 704}, {"7.5m/head", 2048, 4096, 256},
		{"135m/qkv", 512, 960, 576}, {"135m/gateup", 512, 3072, 576}, {"135m/down", 512, 576, 1536}, {"135m/head", 512, 49152, 576},
	} {
		b.Run(s.name, func(b *testing.B) {
			x, w, y := benchFloats(b, d, s.T*s.M), benchFloats(b, d, s.N*s.M), benchFloats(b, d, s.T*s.N)
			flop := 2 * float64(s.T) * float64(s.N) * float64(s.M)
			packed := benchFloats(b, d, d.PackedFloats(BF16, s.N, s.M))
			if err := d.PackWeight(Pack{N: s.N, M: s.M, Precision: BF16, W: w, Packed: packed}); err != nil {
				b.Fatal(err)
			}
			b.Run("backwardx", func(b *testing.B) {
				measure(b, flop, func() error {
					return d.MatMulBackwardX(MatMulGradX{T: s.T, N: s.N, M: s.M, LdDY: s.N, LdDX: s.M, Precision: BF16, DY: y, W: w, DX: x})
				})
			})
			b.Run("backwardw", func(b *testing.B) {
				measure(b, flop, func() error {
					return d.MatMulBackwardW(MatMulGradW{T: s.T, N: s.N, M: s.M, LdDY: s.N, LdX: s.M, Precision: BF16, DY: y, X: x, DW: w})
				})
			})
			b.Run("forward", func(b *testing.B) {
				measure(b, flop, func() error {
					return d.MatMul(MatMul{T: s.T, N: s.N, M: s.M, LdX: s.M, LdY: s.N, Precision: BF16, X: x, W: w, Packed: packed, Y: y})
				})
			})
		})
	}
}
