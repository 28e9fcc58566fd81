// Command speed measures the trainer on random weights: train steps, decoding and one online
// step, at the shapes of three models. peers.py does the same with other libraries, and
// compare.sh runs both in turns. One line of JSON a run, on standard output.
//
// It may know the trainer and nothing of the engine's loops, harnesses or tasks. It does not
// look at the quality of what is computed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/seed-7c27e6b8/whale/bench/speed/workload"
	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
)

// setting is one thing to measure.
type setting struct {
	Case      string // train, decode, prompt or rsft
	Shape     string // nano, 7.5m or 135m
	Precision string // float32, bf16 or int8 (generation; training in bf16)
	Threads   int
	Batch     int // rows of a train step, sequences of a decode
	Length    int // ids of a row, or of a prompt
	Repeats   int // after one that is not counted
}

// result is a line of output. Tokens are input ids of a train step, sampled ids of a decode,
// ids sampled and trained on of an online step.
type result struct {
	Who string
	setting
	Tokens int     `json:"tokens"`
	CPU    float64 `json:"cpu_s"`  // processor seconds of the process
	Wall   float64 `json:"wall_s"` // says little on a machine shared with others
	Peak   int64   `json:"peak_kb"`
}

func main() {
	var s setting
	flag.StringVar(&s.Case, "case", "train", "train, decode, prompt (what decode takes for its prompts) or rsft")
	flag.StringVar(&s.Shape, "shape", "nano", "nano, 7.5m or 135m")
	flag.StringVar(&s.Precision, "precision", "float32", "float32, bf16, or int8: that in generation and bf16 in training")
	flag.IntVar(&s.Threads, "threads", 1, "cores")
	flag.IntVar(&s.Batch, "batch", 4, "rows of a train step, sequences of a decode")
	flag.IntVar(&s.Length, "length", 512, "ids of a row, or of a prompt")
	flag.IntVar(&s.Repeats, "repeats", 3, "repeats after one that is not counted")
	profile := flag.String("profile", "", "file for a processor profile; its frames name the operators")
	flag.Parse()
	r, err := measure(context.Background(), s, *profile)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, s setting, profile string) (result, error) {
	t, closeAll, err := open(s)
	if err != nil {
		return result{}, err
	}
	defer closeAll()
	cases := map[string]func(context.Context, *trainer.Trainer, setting, uint64) (int, error){
		"train": train, "decode": decode(32), "prompt": decode(1), "rsft": online}
	run, ok := cases[s.Case]
	if !ok {
		return result{}, fmt.Errorf("no case %q", s.Case)
	}
	if _, err := run(ctx, t, s, 0); err != nil {
		return result{}, err
	}
	r := result{Who: "whale", setting: s}
	stop, err := startProfile(profile)
	if err != nil {
		return result{}, err
	}
	before, began := usage(), time.Now()
	for i := range s.Repeats {
		n, err := run(ctx, t, s, uint64(i)+1)
		if err != nil {
			return result{}, err
		}
		r.Tokens += n
	}
	after := usage()
	r.CPU, r.Wall, r.Peak = seconds(after)-seconds(before), time.Since(began).Seconds(), after.Maxrss
	return r, stop()
}

// startProfile profiles what runs until stop, which closes the file; without a path it does nothing.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // can't happen: the arguments are right
	}
	return u
}

func seconds(u syscall.Rusage) float64 { return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9 }

// shapes are those of the embedded models, of the model of 7.5 million weights that is
// measured in other places too, and of SmolLM2-135M.
func shapes() map[string]checkpoint.Config {
	llama := func(vocab, hidden, intermediate, heads, kv, layers int) checkpoint.Config {
		return checkpoint.Config{Family: checkpoint.Llama, Vocab: vocab, Hidden: hidden, Intermediate: intermediate,
			Heads: heads, KVHeads: kv, HeadDim: hidden / heads, Layers: checkpoint.LayersOf(checkpoint.FullAttention, layers),
			Tied: true, RMSEps: 1e-5, RopeTheta: 10000, MaxPositions: 2048, DType: checkpoint.F32}
	}
	return map[string]checkpoint.Config{
		"nano": llama(768, 128, 384, 4, 2, 3),
		"7.5m": llama(4096, 256, 704, 8, 8, 8),
		"135m": llama(49152, 576, 1536, 9, 3, 30),
	}
}

