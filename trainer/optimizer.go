package trainer

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// AdamW holds the settings of the optimizer (spec/rsft.md section 3). Decay is decoupled
// and applies to every parameter.
type AdamW struct {
	LR    float64 // learning rate per step; what Learner.Update uses
	Beta1 float64
	Beta2 float64
	Eps   float64
	Decay float64
	Clip  float64 // limit on the global L2 norm of the gradient, 0 = none
}

// DefaultAdamW is the recipe's optimizer except for its rate of 1e-7, which is meant for
// models of billions of parameters; 5e-4 is what the nano models learn with (spec/nano.md 6).
func DefaultAdamW() AdamW {
	return AdamW{LR: 5e-4, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Clip: 1}
}

func (a AdamW) check() error {
	switch {
	case !(a.LR >= 0) || math.IsInf(a.LR, 0):
		return fmt.Errorf("learning rate %v", a.LR)
	case !(a.Beta1 >= 0 && a.Beta1 < 1) || !(a.Beta2 >= 0 && a.Beta2 < 1):
		return fmt.Errorf("betas %v and %v are not in [0,1)", a.Beta1, a.Beta2)
	case !(a.Eps > 0) || !(a.Decay >= 0) || !(a.Clip >= 0):
		return fmt.Errorf("eps %v, decay %v, clip %v", a.Eps, a.Decay, a.Clip)
	}
	return nil
}

// optimizer is the gradient and the moments of what is trained.
type optimizer struct {
	grads, m, v cuda.Floats // layout of Model.trained
	memory      cuda.Floats // owns the three
	t           int64       // steps taken
}

func newOptimizer(m *Model) (*optimizer, error) {
	o := &optimizer{}
	var a arena
	trained, _ := m.trained()
	for _, view := range []*cuda.Floats{&o.grads, &o.m, &o.v} {
		a.want(view, trained.Len())
	}
	var err error
	o.memory, err = a.reserve(m.dev)
	return o, err
}

func (o *optimizer) free() { o.memory.Free() }

// errNotFinite: the gradient's norm is NaN or infinite; the step was not taken.
var errNotFinite = errors.New("gradient is not finite")

// apply takes one step with the gradients at hand and returns their L2 norm before
// clipping. On errNotFinite weights, moments and counter are as before.
func (o *optimizer) apply(m *Model, a AdamW, lr float64) (float64, error) {
	squares, err := m.dev.SumSquares(o.grads)
	if err != nil {
		return 0, err
	}
	norm := math.Sqrt(squares)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, errNotFinite
	}
	clip := 1.0
	if a.Clip > 0 {
		clip = min(1, a.Clip/(norm+1e-6))
	}
	t := float64(o.t + 1)
	trained, _ := m.trained()
	m.version++
	if m.adapters == nil {
		m.baseVersion++
	}
	err = m.dev.AdamW(cuda.AdamW{
		LR: float32(lr), B1: float32(a.Beta1), B2: float32(a.Beta2), Eps: float32(a.Eps), Decay: float32(a.Decay), Clip: float32(clip),
		C1: 1 - math.Pow(a.Beta1, t), C2: 1 - math.Pow(a.Beta2, t),
		P: trained, M: o.m, V: o.v, G: o.grads})
	if err != nil {
		return norm, err
	}
	o.t++
	return norm, nil
}
