package main

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
)

// brief is a run of the real parts that takes seconds.
func brief() engine.Config {
	c := engine.Defaults()
	c.Domain, c.Cycles, c.Steps, c.Iterations, c.Candidates = "lookup", 2, 1, 2, 1
	c.Prompts, c.Samples, c.SelectTasks, c.TestTasks, c.TestSamples, c.CurveSamples = 4, 4, 8, 4, 2, 1
	return c
}

// The ledger has, token by token, what the device counted, and the device's seconds. A
// probe before the run changes neither weights nor harness.
func TestLedger_deviceCounters(t *testing.T) {
	var ids [2]string
	for i := range ids {
		config := brief()
		s, err := openSite(t.Context(), &config, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		store, err := archive.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		proposer, err := openProposer(config, 0)
		if err != nil {
			t.Fatal(err)
		}
		parts := s.parts(config, store, proposer, nil)
		if i == 1 {
			if _, err := engine.TakeProbe(t.Context(), config, parts, t.TempDir(), true); err != nil {
				t.Fatal(err)
			}
		}
		before := s.trainer.Counters()
		sum, err := engine.Run(t.Context(), config, parts)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = string(sum.WeightsID) + string(sum.HarnessID)
		now := s.trainer.Counters()
		got := engine.SummaryTokens{Prompt: now.Prefill + now.Cached - before.Prefill - before.Cached, Cached: now.Cached - before.Cached,
			Sampled: now.Decoded - before.Decoded, Trained: now.Trained - before.Trained}
		if got != sum.Tokens || got.Trained == 0 {
			t.Errorf("the device counted %+v, the ledger has %+v", got, sum.Tokens)
		}
		cost := engine.Fold(store.Records()).Total.Cost
		if a, b := now.GenerateSeconds-before.GenerateSeconds, cost.DeviceSeconds; math.Abs(a-b) > 1e-6*a {
			t.Errorf("generating %v s, in the ledger %v", a, b)
		}
		if a, b := now.TrainSeconds-before.TrainSeconds, cost.LearnSeconds; math.Abs(a-b) > 1e-6*a {
			t.Errorf("learning %v s, in the ledger %v", a, b)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("without a probe %s, after one %s", ids[0], ids[1])
	}
}

// The embedded calibrations are of the domains that whale has a model for.
func TestEstimate_known(t *testing.T) {
	for _, c := range []struct{ domain, condition, want string }{
		{"lookup", "whale", "whale"}, {"lookup", "weight-only", "weight-only"}, {"sums", "whale", "whale"},
		{"math", "whale", ""},
	} {
		config := engine.Defaults()
		config.Domain, config.Condition = c.domain, c.condition
		known, err := estimateFlags{}.known(config, nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case len(known) == 0:
			if c.want != "" {
				t.Errorf("%s, %s: nothing is known", c.domain, c.condition)
			}
		}
		for _, k := range known {
			if k.Domain != c.domain || c.domain == "lookup" && k.Condition != c.want || len(k.Planned) == 0 || len(k.Phases) < len(k.Planned) || k.Probe.Seconds <= 0 {
				t.Errorf("%s, %s: %+v", c.domain, c.condition, k)
			}
		}
	}
	s := &engine.Summary{Estimate: &engine.Estimate{Rollouts: 110, Seconds: 90}, Rollouts: engine.Spent{Weight: 100}}
	s.Seconds.Total = 100
	if line := hindsight(s); !strings.Contains(line, "rollouts +10 %") || !strings.Contains(line, "seconds -10 %") {
		t.Error(line)
	}
}

func TestVisible(t *testing.T) {
	all := []sensor.Card{{Index: 0, ID: "GPU-aa11"}, {Index: 1, ID: "GPU-bb22"}}
	for variable, want := range map[string]string{"": "GPU-aa11", "1,0": "GPU-bb22", "GPU-bb": "GPU-bb22", "7": "", "-1": ""} {
		got := ""
		if cards := visible(all, variable); len(cards) == 1 {
			got = cards[0].ID
		}
		if got != want {
			t.Errorf("%q: %q, want %q", variable, got, want)
		}
	}
}
