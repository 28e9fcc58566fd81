package engine

import (
	"fmt"
	"math"
)

// Compute says how the model is computed and what of it is trained. It belongs to the
// learner and stands here so that a run's record has it. All of it changes results: a
// memory limit too, since it decides how gradients are added up.
type Compute struct {
	Precision string `json:"precision,omitempty"` // of matrix products; empty = float32
	Int8      bool   `json:"int8,omitempty"`      // generation, and nothing else, multiplies in 8 bits
	Context   int    `json:"context,omitempty"`   // longest sequence in tokens; 0 = what the model was made for
	Memory    int64  `json:"memory,omitempty"`    // most bytes on the device; 0 = no limit
	LoRA      LoRA   `json:"lora,omitzero"`
}

// LoRA trains low-rank adapters beside frozen weights.
type LoRA struct {
	Rank    int     `json:"rank"`              // 0 = the weights themselves are trained
	Alpha   float64 `json:"alpha,omitempty"`   // the adapters' share is alpha/rank; 0 = rank
	Targets string  `json:"targets,omitempty"` // modules, separated by commas; empty = all linear ones
}

func (c Compute) check() error {
	switch {
	case c.Context < 0:
		return fmt.Errorf("%w: compute.context is %d, at least 0", ErrConfig, c.Context)
	case c.Memory < 0:
		return fmt.Errorf("%w: compute.memory is %d bytes, at least 0", ErrConfig, c.Memory)
	case c.LoRA.Rank < 0, !(c.LoRA.Alpha >= 0), math.IsInf(c.LoRA.Alpha, 0):
		return fmt.Errorf("%w: compute.lora has rank %d and alpha %v, both at least 0", ErrConfig, c.LoRA.Rank, c.LoRA.Alpha)
	case c.LoRA.Rank == 0 && c.LoRA != LoRA{}:
		return fmt.Errorf("%w: compute.lora has an alpha or targets, but no rank", ErrConfig)
	}
	return nil
}
