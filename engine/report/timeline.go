package report

import "github.com/seed-7c27e6b8/whale/engine"

// timeline is a run's journal as the page tells it: phases, steps and trials, each in
// order, placed by the rollouts spent on training and search.
type timeline struct {
	curve  []engine.CurvePoint
	spans  []span
	steps  []step
	trials []trial
	// rejected did not load.
	rejected  []engine.Rejection
	seed      engine.HarnessID
	incoming  *engine.Score // of the seed harness on the select split, when first measured
	measuring span          // all measurements after the run, as one row
	drift     float64       // the largest of all steps
}

// span is one phase with what it cost.
type span struct {
	Kind     engine.PhaseKind
	Cycle    int
	From, To int // rollouts spent before and after it
	Units    int // steps of a weight phase, iterations of a harness phase
	// First and Last are the accepted share in the first and last step of a weight
	// phase; for a harness phase the select score of the incoming and the kept harness.
	First, Last float64
	Spending    engine.Spending
	Kept        engine.HarnessID // of a harness phase
}

// step is one update of the weights.
type step struct {
	Rollouts int     // spent up to and with it
	Accepted float64 // share of its counted rollouts
	NLL      float64 // per trained token, before the update
}

// trial is one candidate that was scored against an incumbent.
type trial struct {
	entry     engine.Entry
	compared  engine.Comparison
	paired    bool             // compared is there
	incumbent engine.HarnessID // at the time
}

func newTimeline(records []engine.Record) timeline {
	t := timeline{curve: CurveOf(records)}
	var open *span
	spent := 0
	incumbent := engine.HarnessID("")
	for _, r := range records {
		switch r.Kind {
		case engine.StartRecord:
			t.seed, incumbent = r.Harness, r.Harness
			continue
		case engine.MeasureRecord:
			t.measuring.Units++
			t.measuring.To += r.Spent
			t.measuring.Spending = t.measuring.Spending.Add(r.Spending)
			continue
		}
		if open == nil {
			t.spans = append(t.spans, span{Kind: kindOf(r), Cycle: r.Cycle, From: spent})
			open = &t.spans[len(t.spans)-1]
		}
		spent += r.Spent
		open.To = spent
		open.Units++
		open.Spending = open.Spending.Add(r.Spending)
		if r.Step != nil {
			t.addStep(open, *r.Step, spent)
		}
		if r.Search != nil {
			t.addSearch(open, r, incumbent)
			incumbent = r.Harness
		}
		if r.Last {
			open = nil
		}
	}
	return t
}

func kindOf(r engine.Record) engine.PhaseKind {
	if r.Kind == engine.SearchRecord {
		return engine.HarnessKind
	}
	return engine.WeightKind
}

func (t *timeline) addStep(open *span, s engine.Step, spent int) {
	accepted := acceptedShare(s)
	t.steps = append(t.steps, step{Rollouts: spent, Accepted: accepted, NLL: s.NLL})
	t.drift = max(t.drift, s.Drift)
	if open.Units == 1 {
		open.First = accepted
	}
	open.Last = accepted
}

func acceptedShare(s engine.Step) float64 {
	return float64(s.Accepted) / float64(max(1, s.Counted))
}

// addSearch adds an iteration. The first of a phase only measures the incoming harness;
// the others set candidates against it, of which one may be kept.
func (t *timeline) addSearch(open *span, r engine.Record, incumbent engine.HarnessID) {
	t.rejected = append(t.rejected, r.Search.Rejected...)
	if r.Search.Failed != "" {
		t.rejected = append(t.rejected, engine.Rejection{Err: engine.LoadError{Rule: "proposer failed", Reason: r.Search.Failed}})
	}
	for i, e := range r.Search.Evaluated {
		if e.Harness.ID == incumbent {
			if t.incoming == nil && incumbent == t.seed {
				t.incoming = &r.Search.Evaluated[i].Score
			}
			open.First, open.Last = e.Score.Mean, e.Score.Mean
			continue
		}
		c := trial{entry: e, incumbent: incumbent}
		if i < len(r.Search.Compared) {
			c.compared, c.paired = r.Search.Compared[i], true
		}
		t.trials = append(t.trials, c)
		if e.Accepted {
			open.Last = e.Score.Mean
		}
	}
	open.Kept = r.Harness
}
