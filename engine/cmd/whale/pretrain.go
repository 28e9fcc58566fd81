package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

type pretrainCommand struct {
	Name    string  `arg:"" enum:"text,chess" help:"Which embedded model: text (lookup and sums) or chess."`
	Out     string  `default:"." type:"path" help:"Folder for NAME.zip; trainer/nano is what the binary embeds."`
	Seed    uint64  `default:"1" help:"Seed of weights and data."`
	Scale   float64 `default:"1" help:"Multiplies the tokens of every stage."`
	Threads int     `default:"0" help:"Cores to use; 0 = all."`
	Keep    string  `type:"path" help:"Also keep the model after each stage in KEEP/STAGE."`
}

// made is pretrain.json: how a model came about.
type made struct {
	Recipe string      `json:"recipe"`
	Seed   uint64      `json:"seed"`
	Scale  float64     `json:"scale"`
	Stages []madeStage `json:"stages"`
}

type madeStage struct {
	Name    string  `json:"name"`
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
	NLL     float64 `json:"nll"` // mean over the last tenth of the steps
}

// Run makes the model and writes NAME.zip last.
func (c *pretrainCommand) Run(ctx context.Context) error {
	r := recipes[0]
	for _, other := range recipes {
		if other.Name == c.Name {
			r = other
		}
	}
	if err := c.check(); err != nil {
		return err
	}
	device, err := openDevice("cpu", c.Threads)
	if err != nil {
		return err
	}
	defer device.Close()

	tokens, err := tokenizer.Train(r.corpus(c.Seed), tokenizer.TrainSpec{Merges: r.Merges, Pattern: pattern, Added: addedTokens})
	if err != nil {
		return err
	}
	t, err := trainer.New(shape(tokens), tokens, device, trainer.Options{Adam: pretrainAdam})
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.InitMimetic(c.Seed); err != nil {
		return err
	}

	report := made{Recipe: r.Name, Seed: c.Seed, Scale: c.Scale}
	for i, s := range r.Stages {
		s.Tokens = int(float64(s.Tokens) * c.Scale)
		t.ResetOptimizer()
		p := pretraining{t: t, stage: s, episodes: s.Episodes(c.Seed + 100*uint64(i)), log: os.Stderr}
		m, err := p.run(ctx)
		if err != nil {
			return err
		}
		report.Stages = append(report.Stages, m)
		if c.Keep != "" {
			if err := t.SaveModel(filepath.Join(c.Keep, s.Name), checkpoint.BF16); err != nil {
				return err
			}
		}
	}
	counters := t.Counters()
	fmt.Fprintf(os.Stderr, "pretrain %s: %.1f GFLOP/s\n", r.Name, counters.FLOPRate()/1e9)
	return writeZip(t, filepath.Join(c.Out, r.Name+".zip"), report)
}

// check finds out before half an hour of work whether its result can be written.
func (c *pretrainCommand) check() error {
	if !(c.Scale > 0) || math.IsInf(c.Scale, 0) {
		return usageError{fmt.Errorf("pretrain: --scale is %v, above 0", c.Scale)}
	}
	for _, dir := range []string{c.Out, c.Keep} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return engine.Fail(engine.AtArchive, dir, err)
		}
		probe, err := os.MkdirTemp(dir, ".pretrain-")
		if err != nil {
			return engine.Fail(engine.AtArchive, dir, err)
		}
		if err := os.Remove(probe); err != nil {
			return engine.Fail(engine.AtArchive, dir, err)
		}
	}
	return nil
}

// pretraining is one stage on its way.
type pretraining struct {
	t        *trainer.Trainer
	stage    stage
	episodes bench.Generator
	log      io.Writer
	seen     int // ids so far
}

func (p *pretraining) run(ctx context.Context) (madeStage, error) {
	began := time.Now()
	said := began
	var tail, tailSteps float64
	for step := 0; p.seen < p.stage.Tokens; step++ {
		progress := float64(p.seen) / float64(p.stage.Tokens)
		rate := p.rate(step, progress)
		rows, err := p.batch(progress)
		if err != nil {
			return madeStage{}, err
		}
		s, err := p.t.Step(ctx, rows, rate)
		if err != nil {
			return madeStage{}, err
		}
		if s.Skipped {
			return madeStage{}, fmt.Errorf("policy pretrain %s: step %d has a gradient that is not finite", p.stage.Name, step)
		}
		if progress >= .9 {
			tail += s.NLL
			tailSteps++
		}
		if now := time.Now(); now.Sub(said) > 5*time.Second {
			said = now
			fmt.Fprintf(p.log, "pretrain %s: %d of %d tokens, nll %.3f, %.0f tokens/s\n",
				p.stage.Name, p.seen, p.stage.Tokens, s.NLL, float64(p.seen)/now.Sub(began).Seconds())
		}
	}
	return madeStage{Name: p.stage.Name, Tokens: p.seen, Seconds: time.Since(began).Seconds(), NLL: tail / max(tailSteps, 1)}, nil
}

// rate is the learning rate: linear warm-up, constant, linear decay to 2 %.
func (p *pretraining) rate(step int, progress float64) float64 {
	rate := p.stage.Rate * min(1, float64(step+1)/warmup)
	if start := 1 - p.stage.Decay; progress > start {
		rate *= 1 - .98*(progress-start)/p.stage.Decay
	}
	return rate
}

// batch draws episodes until the next one would not fit.
func (p *pretraining) batch(progress float64) ([]trainer.Row, error) {
	var rows []trainer.Row
	for n := 0; n < p.stage.Batch; {
		row, err := p.row(p.episodes.Next(progress))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
		n += len(row.IDs)
		p.seen += len(row.IDs)
	}
	return rows, nil
}

// row renders an episode with the policy's own chat format, so that demonstrations and
// rollouts are the same ids.
func (p *pretraining) row(e bench.Episode) (trainer.Row, error) {
	tokens := p.t.Tokenizer()
	end, _ := tokens.ID("<|im_end|>")
	var turns []engine.Turn
	var ids []int32
	var spans []engine.Span
	for _, m := range e.Messages {
		turn := engine.Turn{Role: m.Role, Content: m.Content}
		if m.Trained {
			prompt, err := p.t.Policy().Encode(turns)
			if err != nil {
				return trainer.Row{}, err
			}
			turn.Sampled = append(tokens.Encode(m.Content), end)
			ids = append(prompt, turn.Sampled...)
			spans = append(spans, engine.Span{From: len(prompt), To: len(ids)})
		}
		turns = append(turns, turn)
	}
	row := trainer.Row{IDs: ids, Weights: make([]float32, len(ids))}
	for t := 1; t < len(ids); t++ {
		row.Weights[t] = p.stage.Context
	}
	for _, s := range spans {
		for t := s.From; t < s.To; t++ {
			row.Weights[t] = 1
		}
	}
	return row, nil
}

// writeZip saves a model folder and packs it; the file appears when it is whole.
func writeZip(t *trainer.Trainer, path string, report made) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".pretrain-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "model")
	if err := t.SaveModel(model, checkpoint.BF16); err != nil {
		return err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(model, "pretrain.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		return errors.Join(z.AddFS(os.DirFS(model)), z.Close())
	})
}
