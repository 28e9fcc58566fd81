package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-7c27e6b8/whale/bench/speed/workload"
	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
)

// parity is how far the device is from the CPU on an embedded model: the largest difference of
// a log-probability, and of loss and gradient norm of a step, relative.
type parity struct {
	Model    string  `json:"model"`
	LogProb  float64 `json:"logprob"`
	Loss     float64 `json:"loss"`
	GradNorm float64 `json:"grad_norm"`
}

// online is one step of rejection sampling fine-tuning with the embedded model.
type online struct {
	Sampled int     `json:"sampled"`
	Trained int     `json:"trained"`
	Drift   float64 `json:"drift"` // between policy and learner, in log-probability
}

const (
	mostLogProb = 1e-3 // float32 on both sides
	mostStep    = 1e-3
	mostDrift   = 1e-3
)

func openNano(dev *cuda.Device) (*trainer.Trainer, error) {
	files, err := nano.Open(nano.For("lookup"))
	if err != nil {
		return nil, err
	}
	return trainer.Open(files, dev, trainer.Options{CacheTokens: 4096, MicroTokens: 512, StepTokens: 64})
}

// checks compares the device with the CPU and makes one online step.
func (r *report) checks(ctx context.Context, dev *cuda.Device) error {
	cpu, err := cuda.Open("cpu", 1)
	if err != nil {
		return err
	}
	defer cpu.Close()
	want, err := openNano(cpu)
	if err != nil {
		return err
	}
	defer want.Close()
	got, err := openNano(dev)
	if err != nil {
		return err
	}
	defer got.Close()
	rows := make([]trainer.Row, 4)
	for i := range rows {
		rows[i] = workload.Row(rand.New(rand.NewPCG(1, uint64(i))), 20+i)
	}
	p := parity{Model: "nano"}
	a, err := want.Score(ctx, rows)
	if err != nil {
		return err
	}
	b, err := got.Score(ctx, rows)
	if err != nil {
		return err
	}
	for i := range a {
		for j := range a[i] {
			p.LogProb = max(p.LogProb, math.Abs(float64(a[i][j]-b[i][j])))
		}
	}
	s, err := want.Step(ctx, rows, 0)
	if err != nil {
		return err
	}
	u, err := got.Step(ctx, rows, 0)
	if err != nil {
		return err
	}
	p.Loss, p.GradNorm = math.Abs(u.NLL/s.NLL-1), math.Abs(u.GradNorm/s.GradNorm-1)
	r.Parity = append(r.Parity, p)
	fmt.Printf("parity with the CPU on %s: log-probabilities within %.1e, loss %.1e, gradient norm %.1e\n", p.Model, p.LogProb, p.Loss, p.GradNorm)
	if !(p.LogProb < mostLogProb && p.Loss < mostStep && p.GradNorm < mostStep) {
		return fmt.Errorf("the device does not compute what the CPU does: %+v", p)
	}
	return r.online(ctx, got)
}

// online samples replies, trains on them, and compares what policy and learner say of them.
func (r *report) online(ctx context.Context, t *trainer.Trainer) error {
	prompt, err := t.Policy().Encode([]engine.Turn{{Role: "user", Content: "2+3=?"}})
	if err != nil {
		return err
	}
	requests := make([]engine.Request, 4)
	for i := range requests {
		requests[i] = engine.Request{Prompt: prompt, MaxTokens: 16, Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: uint64(i)}
	}
	replies, err := workload.Together(ctx, t, requests)
	if err != nil {
		return err
	}
	o := &online{}
	var accepted []engine.Sequence
	for _, c := range replies {
		ids := append(prompt[:len(prompt):len(prompt)], c.Sampled...)
		o.Sampled += len(c.Sampled)
		accepted = append(accepted, engine.Sequence{IDs: ids, Sampled: []engine.Span{{From: len(prompt), To: len(ids)}}, LogProbs: c.LogProbs})
	}
	u, err := t.Learner().Update(ctx, accepted)
	if err != nil {
		return err
	}
	o.Trained, o.Drift = u.Tokens, u.Drift
	r.RSFT = o
	fmt.Printf("one online step: %d ids sampled, %d trained on, policy and learner differ by %.1e\n", o.Sampled, o.Trained, o.Drift)
	if !(o.Drift < mostDrift) {
		return fmt.Errorf("policy and learner differ by %v", o.Drift)
	}
	return nil
}
