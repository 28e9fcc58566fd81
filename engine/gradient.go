package engine

import (
	"context"
	"errors"
)

// PolicyGradient is a weight phase that also learns from failures: each scored rollout of a
// task with mixed outcomes is pulled towards or pushed away from by its group advantage
// (reward - mean) / deviation, its ratio to the policy that sampled it is clipped, and a KL
// term holds the weights near those that the run started with (GradientLearner.Reinforce;
// group advantages and the k3 estimate after Shao et al., arXiv 2402.03300). Tasks that
// always or never succeed teach nothing, and of the KL term they have no part either.
type PolicyGradient struct{ Site *Site }

// Step makes one step.
func (p PolicyGradient) Step(ctx context.Context, u Unit, s State) (StepResult, error) {
	if err := p.Site.holdNear(ctx, p.Site.Parts.Store.WeightsDir(s.Points[0].Saved)); err != nil {
		return StepResult{}, err
	}
	return p.Site.step(ctx, s, methods["policy-gradient"])
}

var errNoGradient = errors.New("this learner has no policy gradient")

func (s *Site) gradientLearner() (GradientLearner, error) {
	l, ok := s.Parts.Learner.(GradientLearner)
	if !ok {
		return nil, errNoGradient
	}
	return l, nil
}

// holdNear makes a folder's weights the reference of the KL term, once.
func (s *Site) holdNear(ctx context.Context, dir string) error {
	if s.Config.PolicyGradient.Beta == 0 || s.near == dir {
		return nil
	}
	l, err := s.gradientLearner()
	if err == nil {
		err = l.Reference(ctx, dir)
	}
	if err != nil {
		return AtDevice.wrap("reference weights", err)
	}
	s.near = dir
	return nil
}
