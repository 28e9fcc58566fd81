package engine_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// reinforcer records what a policy gradient is given.
type reinforcer struct {
	*enginetest.Brain
	batches [][]engine.Sequence
	near    []string
}

func (r *reinforcer) Reinforce(ctx context.Context, batch []engine.Sequence, by engine.Surrogate) (engine.Update, error) {
	r.batches = append(r.batches, batch)
	return r.Brain.Reinforce(ctx, batch, by)
}

func (r *reinforcer) Reference(ctx context.Context, dir string) error {
	r.near = append(r.near, dir)
	return r.Brain.Reference(ctx, dir)
}

// Ensure that a policy gradient learns from both sides of a group, with advantages that sum
// to nothing in it, and is held near the run's first weights.
func TestRun_policyGradient(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Update = "weight-only", "policy-gradient"
	var learner *reinforcer
	_, records, store := mustPlay(t, config, func(p *engine.Parts) {
		learner = &reinforcer{Brain: p.Policy.(*enginetest.Brain)}
		p.Learner = learner
	})
	if len(learner.near) != 1 || learner.near[0] != store.WeightsDir(records[0].Saved) {
		t.Errorf("references %v, want the run's start %s once", learner.near, records[0].Saved)
	}
	up, down, sum := 0, 0, 0.0
	for _, b := range learner.batches {
		for _, row := range b {
			if row.Weight != 0 {
				t.Fatalf("a weight of %v beside an advantage", row.Weight)
			}
			sum += float64(row.Advantage)
			if row.Advantage > 0 {
				up++
			} else {
				down++
			}
		}
	}
	if up == 0 || down == 0 || math.Abs(sum) > 1e-3 {
		t.Errorf("%d rows pulled, %d pushed, advantages sum to %v", up, down, sum)
	}
	kl := 0.0
	for _, r := range records {
		if r.Step != nil {
			kl = r.Step.KL
		}
	}
	if !(kl > 0) {
		t.Error("the last step says nothing about the distance to the reference")
	}
}

// plainLearner has no policy gradient.
type plainLearner struct{ engine.Learner }

func TestRun_policyGradientNeedsALearner(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Update = "weight-only", "policy-gradient"
	_, _, err := play(t, config, func(p *engine.Parts) { p.Learner = plainLearner{p.Learner} })
	if err == nil || !strings.Contains(err.Error(), "no policy gradient") {
		t.Errorf("got %v", err)
	}
}

// apart reports a drift that is no rounding.
type apart struct{ engine.Learner }

func (a apart) Update(ctx context.Context, b []engine.Sequence) (engine.Update, error) {
	u, err := a.Learner.Update(ctx, b)
	u.Drift, u.DriftMax, u.Apart = .3, 2, true
	return u, err
}

// Ensure that a run does not train on tokens that its learner sees differently.
func TestRun_apart(t *testing.T) {
	_, _, err := play(t, enginetest.Config(), func(p *engine.Parts) { p.Learner = apart{p.Learner} })
	if !errors.Is(err, engine.ErrApart) || !strings.Contains(err.Error(), "policy update of step 1") || !strings.Contains(err.Error(), "0.3 on average, 2 at most") {
		t.Errorf("got %v", err)
	}
}
