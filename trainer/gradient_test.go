package trainer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// Every gradient of whole models against finite differences of the double reference.
func TestGradientsMatchFiniteDifferences(t *testing.T) {
	dev := cpu(t, 1)
	for _, family := range []string{checkpoint.Llama, checkpoint.Qwen3} {
		for _, tied := range []bool{true, false} {
			for _, tau := range []float64{1, 0.7} {
				c := toy(family, tied)
				tr := bare(t, c, dev, Options{Temperature: tau})
				rows := append(someRows(rand.New(rand.NewPCG(1, 2)), c.Vocab, 3, 9), kinRows(rand.New(rand.NewPCG(3, 4)), c.Vocab, 4, 9)...)
				got, loss := gradients(t, tr, rows)
				ref := newReference(c, tr.model.layout, host(t, tr.model.params))
				if want := ref.loss(rows, tau); math.Abs(loss-want) > 1e-5*want {
					t.Errorf("%s tied=%v tau=%v: loss %v, reference %v", family, tied, tau, loss, want)
				}
				for _, tensor := range tr.model.layout.tensors {
					compareWithDifferences(t, ref, rows, tau, tensor, tensor.of(got))
				}
			}
		}
	}
}

func compareWithDifferences(t *testing.T, ref *reference, rows []Row, tau float64, tensor named, got []float32) {
	t.Helper()
	const h = 1e-5
	w := ref.weights[tensor.Name]
	diff, size := 0.0, 0.0
	for i := range w {
		keep := w[i]
		w[i] = keep + h
		up := ref.loss(rows, tau)
		w[i] = keep - h
		want := (up - ref.loss(rows, tau)) / (2 * h)
		w[i] = keep
		diff += (want - float64(got[i])) * (want - float64(got[i]))
		size += want * want
		if math.Abs(want-float64(got[i])) > 1e-3*math.Abs(want)+2e-6 {
			t.Errorf("%s %s[%d]: gradient %g, finite difference %g", ref.c.Family, tensor.Name, i, got[i], want)
			return
		}
	}
	if size == 0 || math.Sqrt(diff/size) > 1e-4 {
		t.Errorf("%s %s: relative error %g of gradient norm %g", ref.c.Family, tensor.Name, math.Sqrt(diff/size), math.Sqrt(size))
	}
}

// distance is |a-b| / |a|.
func distance(a, b []float32) float64 {
	diff, size := 0.0, 0.0
	for i := range a {
		diff += float64(a[i]-b[i]) * float64(a[i]-b[i])
		size += float64(a[i]) * float64(a[i])
	}
	return math.Sqrt(diff / size)
}

// The mean is over all weights of the batch, so cutting, packing and order do not matter.
func TestLossDoesNotDependOnCutOrOrder(t *testing.T) {
	dev := cpu(t, 2)
	c := toy(checkpoint.Qwen3, true)
	rows := someRows(rand.New(rand.NewPCG(3, 4)), c.Vocab, 20, 30)
	want, loss := gradients(t, bare(t, c, dev, Options{}), rows)
	backwards := slices.Clone(rows)
	slices.Reverse(backwards)
	for _, v := range []struct {
		name  string
		micro int
		rows  []Row
	}{{"one row each", 1, rows}, {"40 ids", 40, rows}, {"100 ids", 100, rows}, {"reversed", 4096, backwards}, {"reversed, 64 ids", 64, backwards}} {
		got, l := gradients(t, bare(t, c, dev, Options{MicroTokens: v.micro}), v.rows)
		if math.Abs(l-loss) > 1e-6*loss {
			t.Errorf("%s: loss %v, in one piece %v", v.name, l, loss)
		}
		if d := distance(want, got); d > 1e-6 {
			t.Errorf("%s: gradient differs by %g", v.name, d)
		}
	}
}

func TestGradientBitsDoNotDependOnThreads(t *testing.T) {
	c := toy(checkpoint.Llama, false)
	rows := someRows(rand.New(rand.NewPCG(5, 6)), c.Vocab, 12, 40)
	one, _ := gradients(t, bare(t, c, cpu(t, 1), Options{}), rows)
	two, _ := gradients(t, bare(t, c, cpu(t, 2), Options{}), rows)
	if !slices.Equal(one, two) {
		t.Errorf("gradients differ by %g between one and two threads", distance(one, two))
	}
}

// An id without weight is context only: its label does not matter, and behind the last
// weighted id nothing matters.
func TestUnweightedIDsContributeNothing(t *testing.T) {
	dev := cpu(t, 1)
	c := toy(checkpoint.Llama, true)
	tr := bare(t, c, dev, Options{})
	row := Row{IDs: []int32{1, 2, 3, 4, 5, 6, 7}, Weights: []float32{0, 0, 1, 0, 1, 0, 0}}
	want, loss := gradients(t, tr, []Row{row})
	short := Row{IDs: row.IDs[:5], Weights: row.Weights[:5]}
	other := Row{IDs: []int32{1, 2, 3, 4, 5, 9, 9}, Weights: row.Weights}
	silent := Row{IDs: []int32{3, 1, 4, 1, 5}, Weights: make([]float32, 5)}
	for name, rows := range map[string][]Row{
		"cut behind the last weight": {short}, "other ids behind": {other}, "with a row of no weight": {silent, row, silent},
	} {
		got, l := gradients(t, tr, rows)
		if l != loss || !slices.Equal(got, want) {
			t.Errorf("%s: loss %v and gradient changed (%v before)", name, l, loss)
		}
	}
	// The row of an unweighted label gives no gradient: only the weight of the two counted rows enters.
	step, err := tr.Step(t.Context(), []Row{row}, 0)
	if err != nil || step.Tokens != 2 || step.Forward != 4 {
		t.Errorf("step %+v, %v: want 2 tokens, 4 inputs", step, err)
	}
}
