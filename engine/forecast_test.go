package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// What a run spends is what was forecast, or less where candidates were refused.
func TestForecast(t *testing.T) {
	for _, condition := range []string{"whale", "weight-only", "harness-only", "stagewise-weights-first", "adaptive"} {
		config := enginetest.Config()
		config.Condition = condition
		parts := enginetest.Parts(enginetest.NewStore(t.TempDir()))
		s, err := engine.Run(t.Context(), config, parts)
		if err != nil {
			t.Fatal(err)
		}
		got := map[engine.RecordKind]int{}
		for _, p := range config.Forecast(parts.Domain, engine.State{}) {
			got[p.Kind] += p.Rollouts
		}
		budget := config.Budget(parts.Domain)
		if sum := got[engine.StepRecord] + got[engine.SearchRecord]; sum > budget || sum < s.Rollouts.Weight+s.Rollouts.Harness {
			t.Errorf("%s: forecast %v, spent %+v of %d", condition, got, s.Rollouts, budget)
		}
		if condition == "whale" && got[engine.StepRecord] != s.Rollouts.Weight || got[engine.MeasureRecord] < s.Rollouts.Test {
			t.Errorf("%s: forecast %v, spent %+v", condition, got, s.Rollouts)
		}
		// From the end nothing is left but what measuring might still ask for.
		for _, p := range config.Forecast(parts.Domain, engine.Fold(parts.Store.Records())) {
			if p.Kind != engine.MeasureRecord {
				t.Errorf("%s: after the end comes %+v", condition, p)
			}
		}
	}
}

// A probe leaves nothing behind: the run after it is the run without it.
func TestTakeProbe_changesNothing(t *testing.T) {
	journal := func(probe bool) string {
		parts := enginetest.Parts(enginetest.NewStore(t.TempDir()))
		if probe {
			before := parts.Policy.Weights()
			p, err := engine.TakeProbe(t.Context(), enginetest.Config(), parts, t.TempDir(), true)
			if err != nil {
				t.Fatal(err)
			}
			if p.Rollouts == 0 || p.Cost.Sampled == 0 || p.Seconds <= 0 || p.Learned == 0 || p.LearnSeconds <= 0 || p.Lesson <= 0 {
				t.Errorf("%+v", p)
			}
			if after := parts.Policy.Weights(); after != before {
				t.Errorf("weights %s became %s", before, after)
			}
		}
		if _, err := engine.Run(t.Context(), enginetest.Config(), parts); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(parts.Store.Records())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if journal(false) != journal(true) {
		t.Error("the journals differ")
	}
}
