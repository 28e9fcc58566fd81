package engine

// Planned are units of one kind in one cycle that a run has before it.
type Planned struct {
	Kind     RecordKind `json:"kind"`
	Cycle    int        `json:"cycle,omitempty"`
	Units    int        `json:"units"`
	Rollouts int        `json:"rollouts"` // at most
}

// Forecast lists what follows a state if nothing ends early, every candidate runs and an
// adaptive weight phase gets better until its budget ends: the most that a run takes.
func (c Config) Forecast(d *Domain, s State) []Planned {
	var list []Planned
	add := func(kind RecordKind, cycle, rollouts int) {
		if n := len(list); n == 0 || list[n-1].Kind != kind || list[n-1].Cycle != cycle {
			list = append(list, Planned{Kind: kind, Cycle: cycle})
		}
		last := &list[len(list)-1]
		last.Units++
		last.Rollouts += rollouts
	}
	c.StopAt = 0
	points := max(1, len(s.Points))
	for {
		u, more := c.next(s, d)
		if !more {
			break
		}
		r := Record{Kind: StepRecord, Cycle: u.Cycle, Index: u.Index, Spent: c.cost(u.Phase, u.Index, d)}
		if u.Phase == HarnessKind {
			r.Kind, r.Search, r.Harness = SearchRecord, &Search{}, s.Harness
		} else {
			r.Step, r.Harness = &Step{Mean: float64(s.Steps)}, s.Harness
		}
		r.Last = c.endsPhase(u, s.after(r), d)
		if r.Last {
			points++
		}
		s.apply(r)
		add(r.Kind, u.Cycle, r.Spent)
	}
	if n := c.measured(d, points) - s.Spent.Test; n > 0 {
		add(MeasureRecord, 0, n)
	}
	return list
}

// measured are the rollouts of measuring a curve of so many points.
func (c Config) measured(d *Domain, points int) int {
	selects, tests := limited(d.Select, c.SelectTasks), limited(d.Test, c.TestTasks)
	heads := min(3, points)
	return points*c.CurveSamples*selects + heads*c.TestSamples*tests + (points-heads)*c.CurveSamples*tests
}
