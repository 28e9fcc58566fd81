package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-7c27e6b8/whale/bench/speed/workload"
	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// sized is a model's shape and the micro-batch that a card of 140 GB has room for beside it.
type sized struct {
	config checkpoint.Config
	micro  int
}

func sizes() map[string]sized {
	qwen3 := func(hidden, intermediate, heads, layers, micro int) sized {
		return sized{checkpoint.Config{Family: checkpoint.Qwen3, Vocab: 151936, Hidden: hidden, Intermediate: intermediate, Heads: heads, KVHeads: 8,
			HeadDim: 128, Layers: checkpoint.LayersOf(checkpoint.FullAttention, layers), QKNorm: true, Tied: true, RMSEps: 1e-6,
			RopeTheta: 1e6, MaxPositions: 4096, DType: checkpoint.F32}, micro}
	}
	tiny := qwen3(64, 96, 4, 2, 64)
	tiny.config.Vocab, tiny.config.KVHeads, tiny.config.HeadDim, tiny.config.MaxPositions = 768, 2, 32, 256
	return map[string]sized{"tiny": tiny, "0.6b": qwen3(1024, 3072, 16, 28, 8192), "1.7b": qwen3(2048, 6144, 16, 28, 4096), "4b": qwen3(2560, 9728, 32, 36, 2048)}
}

// limits are what the device itself can do: a large product, and copies.
func (r *report) limits(dev *cuda.Device, s settings) error {
	n, wide := s.product, 4*s.product
	a := cuda.MatMul{T: n, N: wide, M: n, LdX: n, LdY: wide, Precision: cuda.BF16}
	var errs [4]error
	a.X, errs[0] = dev.Floats(n * n)
	a.W, errs[1] = dev.Floats(wide * n)
	a.Y, errs[2] = dev.Floats(n * wide)
	a.Packed, errs[3] = dev.Floats(dev.PackedFloats(cuda.BF16, wide, n))
	defer func() {
		for _, f := range []cuda.Floats{a.X, a.W, a.Y, a.Packed} {
			f.Free()
		}
	}()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	noise := make([]float32, n*n) // zeros would be multiplied faster than anything real
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = rng.Float32() - 0.5
	}
	err := a.X.Upload(noise)
	for i := range 4 {
		err = errors.Join(err, a.W.Slice(i*n*n, (i+1)*n*n).Upload(noise))
	}
	if err = errors.Join(err, dev.PackWeight(cuda.Pack{N: wide, M: n, Precision: cuda.BF16, W: a.W, Packed: a.Packed})); err != nil {
		return err
	}
	seconds, err := fastest(dev, 5, func() error { return dev.MatMul(a) })
	if err != nil {
		return err
	}
	r.PeakFLOPs = 2 * float64(n) * float64(n) * float64(wide) / seconds
	seconds, err = fastest(dev, 5, func() error { return dev.Copy(a.Y, a.W.Slice(0, min(a.W.Len(), a.Y.Len()))) })
	r.Copy = 2 * 4 * float64(a.Y.Len()) / seconds
	return err
}

