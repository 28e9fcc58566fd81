package engine

import (
	"context"
	"fmt"
	"time"
)

// measurement is one evaluation of a point of the curve.
type measurement struct {
	point   int // index in State.Points
	split   Split
	samples int
}

// measure evaluates the curve, after the run and once: first every point on the select
// split with fresh seeds, which chooses the best point, then on the test split, with
// TestSamples at the start, the best and the final point and CurveSamples elsewhere.
// Points with the same weights and harness are one. No result of it goes back into the
// run. When a finished run goes on, what was measured stays, and a point that turns out to
// be the best one now is measured again with more samples.
func (r *run) measure(ctx context.Context) error {
	total := 0
	for {
		list := r.measurements()
		total = max(total, len(list))
		var next *measurement
		for i := range list {
			if !r.state.measured(list[i]) {
				next = &list[i]
				r.meter.now.Point, r.meter.now.Points = i+1, total
				break
			}
		}
		if next == nil {
			return r.useWeights(ctx, r.state.Saved, r.state.Weights)
		}
		r.meter.now.Stage, r.meter.now.Unit = StageMeasure, Unit{}
		if err := r.measureOne(ctx, *next); err != nil {
			return err
		}
	}
}

// measurements lists what the run's end asks for. The test split comes in once all
// select scores are known.
func (r *run) measurements() []measurement {
	var list []measurement
	s := &r.state
	if r.Config.CurveSamples > 0 && len(r.Parts.Domain.Select) > 0 {
		for i := range s.Points {
			if s.same(i) == i {
				list = append(list, measurement{i, Select, r.Config.CurveSamples})
			}
		}
	}
	for _, m := range list {
		if s.score(m.point, Select) == nil {
			return list
		}
	}
	if len(r.Parts.Domain.Test) == 0 {
		return list
	}
	heads := map[int]bool{0: true, s.same(s.Best()): true, s.same(len(s.Points) - 1): true}
	for i := range s.Points {
		switch {
		case s.same(i) != i:
		case heads[i]:
			list = append(list, measurement{i, Test, r.Config.TestSamples})
		case r.Config.CurveSamples > 0:
			list = append(list, measurement{i, Test, r.Config.CurveSamples})
		}
	}
	return list
}

func (r *run) measureTasks(s Split) []Task {
	all, most := r.Parts.Domain.Tasks(s), r.Config.TestTasks
	if s == Select {
		most = r.Config.SelectTasks
	}
	return all[:limited(all, most)]
}

func (r *run) measureOne(ctx context.Context, m measurement) error {
	p := r.state.Points[m.point]
	if err := r.useWeights(ctx, p.Saved, p.Weights); err != nil {
		return err
	}
	program, err := r.Program(ctx, p.Harness)
	if err != nil {
		return err
	}
	tasks := r.measureTasks(m.split)
	ts, spending, err := r.Rollouts(ctx, r.Jobs(p.Harness, program, tasks, m.samples, "measure/"+string(m.split)))
	if err != nil {
		return err
	}
	r.saving = time.Now()
	rec := Record{Kind: MeasureRecord, Weights: r.state.Weights, Saved: r.state.Saved, Harness: r.state.Harness,
		Spent: len(ts), File: r.state.measureFile(m.point, m.split), Spending: spending,
		Measure: &Measure{Point: m.point, Split: m.split, Score: NewScore(tasks, ts)}}
	if err := r.Parts.Store.PutTrajectories(rec.File, ts); err != nil {
		return AtArchive.wrap(rec.File, err)
	}
	return r.commit(rec)
}

// measured says whether a measurement was made, with at least as many samples.
func (s *State) measured(m measurement) bool {
	score := s.score(m.point, m.split)
	return score != nil && score.K >= m.samples
}

// measureFile names the file of a point's next measurement.
func (s *State) measureFile(point int, split Split) string {
	before := 0
	for _, m := range s.Measured {
		if m.Point == point && m.Split == split {
			before++
		}
	}
	if before > 0 {
		return fmt.Sprintf("point-%02d-%s-%d", point, split, before+1)
	}
	return firstFile(point, split)
}

// firstFile holds the first measurement of a point; the start's is its only one.
func firstFile(point int, split Split) string { return fmt.Sprintf("point-%02d-%s", point, split) }

// measureRollouts estimates what measuring will take, for the time left.
func (r *run) measureRollouts() int {
	c, d := r.Config, r.Parts.Domain
	plan := Conditions[c.Condition]
	per := c.phaseSteps(d) * c.cost(WeightKind, 1, d)
	if !plan.has(WeightKind) {
		per = c.cost(HarnessKind, 2, d) * (c.Iterations - 1)
	}
	points := r.meter.now.Budget/max(1, per) + 1
	switch plan.Pace {
	case PaceCycles:
		points = 2 * c.Cycles
	case PaceStages:
		points = len(plan.Phases) + 1
	}
	return c.measured(d, points)
}

// same is the first point with the same weights and harness.
func (s *State) same(i int) int {
	for j := range i {
		if s.Points[j].Saved == s.Points[i].Saved && s.Points[j].Harness == s.Points[i].Harness {
			return j
		}
	}
	return i
}

// score is what was measured at a point last; nil = nothing yet.
func (s *State) score(point int, split Split) *Score {
	for i := len(s.Measured) - 1; i >= 0; i-- {
		if m := &s.Measured[i]; m.Split == split && m.Point == s.same(point) {
			return &m.Score
		}
	}
	return nil
}

// Best is the point with the highest select score, the later one on a tie; the final one
// when none was measured. The test split has no say in it.
func (s *State) Best() int {
	best := len(s.Points) - 1
	for i := best - 1; i >= 0; i-- {
		a, b := s.score(i, Select), s.score(best, Select)
		if a != nil && b != nil && a.Mean > b.Mean {
			best = i
		}
	}
	return best
}
