package ledger

import "github.com/seed-7c27e6b8/whale/engine"

// Profile is what a run cost, by phase and as a whole, and what came of it.
type Profile struct {
	Name   string
	Parts  []Part // the start, the phases and the measuring, in order
	Total  Total
	Phases Total         // of these, the two kinds of phase: what the accuracy was paid with
	First  *engine.Score // at the start, on the split of After
	Last   *engine.Score // at the end
	Split  engine.Split  // that First, Last and the parts' scores are of
	Failed int           // iterations without candidates
	Lines  []Line
}

// Part is the cost of one phase.
type Part struct {
	Total
	Before, After *engine.Score // around a phase; nil = not measured
}

// NewProfile adds up the records of a run. Every record is in one part, so the parts add
// up to the total exactly, token by token. Scores are those of the test split, or of the
// select split when the test was not opened.
func NewProfile(name string, records []engine.Record) Profile {
	p := Profile{Name: name, Split: engine.Test}
	state := engine.Fold(records)
	curve := state.Curve()
	scores := make([]*engine.Score, len(curve))
	for _, split := range []engine.Split{engine.Test, engine.Select} {
		p.Split = split
		measured := false
		for i, point := range curve {
			scores[i] = point.Test
			if split == engine.Select {
				scores[i] = point.Select
			}
			measured = measured || scores[i] != nil
		}
		if measured {
			break
		}
	}
	if n := len(scores); n > 0 {
		p.First, p.Last = scores[0], scores[n-1]
	}
	point := 0 // the latest
	open := false
	for _, r := range records {
		l := NewLine(r)
		p.Lines = append(p.Lines, l)
		phase := r.Kind == engine.StepRecord || r.Kind == engine.SearchRecord
		if last := len(p.Parts) - 1; last < 0 || !open && phase || p.Parts[last].Kind != r.Kind {
			part := Part{Total: Total{Cycle: r.Cycle, Kind: r.Kind}}
			if phase && point < len(scores) {
				part.Before = scores[point]
			}
			p.Parts = append(p.Parts, part)
		}
		part := &p.Parts[len(p.Parts)-1]
		part.add(l)
		if phase {
			p.Phases.add(l)
		}
		open = phase && !r.Last
		if phase && r.Last {
			if point++; point < len(scores) {
				part.After = scores[point]
			}
		}
		if r.Search != nil && r.Search.Failed != "" {
			p.Failed++
		}
	}
	p.Total = Sum(p.Lines)
	return p
}

// Gain is the accuracy that a part added, in [-1,1]; false when it was not measured.
func (p Part) Gain() (float64, bool) { return gain(p.Before, p.After) }

// Gain is the accuracy that the run added, in [-1,1]; false when it was not measured.
func (p Profile) Gain() (float64, bool) { return gain(p.First, p.Last) }

func gain(before, after *engine.Score) (float64, bool) {
	if before == nil || after == nil {
		return 0, false
	}
	return after.Mean - before.Mean, true
}

// Stage is a piece of a unit's time by the clock.
type Stage struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Stages are the pieces of a total's time by the clock, in the order that a unit has
// them. They do not overlap; idle is what is in none of them.
func (t Total) Stages() []Stage {
	s := t.Spending
	idle := s.Wall - s.Load - s.Rollouts - s.Cost.TrainSeconds - s.Cost.ProposeSeconds - s.Save
	return []Stage{{"propose", s.Cost.ProposeSeconds}, {"load", s.Load}, {"rollouts", s.Rollouts}, {"train", s.Cost.TrainSeconds},
		{"save", s.Save}, {"idle", idle}}
}

// Device is the time in which the device worked: generating, and in updates. Answers from
// elsewhere may overlap, so generating counts at most as the time that calls were out.
func (t Total) Device() float64 { return t.generating() + t.Spending.Cost.LearnSeconds }

func (t Total) generating() float64 {
	s := t.Spending
	return min(s.Cost.DeviceSeconds, max(0, s.Rollouts-s.Idle.Sum()))
}

// Idle is the time in which the device stood still, by cause, so that with Device it makes
// up the wall time. While rollouts are in flight: opening them, harness code, tools and
// verifiers with no call at the policy, and policy, the time around the device's steps
// while there are calls. Update is the time around an update's.
func (t Total) Idle() []Stage {
	s, c := t.Spending, t.Spending.Cost
	stages := []Stage{{"propose", c.ProposeSeconds}, {"load", s.Load}, {"save", s.Save},
		{"start", s.Idle.Start}, {"harness", s.Idle.Guest}, {"tool", s.Idle.Tool}, {"verify", s.Idle.Verify},
		{"policy", s.Rollouts - s.Idle.Sum() - t.generating()}, {"update", c.TrainSeconds - c.LearnSeconds}}
	rest := s.Wall - t.Device()
	for _, stage := range stages {
		rest -= stage.Seconds
	}
	return append(stages, Stage{"other", rest})
}

// Kinds are the tokens of a total by what was done with them: prefill are the prompt
// tokens that were not in the cache.
type Kinds struct{ Prefill, Cached, Sampled, Trained int }

// Kinds of tokens.
func (t Total) Kinds() Kinds {
	c := t.Spending.Cost
	return Kinds{Prefill: c.Prompt - c.Cached, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained}
}

// Sum is all of them.
func (k Kinds) Sum() int { return k.Prefill + k.Cached + k.Sampled + k.Trained }
