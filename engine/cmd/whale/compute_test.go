package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4GB": 4e9, "512MB": 512e6, "3.5GiB": 3758096384, "1 TB": 1e12, "7": 7, "-1GB": -1, "GB": -1, "": -1, "NaN": -1, "1e300": -1} {
		got, err := parseSize(text)
		var usage usageError
		if want < 0 && !errors.As(err, &usage) || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// Ensure that what a config says about computing reaches the trainer, and that what it can't
// mean is refused by name.
func TestTrainerOptions(t *testing.T) {
	c := engine.Defaults()
	o, err := trainerOptions(c)
	if err != nil || o.Precision != cuda.Float32 || o.LoRA.Rank != 0 || o.Reference || o.Memory != 0 {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	c.Update, c.Seed, c.Model = "policy-gradient", 7, "dir"
	c.Compute = engine.Compute{Precision: "bf16", Int8: true, Context: 99, Memory: 5, LoRA: engine.LoRA{Rank: 4, Alpha: 8, Targets: "q_proj,v_proj"}}
	o, err = trainerOptions(c)
	if err != nil || o.Precision != cuda.BF16 || !o.Int8 || o.Context != 99 || o.Memory != 5 || !o.Reference || o.LoRA.Rank != 4 || o.LoRA.Alpha != 8 ||
		strings.Join(o.LoRA.Targets, " ") != "q_proj v_proj" || o.LoRA.Seed != 7 || o.LoRA.Base != "dir" {
		t.Errorf("%+v, %v", o, err)
	}
	c.Compute.Precision = "fp8"
	if _, err := trainerOptions(c); err == nil || !strings.Contains(err.Error(), "precision fp8: unknown; there are float32, bf16, bf16x3") {
		t.Errorf("%v", err)
	}
	name, yes := "bf16x3", true
	if err := (computeFlags{Precision: &name, Int8: &yes}).apply(&c); err != nil || c.Compute.Precision != "bf16x3" || !c.Compute.Int8 {
		t.Errorf("%+v, %v", c.Compute, err)
	}
	if o, err := trainerOptions(c); err != nil || o.Precision != cuda.BF16x3 || !o.Int8 {
		t.Errorf("%+v, %v", o, err)
	}
	name = "float32"
	if err := (computeFlags{Precision: &name}).apply(&c); err != nil || c.Compute.Precision != "" {
		t.Errorf("the default has two spellings: %q, %v", c.Compute.Precision, err)
	}
}
