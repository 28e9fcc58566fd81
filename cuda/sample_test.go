package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// refSample follows spec/models.md 7 by sorting: the kept ids with their truncated
// distribution, ascending in id.
func refSample(z []float64, valid int, tau, topP float64, topK int) (ids []int32, p []float64) {
	order := make([]int32, valid)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return map[bool]int{true: -1, false: 1}[z[a] > z[b] || (z[a] == z[b] && a < b)]
	})
	if topK > 0 && topK < valid {
		least := z[order[topK-1]]
		order = slices.DeleteFunc(order, func(i int32) bool { return z[i] < least })
	}
	var total float64
	for _, i := range order {
		total += math.Exp((z[i] - z[order[0]]) / tau)
	}
	var above float64 // of ids strictly above the current value
	kept := len(order)
	for i := 0; i < len(order) && topP < 1; {
		if i > 0 && above >= topP*total {
			kept = i
			break
		}
		for v := z[order[i]]; i < len(order) && z[order[i]] == v; i++ {
			above += math.Exp((v - z[order[0]]) / tau)
		}
	}
	ids = slices.Clone(order[:kept])
	slices.Sort(ids)
	total = 0
	for _, i := range ids {
		p = append(p, math.Exp((z[i]-z[order[0]])/tau))
		total += p[len(p)-1]
	}
	for i := range p {
		p[i] /= total
	}
	return ids, p
}

// draw runs one row at every u and returns ids, logp and behaviour.
func (b *bed) draw(z []float32, valid int, tau, topP float32, topK int, us []float64) ([]int32, []float32, []float32) {
	b.t.Helper()
	T, V := len(us), len(z)
	s := Sample{T: T, V: V, LdZ: V, Valid: valid, Z: b.put(slices.Repeat(z, T)), Tau: make([]float32, T), TopP: make([]float32, T),
		TopK: make([]int32, T), U: us, ID: make([]int32, T), LogP: make([]float32, T), Behaviour: make([]float32, T)}
	for t := range T {
		s.Tau[t], s.TopP[t], s.TopK[t] = tau, topP, int32(topK)
	}
	b.must(b.Sample(s))
	return s.ID, s.LogP, s.Behaviour
}

func TestVectorSampling(t *testing.T) {
	// The logits of the vector after penalties, before tau.
	z := []float32{1.666667 * .7, 1.428571 * .7, .714286 * .7, -1.714286 * .7, 1.285714 * .7}
	onAll(t, func(b *bed) {
		for _, c := range []struct {
			topK int
			topP float32
			ids  []int32
			p    []float64
		}{
			{3, 1, []int32{0, 1, 4}, nil},
			{3, .6, []int32{0, 1}, []float64{.5592, .4408}},
			{0, 1, []int32{0, 1, 2, 3, 4}, nil},
			{1, 1, []int32{0}, []float64{1}},
			{0, 0, []int32{0}, []float64{1}},
		} {
			var us []float64
			for i := range 1000 {
				us = append(us, float64(i)/1000)
			}
			ids, _, behaviour := b.draw(z, 5, .7, c.topP, c.topK, us)
			count := map[int32]int{}
			for i, id := range ids {
				count[id]++
				if k := slices.Index(c.ids, id); k < 0 {
					b.t.Fatalf("top_k %d top_p %g: drew %d, not among %v", c.topK, c.topP, id, c.ids)
				} else if c.p != nil && math.Abs(math.Exp(float64(behaviour[i]))-c.p[k]) > 1e-4 {
					b.t.Fatalf("top_k %d top_p %g: id %d has probability %v, want %v", c.topK, c.topP, id, math.Exp(float64(behaviour[i])), c.p[k])
				}
				if i > 0 && id < ids[i-1] {
					b.t.Fatalf("id falls from %d to %d as u grows", ids[i-1], id)
				}
			}
			if len(count) != len(c.ids) {
				b.t.Fatalf("top_k %d top_p %g: drew %v, want all of %v", c.topK, c.topP, count, c.ids)
			}
		}
	})
}

