package trainer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// kinRows are rows of a few families that begin alike and part at random places, some of them
// equal, some the beginning of others.
func kinRows(rng *rand.Rand, vocab, count, longest int) []Row {
	rows := someRows(rng, vocab, count, longest)
	for i := range rows {
		if i == 0 || rng.IntN(4) == 0 {
			continue
		}
		other := rows[rng.IntN(i)]
		n := rng.IntN(len(other.IDs)) + 1
		if n > len(rows[i].IDs) {
			rows[i] = Row{IDs: slices.Clone(other.IDs[:n]), Weights: slices.Clone(other.Weights[:n])}
		}
		copy(rows[i].IDs[:min(n, len(rows[i].IDs))], other.IDs)
	}
	return rows
}

// pathTo are the ids that row t of m sees, in order.
func (m *micro) pathTo(t int32) (ids []int32) {
	b := 0
	for m.start[b+1] <= t {
		b++
	}
	for row := m.start[b]; row <= t; row++ {
		if m.until == nil || m.until[row] > t {
			ids = append(ids, m.ids[row])
		}
	}
	return ids
}

// Whatever rows have in common and however they are cut: every weighted id is there once, its
// pick sees exactly what stands before it, positions count the path, and no micro-batch is larger
// than the limit unless it holds one row.
func TestPackHoldsEveryPath(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		rows := kinRows(rng, 3+rng.IntN(40), 1+rng.IntN(40), 2+rng.IntN(60))
		samples, count := samplesOf(rows)
		for _, limit := range []int{1, 37, 200, 5000} {
			seen := make([]bool, count)
			size := 0
			for _, m := range pack(samples, limit) {
				size += len(m.ids)
				if max(len(m.ids), len(m.pick)) > limit && len(m.samples) > 1 {
					t.Fatalf("seed %d: %d ids and %d picks of %d samples in a limit of %d", seed, len(m.ids), len(m.pick), len(m.samples), limit)
				}
				for row, pos := range m.pos {
					if got := len(m.pathTo(int32(row))); got != int(pos)+1 {
						t.Fatalf("seed %d: row %d at position %d sees %d rows", seed, row, pos, got)
					}
				}
				m.checkWeighted(t, samples, seen)
			}
			if slices.Contains(seen, false) {
				t.Fatalf("seed %d, limit %d: a weighted id is missing", seed, limit)
			}
			if whole := sizeOf(samples); size > whole {
				t.Fatalf("seed %d: %d ids of %d", seed, size, whole)
			}
		}
	}
}

func sizeOf(samples []sample) (n int) {
	for _, s := range samples {
		n += s.inputs()
	}
	return n
}

// checkWeighted compares the weighted ids of m with the samples and marks them in seen.
func (m *micro) checkWeighted(t *testing.T, samples []sample, seen []bool) {
	t.Helper()
	sum := make([]float32, len(m.pick))
	for i, number := range m.number {
		s := samples[0]
		for _, o := range samples {
			if o.first <= number {
				s = o
			}
		}
		at, left := 0, number-s.first // the place of weighted id `number` in s
		for ; s.weights[at] == 0 || left > 0; at++ {
			if s.weights[at] != 0 {
				left--
			}
		}
		pick := m.of[i]
		if seen[number] || m.each[i] != s.weights[at] || m.target[pick] != s.ids[at] || !slices.Equal(m.pathTo(m.pick[pick]), s.ids[:at]) {
			t.Fatalf("weighted id %d, at %d of %v: predicted by %v", number, at, s.ids, m.pathTo(m.pick[pick]))
		}
		seen[number] = true
		sum[pick] += m.each[i]
	}
	if !slices.Equal(sum, m.weight) {
		t.Fatalf("weights %v, the sums are %v", m.weight, sum)
	}
}

// Samples of one prompt cost the prompt once.
func TestPackSharesPrompts(t *testing.T) {
	prompt := make([]int32, 300)
	var rows []Row
	for i := range int32(8) {
		r := Row{IDs: append(slices.Clone(prompt), i+1, i+2, i+3, 9)}
		r.Weights = make([]float32, len(r.IDs))
		for t := 300; t < len(r.IDs); t++ {
			r.Weights[t] = 1
		}
		rows = append(rows, r)
	}
	samples, _ := samplesOf(rows)
	if m := pack(samples, 4096)[0]; len(m.ids) != 300+8*3 || len(m.pick) != 8*4 || len(m.start) != 2 {
		t.Errorf("%d ids, %d picks in %d trees", len(m.ids), len(m.pick), len(m.start)-1)
	}
	rows = append(rows, rows...) // again: nothing new to run
	samples, _ = samplesOf(rows)
	if m := pack(samples, 4096)[0]; len(m.ids) != 300+8*3 || len(m.pick) != 8*4 || len(m.of) != 16*4 || m.weight[0] != 2 {
		t.Errorf("twice: %d ids, %d picks for %d", len(m.ids), len(m.pick), len(m.of))
	}
}

// The log-probabilities in trees are those of rows by themselves to the bit, the gradient is
// the same within rounding, and neither depends on the order of the rows.
func TestTreesAreRows(t *testing.T) {
	dev := cpu(t, 2)
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		c := toy(family, true)
		rows := kinRows(rand.New(rand.NewPCG(7, 8)), c.Vocab, 30, 40)
		alone, tree := bare(t, c, dev, Options{MicroTokens: 1}), bare(t, c, dev, Options{})
		want, loss := gradients(t, alone, rows)
		got, treeLoss := gradients(t, tree, rows)
		if d := distance(want, got); !(d < 1e-5) || !(math.Abs(loss-treeLoss) < 1e-6) {
			t.Errorf("%s: gradients differ by %g, losses %v and %v", family, d, loss, treeLoss)
		}
		a, err := alone.Score(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		b, err := tree.Score(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a {
			if !slices.Equal(a[i], b[i]) {
				t.Errorf("%s: row %d: %v alone, %v in a tree", family, i, a[i], b[i])
			}
		}
		backwards := slices.Clone(rows)
		slices.Reverse(backwards)
		if again, _ := gradients(t, tree, backwards); !slices.Equal(again, got) {
			t.Errorf("%s: another order of rows, gradients differ by %g", family, distance(got, again))
		}
	}
}