// fastest is the least time of some runs, each waited for.
func fastest(dev *cuda.Device, runs int, f func() error) (float64, error) {
	least := 0.0
	for i := range runs + 1 {
		if err := dev.Sync(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := errors.Join(f(), dev.Sync()); err != nil {
			return 0, err
		}
		if d := time.Since(began).Seconds(); i == 1 || i > 1 && d < least {
			least = d
		}
	}
	return max(least, 1e-9), nil
}

func measureModel(ctx context.Context, dev *cuda.Device, size string, s settings, r *report) (model, error) {
	shape, ok := sizes()[size]
	if !ok {
		return model{}, errors.New("no such size")
	}
	batches, err := s.batchSizes()
	if err != nil {
		return model{}, err
	}
	tokens, err := workload.Tokenizer()
	if err != nil {
		return model{}, err
	}
	most := slices.Max(batches)
	t, err := trainer.New(shape.config, tokens, dev, trainer.Options{Precision: cuda.BF16, MicroTokens: shape.micro,
		StepTokens: max(512, most), CacheTokens: most*(s.prompt+s.sampled+64) + 1024})
	if err != nil {
		return model{}, err
	}
	defer t.Close()
	if err := t.InitNormal(1, 0.02); err != nil {
		return model{}, err
	}
	m := model{Size: size, Parameters: parameters(shape.config), Planned: float64(t.Memory().Total()) / 1e9}
	if err := m.train(ctx, t, s, r); err != nil {
		return m, err
	}
	for i, batch := range batches {
		d, err := measureDecode(ctx, t, shape.config, batch, s, r, uint64(i))
		if err != nil {
			return m, err
		}
		m.Decode = append(m.Decode, d)
	}
	if m.SwitchMilli, err = phaseSwitch(ctx, t, s); err != nil {
		return m, err
	}
	room, err := dev.Room()
	m.Peak = float64(room.Peak) / 1e9
	return m, err
}

// parameters counts weights that are multiplied, the head included.
func parameters(c checkpoint.Config) int {
	q := c.Heads * c.HeadDim
	return len(c.Layers)*c.Hidden*(2*q+2*c.KVHeads*c.HeadDim+3*c.Intermediate) + c.Vocab*c.Hidden
}

func (m *model) train(ctx context.Context, t *trainer.Trainer, s settings, r *report) error {
	rows := make([]trainer.Row, s.rows)
	for i := range rows {
		rows[i] = workload.Row(rand.New(rand.NewPCG(3, uint64(i))), s.row)
	}
	var before trainer.Counters
	for i := range s.steps + 1 {
		if i == 1 {
			before = t.Counters()
		}
		if _, err := t.Step(ctx, rows, 1e-5); err != nil {
			return err
		}
	}
	after := t.Counters()
	seconds := after.TrainSeconds - before.TrainSeconds
	m.TrainRate = float64(after.Forward-before.Forward) / seconds
	m.TrainShare = (after.TrainFLOPs - before.TrainFLOPs) / seconds / r.PeakFLOPs
	return nil
}

// measureDecode is the time of replies of full length less that of replies of one id. The bound is
// reading all weights in bfloat16 once a step, and each sequence's keys and values, likewise.
func measureDecode(ctx context.Context, t *trainer.Trainer, c checkpoint.Config, batch int, s settings, r *report, seed uint64) (decode, error) {
	var took [2]float64 // the least of two rounds, after one that does not count
	for round := range 3 {
		for i, ids := range []int{1, s.sampled} {
			rng := rand.New(rand.NewPCG(seed, uint64(10*round+i)))
			requests := make([]engine.Request, batch)
			for j := range requests {
				requests[j] = engine.Request{Prompt: workload.Text(rng, s.prompt), MaxTokens: ids, Sampling: engine.Sampling{Temperature: 1, TopP: 1}, Seed: rng.Uint64()}
			}
			began := time.Now()
			if _, err := workload.Together(ctx, t, requests); err != nil {
				return decode{}, err
			}
			if seconds := time.Since(began).Seconds(); round < 2 || seconds < took[i] {
				took[i] = seconds
			}
		}
	}
	if took[1] <= took[0] {
		return decode{Batch: batch, Skipped: "replies of one id took as long"}, nil
	}
	seconds := (took[1] - took[0]) / float64(s.sampled-1)
	length := float64(s.prompt) + float64(s.sampled)/2
	bytes := 2*float64(parameters(c)) + float64(batch)*length*float64(len(c.Layers)*2*c.KVHeads*c.HeadDim*2)
	return decode{Batch: batch, Rate: float64(batch) / seconds, Share: bytes / seconds / max(r.Bandwidth, r.Copy)}, nil
}

// phaseSwitch is what the first reply after a step takes longer than the next one, and the first
// step after a reply longer than the next: the median of three, in milliseconds.
func phaseSwitch(ctx context.Context, t *trainer.Trainer, s settings) (float64, error) {
	rows := []trainer.Row{workload.Row(rand.New(rand.NewPCG(4, 4)), min(s.row, 64))}
	var took []float64
	timed := func(f func() error) (float64, error) {
		began := time.Now()
		err := f()
		return time.Since(began).Seconds(), err
	}
	for i := range 4 {
		reply := func() error {
			_, err := t.Policy().Generate(ctx, engine.Request{Prompt: workload.Text(rand.New(rand.NewPCG(9, uint64(i))), 16), MaxTokens: 1, Sampling: engine.Sampling{Temperature: 1, TopP: 1}})
			return err
		}
		step := func() error { _, err := t.Step(ctx, rows, 1e-5); return err }
		var seconds [4]float64
		for j, f := range []func() error{step, step, reply, reply} {
			var err error
			if seconds[j], err = timed(f); err != nil {
				return 0, err
			}
		}
		if i > 0 {
			took = append(took, 1e3*max(0, seconds[0]-seconds[1]+seconds[2]-seconds[3]))
		}
	}
	slices.Sort(took)
	return took[1], nil
}
