package trainer

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Learner is the engine.Learner of a Trainer.
type Learner struct{ t *Trainer }

// Update makes one optimizer step at the configured rate on the mean over all sampled ids
// of the batch (spec/rsft.md section 2).
func (l *Learner) Update(ctx context.Context, batch []engine.Sequence) (engine.Update, error) {
	rows := make([]Row, len(batch))
	var reported []float32
	for i, s := range batch {
		row, err := rowOf(s)
		if err != nil {
			return engine.Update{}, engine.Fail(engine.AtPolicy, fmt.Sprintf("sequence %d", i), err)
		}
		sampled := 0
		for _, span := range s.Sampled {
			sampled += span.To - span.From
		}
		switch len(s.LogProbs) {
		case sampled:
			reported = append(reported, s.LogProbs...)
		case 0: // nothing to compare with
			for range sampled {
				reported = append(reported, float32(math.NaN()))
			}
		default:
			return engine.Update{}, engine.Fail(engine.AtPolicy, fmt.Sprintf("sequence %d", i),
				fmt.Errorf("%d log-probs for %d sampled ids", len(s.LogProbs), sampled))
		}
		rows[i] = row
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	step, nll, err := l.t.step(ctx, rows, l.t.adam.LR)
	if err != nil {
		return engine.Update{}, engine.Fail(engine.AtPolicy, "update", err)
	}
	id, err := l.t.model.WeightsID()
	if err != nil {
		return engine.Update{}, engine.Fail(engine.AtPolicy, "update", err)
	}
	return engine.Update{Tokens: step.Tokens, Forward: step.Forward, NLL: step.NLL, GradNorm: step.GradNorm,
		Skipped: step.Skipped, Drift: drift(nll, reported), Seconds: step.Seconds, Weights: id}, nil
}

// drift is the mean |learner - policy| log-probability over the ids that the policy
// reported one for; 0 when it reported none.
func drift(nll, reported []float32) float64 {
	sum, n := 0.0, 0
	for i, x := range nll {
		if r := float64(reported[i]); !math.IsNaN(r) {
			sum += math.Abs(-float64(x) - r)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Save writes the state to dir, see Trainer.Save.
func (l *Learner) Save(ctx context.Context, dir string) (engine.WeightsID, error) {
	return l.t.Save(ctx, dir)
}

// Load restores what Save wrote, bit for bit, see Trainer.Load.
func (l *Learner) Load(ctx context.Context, dir string) error { return l.t.Load(ctx, dir) }