func open(s setting) (*trainer.Trainer, func(), error) {
	config, ok := shapes()[s.Shape]
	if !ok {
		return nil, nil, fmt.Errorf("no shape %q", s.Shape)
	}
	o := trainer.Options{Precision: cuda.Float32}
	switch s.Precision {
	case "float32":
	case "bf16":
		o.Precision = cuda.BF16
	case "int8":
		o.Precision, o.Int8 = cuda.BF16, true
	default:
		return nil, nil, fmt.Errorf("no precision %q", s.Precision)
	}
	tokens, err := workload.Tokenizer()
	if err != nil {
		return nil, nil, err
	}
	dev, err := cuda.Open("cpu", s.Threads)
	if err != nil {
		return nil, nil, err
	}
	t, err := trainer.New(config, tokens, dev, o)
	if err != nil {
		dev.Close()
		return nil, nil, err
	}
	return t, func() { t.Close(); dev.Close() }, t.InitNormal(1, 0.02)
}

// train is one optimizer step on all ids of a batch of rows.
func train(ctx context.Context, t *trainer.Trainer, s setting, seed uint64) (int, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	rows := make([]trainer.Row, s.Batch)
	for i := range rows {
		rows[i] = workload.Row(rng, s.Length)
	}
	step, err := t.Step(ctx, rows, 1e-4)
	return step.Forward, err
}

// decode samples so many ids for each of a batch of prompts that differ. What the prompts alone
// take is the same with one id.
func decode(ids int) func(context.Context, *trainer.Trainer, setting, uint64) (int, error) {
	return func(ctx context.Context, t *trainer.Trainer, s setting, seed uint64) (int, error) {
		rng := rand.New(rand.NewPCG(seed, 1))
		requests := make([]engine.Request, s.Batch)
		for i := range requests {
			requests[i] = engine.Request{Prompt: workload.Text(rng, s.Length), MaxTokens: ids,
				Sampling: engine.Sampling{Temperature: 1}, Seed: rng.Uint64()}
		}
		replies, err := workload.Together(ctx, t, requests)
		n := 0
		for _, r := range replies {
			n += len(r.Sampled)
		}
		return n, err
	}
}

// online is one step of rejection sampling: 32 prompts of 45 ids, 8 samples each, two turns of
// 12 ids with an observation of 40 between them, then updates on every third session, 64 at a time.
func online(ctx context.Context, t *trainer.Trainer, _ setting, seed uint64) (int, error) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var requests []engine.Request
	for range 32 {
		prompt := workload.Text(rng, 45)
		for range 8 {
			requests = append(requests, engine.Request{Prompt: prompt, MaxTokens: 12,
				Sampling: engine.Sampling{Temperature: 1}, Seed: rng.Uint64()})
		}
	}
	sequences, tokens := make([]engine.Sequence, len(requests)), 0
	for range 2 {
		replies, err := workload.Together(ctx, t, requests)
		if err != nil {
			return 0, err
		}
		for i, c := range replies {
			q, from := &sequences[i], len(requests[i].Prompt)
			q.IDs = append(requests[i].Prompt[:from:from], c.Sampled...)
			q.Sampled = append(q.Sampled, engine.Span{From: from, To: len(q.IDs)})
			q.LogProbs = append(q.LogProbs, c.LogProbs...)
			requests[i].Prompt = append(q.IDs[:len(q.IDs):len(q.IDs)], workload.Text(rng, 40)...)
			tokens += len(c.Sampled)
		}
	}
	var accepted []engine.Sequence
	for i := 0; i < len(sequences); i += 3 {
		accepted = append(accepted, sequences[i])
	}
	for at := 0; at < len(accepted); at += 64 {
		u, err := t.Learner().Update(ctx, accepted[at:min(at+64, len(accepted))])
		if err != nil {
			return 0, err
		}
		tokens += u.Tokens
	}
	return tokens, nil
}
