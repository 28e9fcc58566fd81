package trainer

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

// The CUDA kernels, run on the CPU thread by thread, against the CPU device: the same model
// takes a whole training step and decodes whole replies.

func simt(t *testing.T) *cuda.Device {
	t.Helper()
	dev, err := cuda.Open("simt", 2)
	if errors.Is(err, cuda.NoDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	return dev
}

// alike fails unless got is within share of the largest |want| everywhere.
func alike(t *testing.T, name string, got, want []float32, share float64) {
	t.Helper()
	var most float64
	for _, x := range want {
		most = max(most, math.Abs(float64(x)))
	}
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= share*most) {
			t.Fatalf("%s[%d] is %v, the CPU has %v (largest %v)", name, i, got[i], want[i], most)
		}
	}
}

// after is what one step left: the report, the gradients and the weights.
type after struct {
	step           Step
	grads, weights []float32
}

func oneStep(t *testing.T, dev *cuda.Device, o Options) after {
	t.Helper()
	tr := bare(t, nano(), dev, o)
	if err := tr.InitMimetic(1); err != nil {
		t.Fatal(err)
	}
	rows := someRows(rand.New(rand.NewPCG(3, 4)), 767, 5, 24)
	step, err := tr.Step(t.Context(), rows, 1e-3)
	if err != nil {
		t.Fatal(err)
	}
	return after{step, host(t, tr.opt.grads), host(t, tr.model.params)}
}

func TestNanoStepOnSIMT(t *testing.T) {
	want, got := oneStep(t, cpu(t, 2), Options{}), oneStep(t, simt(t), Options{})
	if math.Abs(got.step.NLL-want.step.NLL) > 1e-6*want.step.NLL || math.Abs(got.step.GradNorm-want.step.GradNorm) > 1e-5*want.step.GradNorm {
		t.Errorf("step %+v, the CPU has %+v", got.step, want.step)
	}
	alike(t, "gradient", got.grads, want.grads, 1e-5)
	// Where a gradient is near 0 its sign may differ, and the first step of Adam is the sign.
	alike(t, "weight", got.weights, want.weights, 3e-3)
}

func TestNanoStepInBF16OnSIMT(t *testing.T) {
	want, got := oneStep(t, cpu(t, 2), Options{}), oneStep(t, simt(t), Options{Precision: cuda.BF16})
	if math.Abs(got.step.NLL-want.step.NLL) > 5e-3*want.step.NLL || math.Abs(got.step.GradNorm-want.step.GradNorm) > 3e-2*want.step.GradNorm {
		t.Errorf("step %+v, the CPU in float32 has %+v", got.step, want.step)
	}
	alike(t, "gradient", got.grads, want.grads, 5e-2)
}

func TestNanoDecodeOnSIMT(t *testing.T) {
	replies := func(dev *cuda.Device) []engine.Completion {
		tr := serve(t, nano(), dev, Options{})
		if err := tr.InitMimetic(1); err != nil {
			t.Fatal(err)
		}
		var list []engine.Completion
		for _, r := range mixedRequests(5) {
			r.MaxTokens = min(r.MaxTokens, 5)
			c, err := tr.Policy().Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		return list
	}
	want, got := replies(cpu(t, 2)), replies(simt(t))
	for i := range want {
		if !slices.Equal(got[i].Sampled, want[i].Sampled) {
			t.Errorf("reply %d is %v, the CPU has %v", i, got[i].Sampled, want[i].Sampled)
			continue
		}
		for j := range want[i].LogProbs {
			if d := math.Abs(float64(got[i].LogProbs[j] - want[i].LogProbs[j])); d > 1e-4 {
				t.Errorf("reply %d id %d: log-probability differs by %v", i, j, d)
			}
		}
	}
}

// With a cache in bfloat16 the policy's log-probabilities stay within its rounding of the learner's.
func TestNanoDecodeInBF16OnSIMT(t *testing.T) {
	tr := serve(t, nano(), simt(t), Options{Precision: cuda.BF16})
	if err := tr.InitMimetic(1); err != nil {
		t.Fatal(err)
	}
	if got, want := tr.Memory().Cache, int64(tr.Memory().CacheTokens)*cacheBytes(tr.model); got != want || 2*cacheBytes(tr.model) != 8*int64(len(nano().Layers)*nano().KVHeads*nano().HeadDim) {
		t.Errorf("the cache takes %d bytes, a token %d", got, cacheBytes(tr.model))
	}
	r := mixedRequests(1)[0]
	r.MaxTokens, r.Sampling = 20, engine.Sampling{Temperature: 1, TopP: 1}
	c, err := tr.Policy().Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	row := Row{IDs: append(slices.Clone(r.Prompt), c.Sampled...)}
	row.Weights = make([]float32, len(row.IDs))
	for i := len(r.Prompt); i < len(row.IDs); i++ {
		row.Weights[i] = 1
	}
	scores, err := tr.Score(t.Context(), []Row{row})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range scores[0] {
		if d := math.Abs(float64(x - c.LogProbs[i])); !(d < 2e-2) {
			t.Errorf("id %d: the policy says %v, the learner %v", i, c.LogProbs[i], x)
		}
	}
}
