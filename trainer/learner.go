package trainer

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Learner is the engine.Learner of a Trainer.
type Learner struct{ t *Trainer }

// Update makes one optimizer step at the configured rate on the mean over all sampled ids
// of the batch (spec/rsft.md section 2).
func (l *Learner) Update(ctx context.Context, batch []engine.Sequence) (engine.Update, error) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	lesson, err := lessonOf(batch)
	if err != nil {
		return engine.Update{}, err
	}
	return l.update(ctx, lesson, nil)
}

// lesson is a batch as rows, and what the policy reported about their sampled ids.
type lesson struct {
	rows     []Row
	reported []float32 // log-probability of every trained id, NaN where none was reported
}

func lessonOf(batch []engine.Sequence) (lesson, error) {
	l := lesson{rows: make([]Row, len(batch))}
	for i, s := range batch {
		row, err := rowOf(s)
		if err != nil {
			return l, engine.Fail(engine.AtPolicy, fmt.Sprintf("sequence %d", i), err)
		}
		sampled := 0
		for _, span := range s.Sampled {
			sampled += span.To - span.From
		}
		switch len(s.LogProbs) {
		case sampled:
			l.reported = append(l.reported, s.LogProbs...)
		case 0: // nothing to compare with
			for range sampled {
				l.reported = append(l.reported, float32(math.NaN()))
			}
		default:
			return l, engine.Fail(engine.AtPolicy, fmt.Sprintf("sequence %d", i),
				fmt.Errorf("%d log-probs for %d sampled ids", len(s.LogProbs), sampled))
		}
		l.rows[i] = row
	}
	return l, nil
}

// update makes the step and its report. The caller holds the device.
func (l *Learner) update(ctx context.Context, x lesson, by *surrogate) (engine.Update, error) {
	step, nll, err := l.t.step(ctx, x.rows, l.t.adam.LR, by)
	if err != nil {
		return engine.Update{}, engine.Fail(engine.AtPolicy, "update", err)
	}
	id, err := l.t.model.WeightsID()
	if err != nil {
		return engine.Update{}, engine.Fail(engine.AtPolicy, "update", err)
	}
	u := engine.Update{Tokens: step.Tokens, Forward: step.Forward, NLL: step.NLL, GradNorm: step.GradNorm,
		Skipped: step.Skipped, Seconds: step.Seconds, Weights: id}
	u.Drift, u.DriftMax = drift(nll, x.reported)
	u.Apart = apart(l.t.model.toGenerate().precision, u.Drift, u.DriftMax)
	return u, nil
}

// drift is the mean and the largest |learner - policy| log-probability over the ids that
// the policy reported one for; 0 when it reported none.
func drift(nll, reported []float32) (mean, most float64) {
	n := 0
	for i, x := range nll {
		if r := float64(reported[i]); !math.IsNaN(r) {
			d := math.Abs(-float64(x) - r)
			mean, most = mean+d, max(most, d)
			n++
		}
	}
	if n == 0 {
		return 0, 0
	}
	return mean / float64(n), most
}

// Bounds on the drift of the same weights: of every id in float32 or near it, of the mean below,
// where one rounding of a factor may move a single id by more.
const (
	driftFloat32 = 1e-4
	driftBelow   = 0.02
	driftInt8    = 0.2 // of the mean, where the policy rounds and the learner does not
)

// apart compares a drift with the bound of its precision.
func apart(p cuda.Precision, mean, most float64) bool {
	switch p {
	case cuda.Float32, cuda.BF16x3:
		return most > driftFloat32
	case cuda.Int8:
		return mean > driftInt8
	}
	return mean > driftBelow
}

// Save writes the state to dir, see Trainer.Save.
func (l *Learner) Save(ctx context.Context, dir string) (engine.WeightsID, error) {
	return l.t.Save(ctx, dir)
}

// Load restores what Save wrote, bit for bit, see Trainer.Load.
func (l *Learner) Load(ctx context.Context, dir string) error { return l.t.Load(ctx, dir) }
