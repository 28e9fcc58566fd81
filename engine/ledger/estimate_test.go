package ledger_test

import (
	"math"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b)+1e-9 }

// A run foretold from itself takes what it took, on a machine half as fast twice the time.
func TestNewEstimate_fromItself(t *testing.T) {
	for _, condition := range []string{"whale", "harness-only", "weight-only"} {
		s, records, _ := played(t, condition)
		config := enginetest.Config()
		config.Condition = condition
		planned := config.Forecast(enginetest.Domain(40), engine.State{})
		var lines []ledger.Line
		for _, r := range records {
			lines = append(lines, ledger.NewLine(r))
		}
		c := ledger.Sum(lines).Spending.Cost
		probe := engine.Probe{Rollouts: 1, Cost: c, Seconds: ledger.Sum(lines).Spending.Rollouts, Learned: c.Forward, LearnSeconds: c.TrainSeconds}
		known := []ledger.Calibration{ledger.NewCalibration(config, probe, planned, lines)}
		slow := probe
		slow.Seconds, slow.LearnSeconds = 2*probe.Seconds, 2*probe.LearnSeconds
		slow.Energy = engine.Energy{Package: engine.Joules{Joules: 500, Seconds: 5}}
		start := lines[0].Spending.Wall // is over before there is anything to foretell
		e := ledger.NewEstimate(probe, planned, known)
		all := s.Rollouts.Weight + s.Rollouts.Harness + s.Rollouts.Test
		if e.Rollouts != all || !near(e.Seconds, s.Seconds.Total-start) || e.Joules != nil {
			t.Errorf("%s: %+v, took %d rollouts, %v s", condition, e, all, s.Seconds.Total-start)
		}
		if d := e.Tokens.Sampled - s.Tokens.Sampled; d < -1 || d > 1 {
			t.Errorf("%s: %+v, took %+v", condition, e.Tokens, s.Tokens)
		}
		if both := ledger.NewEstimate(probe, planned, []ledger.Calibration{known[0], known[0]}); both.Rollouts != e.Rollouts || !near(both.Seconds, e.Seconds) || both.Tokens != e.Tokens {
			t.Errorf("%s: %+v, of two runs alike %+v", condition, e, both)
		}
		twice := ledger.NewEstimate(slow, planned, known)
		if !near(twice.Seconds, 2*e.Seconds) || twice.Joules == nil || !near(*twice.Joules, 100*twice.Seconds) || twice.Tokens != e.Tokens {
			t.Errorf("%s: %+v", condition, twice)
		}
	}
}

// Another plan is foretold phase by phase: as many of its rollouts come about as did of those
// that were planned then, in the same cycle or, for a cycle that was not, in all.
func TestNewEstimate_otherPlan(t *testing.T) {
	probe := engine.Probe{Rollouts: 1, Seconds: 1, Cost: engine.Cost{Sampled: 100}}
	search := func(cycle, rollouts int) engine.Planned {
		return engine.Planned{Kind: engine.SearchRecord, Cycle: cycle, Rollouts: rollouts}
	}
	k := ledger.Calibration{Probe: probe, Planned: []engine.Planned{search(1, 100), search(2, 100)}, Phases: []ledger.Phase{
		{Kind: engine.SearchRecord, Cycle: 1, Rollouts: 60, Tokens: engine.SummaryTokens{Sampled: 600}, Play: 6},
		{Kind: engine.SearchRecord, Cycle: 2, Rollouts: 80, Tokens: engine.SummaryTokens{Sampled: 1600}, Play: 16}}}
	for name, c := range map[string]struct {
		planned  []engine.Planned
		rollouts int
		seconds  float64
	}{
		"twice the first":    {[]engine.Planned{search(1, 200)}, 120, 12},
		"half of the second": {[]engine.Planned{search(2, 50)}, 40, 8},
		"a third one":        {[]engine.Planned{search(3, 100)}, 70, 14},
	} {
		e := ledger.NewEstimate(probe, c.planned, []ledger.Calibration{k})
		if e.Rollouts != c.rollouts || !near(e.Seconds, c.seconds) || e.Tokens.Sampled != int(c.seconds*100) {
			t.Errorf("%s: %+v, want %d rollouts in %v s", name, e, c.rollouts, c.seconds)
		}
	}
}

// Without a calibration the probe speaks for all.
func TestNewEstimate_fromProbe(t *testing.T) {
	probe := engine.Probe{Rollouts: 10, Seconds: 1, Rewarded: .5, Lesson: 100, Learned: 1000, LearnSeconds: 1,
		Cost: engine.Cost{Prompt: 500, Cached: 100, Sampled: 200}}
	planned := []engine.Planned{{Kind: engine.StepRecord, Cycle: 1, Rollouts: 100}, {Kind: engine.SearchRecord, Cycle: 1, Rollouts: 50}, {Kind: engine.MeasureRecord, Rollouts: 50}}
	e := ledger.NewEstimate(probe, planned, nil)
	// 200 rollouts of .1 s, and 50 rewarded ones of 100 tokens at 1000 tokens/s; no rest is known.
	if e.Rollouts != 200 || e.Tokens.Sampled != 4000 || !near(e.Seconds, 20+5) || e.Tokens.Trained != 1000 {
		t.Errorf("%+v", e)
	}
	if e := ledger.NewEstimate(engine.Probe{}, planned, nil); e.Seconds != 0 || e.Rollouts != 0 {
		t.Errorf("of nothing %+v", e)
	}
}
