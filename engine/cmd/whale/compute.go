package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// computeFlags say how the model is computed.
type computeFlags struct {
	Precision *string `placeholder:"NAME" help:"Arithmetic of matrix products: float32 (default), or where the processor has it bf16, or bf16x3: near float32, faster with AMX and slower without."`
	Int8      *bool   `name:"int8" negatable:"" help:"Generate in 8 bits: weights and rows rounded, half the bytes of bf16; training keeps its precision."`
	Context   *int    `placeholder:"N" help:"Longest sequence in tokens; 0 = what the model was made for."`
	Memory    *string `placeholder:"SIZE" help:"Most memory of the model, such as 4GB: the run plans within it, says how, and refuses if it can't."`
}

// learnFlags say what of the model is trained, and how.
type learnFlags struct {
	Update      *string  `placeholder:"NAME" help:"rsft (default), advantage or policy-gradient."`
	LoRARank    *int     `name:"lora-rank" placeholder:"R" help:"Train adapters of this rank beside frozen weights; 0 = the weights."`
	LoRAAlpha   *float64 `name:"lora-alpha" placeholder:"X" help:"The adapters' share is alpha/rank (default 1)."`
	LoRATargets *string  `name:"lora-targets" placeholder:"A,B" help:"Modules with adapters, such as q_proj,v_proj; all linear ones without it."`
}

// apply puts the flags over what a config has.
func (f computeFlags) apply(c *engine.Config) error {
	set(&c.Compute.Precision, f.Precision)
	if c.Compute.Precision == cuda.Float32.String() {
		c.Compute.Precision = "" // one spelling of the default
	}
	set(&c.Compute.Int8, f.Int8)
	set(&c.Compute.Context, f.Context)
	if f.Memory == nil {
		return nil
	}
	var err error
	c.Compute.Memory, err = parseSize(*f.Memory)
	return err
}

func (f learnFlags) apply(c *engine.Config) {
	set(&c.Update, f.Update)
	set(&c.Compute.LoRA.Rank, f.LoRARank)
	set(&c.Compute.LoRA.Alpha, f.LoRAAlpha)
	set(&c.Compute.LoRA.Targets, f.LoRATargets)
}

// parseSize reads bytes such as 4GB, 512MB, 3.5GiB or 0.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTibkmgt ")
	unit, ok := map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}[strings.ToUpper(strings.TrimSpace(text[len(number):]))]
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 0) || n*unit > 1<<50 {
		return 0, usageError{fmt.Errorf("memory %q: a size such as 4GB, 512MB or 3.5GiB is wanted", text)}
	}
	return int64(n * unit), nil
}

// frozen opens a model to generate only.
func frozen(o *trainer.Options) { o.Frozen = true }

// precisions are those of training and generation alike.
var precisions = []cuda.Precision{cuda.Float32, cuda.BF16, cuda.BF16x3}

// trainerOptions is what a config says to the trainer.
func trainerOptions(c engine.Config) (trainer.Options, error) {
	o := trainer.Options{Temperature: c.Sampling.Temperature, Int8: c.Compute.Int8, Context: c.Compute.Context, Memory: c.Compute.Memory,
		Reference: c.Update == "policy-gradient" && c.PolicyGradient.Beta > 0,
		Adam: trainer.AdamW{LR: c.Optimizer.Rate, Beta1: c.Optimizer.Beta1, Beta2: c.Optimizer.Beta2,
			Eps: c.Optimizer.Eps, Decay: c.Optimizer.Decay, Clip: c.Optimizer.Clip}}
	if l := c.Compute.LoRA; l.Rank > 0 {
		o.LoRA = trainer.LoRA{Rank: l.Rank, Alpha: l.Alpha, Seed: c.Seed, Base: c.Model}
		if l.Targets != "" {
			o.LoRA.Targets = strings.Split(l.Targets, ",")
		}
	}
	var names []string
	for _, p := range precisions {
		if names = append(names, p.String()); p.String() == c.Compute.Precision || c.Compute.Precision == "" {
			o.Precision = p
			return o, nil
		}
	}
	return o, usageError{fmt.Errorf("precision %s: unknown; there are %s", c.Compute.Precision, strings.Join(names, ", "))}
}
