package trainer

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// One optimizer step of the nano model: 2,048 tokens in sequences of about 100, all of them
// in the loss, two threads.
func BenchmarkTrainNano(b *testing.B) {
	tr := serveNano(b)
	rng := rand.New(rand.NewPCG(1, 1))
	var rows []Row
	for left := 2048; left > 0; {
		n := min(left, 80+rng.IntN(41))
		r := Row{IDs: make([]int32, n+1), Weights: make([]float32, n+1)}
		for t := range r.IDs {
			r.IDs[t] = int32(rng.IntN(259))
			r.Weights[t] = min(1, float32(t))
		}
		rows, left = append(rows, r), left-n
	}
	if _, err := tr.Step(b.Context(), rows, 1e-3); err != nil {
		b.Fatal(err)
	}
	before, cpu := tr.Counters(), cpuSeconds(b)
	for b.Loop() {
		if _, err := tr.Step(b.Context(), rows, 1e-3); err != nil {
			b.Fatal(err)
		}
	}
	now := tr.Counters()
	seconds := now.TrainSeconds - before.TrainSeconds
	b.ReportMetric(float64(now.Forward-before.Forward)/seconds, "tok/s")
	b.ReportMetric((now.TrainFLOPs-before.TrainFLOPs)/seconds/1e9, "GFLOP/s")
	b.ReportMetric((now.TrainFLOPs-before.TrainFLOPs)/(cpuSeconds(b)-cpu)/1e9, "GFLOP/cpu-s")
}

// Many sessions at once: prompts of 45 tokens, every eighth new, and 12 sampled tokens.
func BenchmarkGenerateNano(b *testing.B) {
	for _, sessions := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			tr := serveNano(b)
			rng := rand.New(rand.NewPCG(1, 1))
			before, cpu := tr.Counters(), cpuSeconds(b)
			for seed := uint64(0); b.Loop(); {
				requests := make([]engine.Request, sessions)
				var prompt []int32
				for i := range requests {
					if i%8 == 0 {
						prompt = make([]int32, 45)
						for t := range prompt {
							prompt[t] = int32(rng.IntN(259))
						}
					}
					seed++
					requests[i] = engine.Request{Prompt: prompt, MaxTokens: 12, Sampling: engine.Sampling{Temperature: 1}, Seed: seed}
				}
				together(b, tr.Policy(), requests)
			}
			now := tr.Counters()
			wall := b.Elapsed().Seconds()
			b.ReportMetric(float64(now.Decoded-before.Decoded)/wall, "tok/s")
			b.ReportMetric((now.GenerateFLOPs-before.GenerateFLOPs)/wall/1e9, "GFLOP/s")
			b.ReportMetric((now.GenerateFLOPs-before.GenerateFLOPs)/(cpuSeconds(b)-cpu)/1e9, "GFLOP/cpu-s")
			b.ReportMetric((now.GenerateSeconds-before.GenerateSeconds)/wall*100, "%device")
		})
	}
}

// One RSFT step: 32 prompts, 8 samples each, two turns of 12 sampled tokens with an
// observation of 40 between them, then updates on every third session in batches of 64.
func BenchmarkOnlineStepNano(b *testing.B) {
	tr := serveNano(b)
	rng := rand.New(rand.NewPCG(1, 1))
	text := func(n int) []int32 {
		ids := make([]int32, n)
		for t := range ids {
			ids[t] = int32(rng.IntN(256))
		}
		return ids
	}
	before, cpu := tr.Counters(), cpuSeconds(b)
	for seed := uint64(0); b.Loop(); {
		var requests []engine.Request
		for range 32 {
			prompt := text(45)
			for range 8 {
				seed++
				requests = append(requests, engine.Request{Prompt: prompt, MaxTokens: 12, Sampling: engine.Sampling{Temperature: 1}, Seed: seed})
			}
		}
		sequences := make([]engine.Sequence, len(requests))
		for range 2 {
			for i, c := range together(b, tr.Policy(), requests) {
				s, from := &sequences[i], len(requests[i].Prompt)
				s.IDs = append(requests[i].Prompt[:from:from], c.Sampled...)
				s.Sampled = append(s.Sampled, engine.Span{From: from, To: len(s.IDs)})
				s.LogProbs = append(s.LogProbs, c.LogProbs...)
				requests[i].Prompt = append(s.IDs[:len(s.IDs):len(s.IDs)], text(40)...)
			}
		}
		var accepted []engine.Sequence
		for i := 0; i < len(sequences); i += 3 {
			accepted = append(accepted, sequences[i])
		}
		for at := 0; at < len(accepted); at += 64 {
			if _, err := tr.Learner().Update(b.Context(), accepted[at:min(at+64, len(accepted))]); err != nil {
				b.Fatal(err)
			}
		}
	}
	now, wall := tr.Counters(), b.Elapsed().Seconds()
	flops := now.GenerateFLOPs + now.TrainFLOPs - before.GenerateFLOPs - before.TrainFLOPs
	b.ReportMetric(flops/wall/1e9, "GFLOP/s")
	b.ReportMetric(flops/(cpuSeconds(b)-cpu)/1e9, "GFLOP/cpu-s")
	b.ReportMetric((now.TrainSeconds-before.TrainSeconds)/wall*100, "%train")
	b.ReportMetric(float64(now.Cached-before.Cached)/float64(now.Cached+now.Prefill-before.Cached-before.Prefill)*100, "%cached")
}

func serveNano(b *testing.B) *Trainer {
	b.Helper()
	tr := serve(b, nano(), cpu(b, 2), Options{})
	if err := tr.InitMimetic(1); err != nil {
		b.Fatal(err)
	}
	return tr
}

// cpuSeconds is what this process used so far; on a shared machine it says more than the
// wall does.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