func TestSampleAgainstSorting(t *testing.T) {
	onAll(t, func(b *bed) {
		us := []float64{0, .1, .25, .5, .77, .9, .99, .999999}
		for _, s := range []struct {
			V, valid, topK int
			tau, topP      float32
			spread         float32
		}{
			{1, 1, 0, 1, 1, 1}, {767, 767, 20, 1, 1, 3}, {767, 760, 0, 1, .9, 3}, {767, 767, 50, .7, .8, 2}, {2049, 2000, 0, 1.5, .5, 5},
			{300, 300, 299, 1, .999, 1}, {151936, 151665, 20, .6, .95, 3}, {151936, 151665, 0, 1, .7, 2}, {40, 7, 20, 1, 1, 1},
		} {
			if b.slow(s.V * len(us)) {
				continue
			}
			z := random(uint64(s.V+s.topK), s.V)
			for i := range z {
				z[i] *= s.spread
				if i%5 == 0 {
					z[i] = float32(math.Round(float64(z[i]))) // ties
				}
			}
			for i := s.valid; i < s.V; i++ {
				z[i] += 50 // padding rows that would win
			}
			name := fmt.Sprintf("%+v", s)
			kept, p := refSample(wide(z), s.valid, float64(s.tau), float64(s.topP), s.topK)
			full := refLogSumExp(wide(z), float64(s.tau))
			ids, logp, behaviour := b.draw(z, s.valid, s.tau, s.topP, s.topK, us)
			for i, id := range ids {
				k := slices.Index(kept, id)
				if k < 0 {
					b.t.Fatalf("%s u %g: drew %d, which is cut off", name, us[i], id)
				}
				var before float64
				for _, x := range p[:k] {
					before += x
				}
				if us[i] < before-1e-6 || us[i] > before+p[k]+1e-6 {
					b.t.Fatalf("%s u %g: drew %d, whose share is [%g, %g)", name, us[i], id, before, before+p[k])
				}
				near(b.t, name+" behaviour", behaviour[i:i+1], []float64{math.Log(p[k])}, 3e-6)
				near(b.t, name+" logp", logp[i:i+1], []float64{float64(z[id])/float64(s.tau) - full}, 3e-6)
			}
		}
	})
}

func TestGreedyTakesTheFirstLargest(t *testing.T) {
	onAll(t, func(b *bed) {
		z := random(1, 100)
		z[17], z[60], z[99] = 9, 9, 50
		ids, logp, behaviour := b.draw(z, 99, 1e-5, .5, 3, []float64{.9})
		if ids[0] != 17 || behaviour[0] != 0 {
			b.t.Fatalf("drew %d with behaviour %v, want 17 with 0", ids[0], behaviour[0])
		}
		near(b.t, "logp", logp, []float64{9 - refLogSumExp(wide(z), 1)}, 1e-6)
	})
}

// What the policy reports is what the trainer computes, bit for bit.
func TestSampleLogPIsTheLoss(t *testing.T) {
	onAll(t, func(b *bed) {
		const T, V, tau = 60, 767, .8
		z := random(1, T*V)
		s := Sample{T: T, V: V, LdZ: V, Valid: V, Z: b.put(z), Tau: slices.Repeat([]float32{tau}, T), TopP: slices.Repeat([]float32{1}, T),
			TopK: make([]int32, T), U: make([]float64, T), ID: make([]int32, T), LogP: make([]float32, T)}
		for t := range T {
			s.U[t] = float64(t) / T
		}
		b.must(b.Sample(s))
		nll := b.poison(T)
		b.must(b.CrossEntropy(CrossEntropy{T: T, V: V, LdZ: V, Tau: tau, Target: b.ints(s.ID), Z: s.Z, NLL: nll}))
		want := b.get(nll)
		for i := range want {
			want[i] = -want[i]
		}
		sameBits(b.t, "logp", s.LogP, want)
	})
}

// A banned id has logit -inf: it is never drawn, not even where u is as large as it gets, and
// the probabilities of the others are those without it.
func TestBannedIdsAreNeverDrawn(t *testing.T) {
	onAll(t, func(b *bed) {
		z := random(1, 300)
		for i := range z {
			if i%3 != 1 {
				z[i] = float32(math.Inf(-1))
			}
		}
		us := []float64{0, .3, .9, math.Nextafter(1, 0)}
		for _, c := range []struct {
			topK int
			topP float32
		}{{0, 1}, {20, 1}, {0, .9}, {299, .99}} {
			ids, logp, behaviour := b.draw(z, 300, 1, c.topP, c.topK, us)
			for i, id := range ids {
				if id%3 != 1 || !(logp[i] <= 0) || !(behaviour[i] <= 0) || behaviour[i] < logp[i]-1e-5 {
					b.t.Fatalf("%+v u %g: drew %d with logp %v, behaviour %v", c, us[i], id, logp[i], behaviour[i])
				}
			}
		}
	})
}
