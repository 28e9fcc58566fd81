package engine

import (
	"context"
	"math"
)

// Advantage is a weight phase that weighs rewarded rollouts by how rare they are: the
// samples of a task are a group, and a rollout's weight is its group advantage
// (reward - mean) / deviation, where that is above 0. What succeeds one time in eight
// counts much more than what succeeds seven times, and a task that always succeeds
// teaches nothing. Everything else is RSFT.
//
// It is half of a policy gradient with group advantages: rollouts that are worse than
// their group would be pushed away from, and a KL term would hold the weights near a
// reference. Both need a learner that takes negative weights and the reference's
// log-probabilities; the seam for them is Sequence (Weight, LogProbs) and this function.
type Advantage struct{ Site *Site }

// Step makes one step.
func (a Advantage) Step(ctx context.Context, u Unit, s State) (StepResult, error) {
	return a.Site.step(ctx, s, advantaged)
}

// advantaged are the lessons of positive group advantages. Rollouts that the host lost
// are in no group.
func advantaged(ts []*Trajectory) []lesson {
	type moments struct{ n, sum, squares float64 }
	groups := map[TaskID]moments{}
	for _, t := range ts {
		if t.Outcome != Infra {
			g, r := groups[t.Task], t.Verdict.Reward
			groups[t.Task] = moments{g.n + 1, g.sum + r, g.squares + r*r}
		}
	}
	var lessons []lesson
	for _, t := range ts {
		if t.Outcome != Scored {
			continue
		}
		g := groups[t.Task]
		mean := g.sum / g.n
		deviation := math.Sqrt(max(0, g.squares/g.n-mean*mean))
		if gain := t.Verdict.Reward - mean; gain > 1e-9 && deviation > 1e-9 {
			lessons = append(lessons, lesson{t, float32(gain / deviation)})
		}
	}
	return lessons
}
