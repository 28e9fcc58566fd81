package trainer

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

// smollm2Path is the file of the published SmolLM2-135M-Instruct; the test is skipped without it.
func smollm2Path(t *testing.T) string {
	t.Helper()
	path := os.Getenv("WHALE_SMOLLM2")
	if path == "" {
		path = filepath.Join("..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no SmolLM2-135M (%v); run bench/runs/fetch_smollm2.sh or set WHALE_SMOLLM2", err)
	}
	return path
}

// Ensure that on the published model the policy reports the log-probabilities that the
// learner finds, within the bound of the precision, and say how often a lower precision
// would choose the same id as float32 does. WHALE_TOKENS is how many are sampled.
func TestSmolLM2PolicyAndLearnerAgree(t *testing.T) {
	path := smollm2Path(t)
	tokens := 32
	if text := os.Getenv("WHALE_TOKENS"); text != "" {
		var err error
		if tokens, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	questions := []string{"What is the capital of France?", "Write two sentences about whales.", "How does bread rise?", "Count from one to twenty in words."}
	var greedy [][]int32 // replies of float32
	for _, test := range []struct {
		name       string
		o          Options
		mean, most float64 // bounds on the drift
		same       float64 // least share of ids that float32 chooses too
	}{
		{"float32", Options{}, 1e-4, 1e-4, 1},
		{"bf16x3", Options{Precision: cuda.BF16x3}, 1e-4, 1e-4, .99},
		{"bf16", Options{Precision: cuda.BF16}, .02, math.Inf(1), .9},
		{"bf16, int8", Options{Precision: cuda.BF16, Int8: true}, driftInt8, math.Inf(1), .8},
	} {
		dev := cpu(t, 2)
		if !dev.Has(test.o.Precision) || test.o.Int8 && !dev.Has(cuda.Int8) {
			t.Logf("this processor has no %s products: not tested", test.name)
			continue
		}
		o := test.o
		o.Context, o.Frozen = 512, true
		tr, err := OpenDir(path, dev, o)
		if err != nil {
			t.Fatal(err)
		}
		var prompts [][]int32
		var requests []engine.Request
		for i, q := range questions {
			prompt, err := tr.Policy().Encode([]engine.Turn{{Role: "user", Content: q}})
			if err != nil {
				t.Fatal(err)
			}
			prompts = append(prompts, prompt)
			requests = append(requests, engine.Request{Prompt: prompt, MaxTokens: tokens / len(questions),
				Sampling: engine.Sampling{Temperature: 1}, Seed: uint64(i)})
		}
		mean, most := smollm2Drift(t, tr, requests)
		if greedy == nil {
			for i := range requests {
				requests[i].Sampling.Temperature = 0
			}
			for _, c := range together(t, tr.Policy(), requests) {
				greedy = append(greedy, c.Sampled)
			}
		}
		same, of := agreement(t, tr.Policy(), prompts, greedy)
		t.Logf("%s: |learner - policy| %.2g on average, %.2g at most; %d of %d ids as float32 chooses", test.name, mean, most, same, of)
		if mean > test.mean || most > test.most || float64(same) < test.same*float64(of) {
			t.Errorf("%s: drift %v, %v, bounds %v, %v; %d of %d ids the same", test.name, mean, most, test.mean, test.most, same, of)
		}
		tr.Close()
	}
}

// smollm2Drift samples and scores what was sampled.
func smollm2Drift(t *testing.T, tr *Trainer, requests []engine.Request) (mean, most float64) {
	t.Helper()
	var rows []Row
	var reported []float32
	for i, c := range together(t, tr.Policy(), requests) {
		n := len(requests[i].Prompt)
		row, err := rowOf(engine.Sequence{IDs: slices.Concat(requests[i].Prompt, c.Sampled), Sampled: []engine.Span{{From: n, To: n + len(c.Sampled)}}})
		if err != nil {
			t.Fatal(err)
		}
		rows, reported = append(rows, row), append(reported, c.LogProbs...)
	}
	scores, err := tr.Score(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	nll := slices.Concat(scores...)
	for i := range nll {
		nll[i] = -nll[i]
	}
	return drift(nll, reported)
}

// agreement counts the ids of replies that a policy chooses too, given all before them.
func agreement(t *testing.T, p *Policy, prompts, replies [][]int32) (same, of int) {
	t.Helper()
	var requests []engine.Request
	var want []int32
	for i, reply := range replies {
		for at := range reply {
			requests = append(requests, engine.Request{Prompt: slices.Concat(prompts[i], reply[:at]), MaxTokens: 1})
			want = append(want, reply[at])
		}
	}
	for i, c := range together(t, p, requests) {
		if c.Sampled[0] == want[i] {
			same++
		}
	}
	return same, len(want)
}
