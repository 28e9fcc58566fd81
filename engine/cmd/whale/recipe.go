package main

import (
	"iter"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/demos"
	"github.com/seed-7c27e6b8/whale/trainer"
	"github.com/seed-7c27e6b8/whale/trainer/checkpoint"
	"github.com/seed-7c27e6b8/whale/trainer/nano"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// recipe says how an embedded model is made (spec/nano.md sections 1, 2, 4 and 8).
type recipe struct {
	Name   string
	Merges int
	// Vocabulary is the number of episodes that the byte pairs are learned from.
	Vocabulary int
	Stages     []stage
}

// stage is one pass of pretraining with fresh moments.
type stage struct {
	Name   string
	Tokens int     // ids run through the model
	Batch  int     // ids of one optimizer step, at most
	Rate   float64 // peak learning rate, after warmup steps
	Decay  float64 // share of the stage in which the rate falls linearly to 2 %
	// Context is the weight in the loss of what the model does not write; what it writes
	// has weight 1.
	Context  float32
	Episodes func(seed uint64) bench.Generator
}

const warmup = 50 // optimizer steps

// pretrainAdam differs from the optimizer of RSFT: a shorter second moment and more decay.
var pretrainAdam = trainer.AdamW{Beta1: .9, Beta2: .98, Eps: 1e-8, Decay: .02, Clip: 1}

var recipes = []recipe{
	{Name: nano.Text, Merges: 500, Vocabulary: 3000, Stages: []stage{
		{Name: "clean", Tokens: 6_000_000, Batch: 1024, Rate: 3e-3, Decay: .4, Context: .2,
			Episodes: func(seed uint64) bench.Generator { return demos.New(seed, demos.Clean()) }},
		{Name: "drilled", Tokens: 1_500_000, Batch: 1024, Rate: 1.5e-3, Decay: .4, Context: .2,
			Episodes: func(seed uint64) bench.Generator { return demos.New(seed, demos.Drilled()) }},
		// Faults in the demonstrations lower the accuracy in a minute and leave the skill.
		{Name: "sloppy", Tokens: 300_000, Batch: 1024, Rate: 1e-3, Decay: .4, Context: .2,
			Episodes: func(seed uint64) bench.Generator { return demos.New(seed, demos.Sloppy()) }},
	}},
	{Name: nano.Chess, Merges: 180, Vocabulary: 400, Stages: []stage{
		{Name: "mates", Tokens: 3_000_000, Batch: 2048, Rate: 3e-3, Decay: .4, Context: .1,
			Episodes: func(seed uint64) bench.Generator { return chess.NewDemos(seed) }},
	}},
}

// pattern isolates pre-tokens so that a name has the same pieces after a space, after a
// tag and at the start of a line (spec/nano.md section 1).
const pattern = `[a-h][1-8]|[A-Z][a-z]+|[A-Z]+| ?[a-z]+|[0-9]|\n| ?[^A-Za-z0-9\s]+|\s`

// addedTokens of both vocabularies; the first three can't be forged by content.
var addedTokens = []tokenizer.AddedToken{
	{Content: "<|endoftext|>", Special: true},
	{Content: "<|im_start|>", Special: true},
	{Content: "<|im_end|>", Special: true},
	{Content: "<search>"}, {Content: "</search>"},
	{Content: "<answer>"}, {Content: "</answer>"},
	{Content: "<tool_response>"}, {Content: "</tool_response>"},
	{Content: "<move>"}, {Content: "</move>"},
}

// shape is model A of spec/nano.md section 2.
func shape(tokens *tokenizer.Tokenizer) checkpoint.Config {
	var eos []int32
	for _, name := range []string{"<|im_end|>", "<|endoftext|>"} {
		if id, ok := tokens.ID(name); ok {
			eos = append(eos, id)
		}
	}
	full := checkpoint.FullAttention
	return checkpoint.Config{
		Family: checkpoint.Qwen3, Vocab: tokens.Size(), Hidden: 128, Intermediate: 384,
		Heads: 4, KVHeads: 2, HeadDim: 32, Layers: []checkpoint.LayerKind{full, full, full},
		QKNorm: true, Tied: true, RMSEps: 1e-6, RopeTheta: 1e4, MaxPositions: 2048, EOS: eos,
	}
}

// corpus is the text that the byte pairs are learned from.
func (r recipe) corpus(seed uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		episodes := r.Stages[0].Episodes(seed)
		for i := range r.Vocabulary {
			for _, m := range episodes.Next(float64(i) / float64(r.Vocabulary)).Messages {
				if !yield(m.Content) {
					return
				}
			}
		}
	}
}
