package engine

import (
	"context"
	"math"
)

// Advantage is a weight phase that weighs rewarded rollouts by how rare they are: the
// samples of a task are a group, and a rollout's weight is its group advantage
// (reward - mean) / deviation, where that is above 0. What succeeds one time in eight
// counts much more than what succeeds seven times, and a task that always succeeds
// teaches nothing. Everything else is RSFT. PolicyGradient has the other half.
type Advantage struct{ Site *Site }

// Step makes one step.
func (a Advantage) Step(ctx context.Context, u Unit, s State) (StepResult, error) {
	return a.Site.step(ctx, s, methods["advantage"])
}

// advantaged are the lessons of positive group advantages.
func advantaged(ts []*Trajectory) []lesson {
	var lessons []lesson
	for _, l := range grouped(ts) {
		if l.weight > 0 {
			lessons = append(lessons, l)
		}
	}
	return lessons
}

// grouped are the scored rollouts with their group advantages, as far as these are not 0.
// Rollouts that the host lost are in no group. What failed without a verdict counts in its
// group with its reward of 0, but teaches nothing: its harness may be to blame.
func grouped(ts []*Trajectory) []lesson {
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
		if gain := t.Verdict.Reward - mean; math.Abs(gain) > 1e-9 && deviation > 1e-9 {
			lessons = append(lessons, lesson{t, float32(gain / deviation)})
		}
	}
	return lessons
}
