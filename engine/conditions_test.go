package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// flaky fails at some of its calls, counted from 1, and proposes otherwise.
type flaky struct {
	enginetest.Proposer
	fails map[int]bool
	calls int
}

func (f *flaky) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	if f.calls++; f.fails[f.calls] {
		return nil, fmt.Errorf("call %d:\ntoo busy", f.calls)
	}
	return f.Proposer.Propose(ctx, b)
}

// writer proposes these sources again and again.
type writer []string

func (w writer) Propose(context.Context, engine.Brief) ([]engine.Harness, error) {
	var hs []engine.Harness
	for _, source := range w {
		hs = append(hs, engine.Harness{Source: source})
	}
	return hs, nil
}

// looker notes what is in the folder that a program would work in.
type looker struct {
	enginetest.Proposer
	found []string
}

func (l *looker) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	there, err := os.ReadDir(b.Folder)
	if err != nil {
		return nil, err
	}
	l.found = append(l.found, fmt.Sprintf("%s: %v", b.Folder, there))
	return l.Proposer.Propose(ctx, b)
}

// Stages spend what whale spends, each kind at once: 2 cycles of 3 steps are 6 steps, and
// one search phase of 3 iterations stays one.
func TestRun_stages(t *testing.T) {
	for name, c := range map[string]struct {
		condition string
		change    func(*engine.Config)
		want      string
	}{
		"weights first": {"stagewise-weights-first", nil, "W1.1 W1.2 W1.3 W1.4 W1.5 W1.6. H1.1 H1.2 H1.3."},
		"harness first": {"stagewise-harness-first", nil, "H1.1 H1.2 H1.3. W1.1 W1.2 W1.3 W1.4 W1.5 W1.6 W1.7 W1.8."}, // what broken candidates saved goes to steps
		"three cycles":  {"stagewise-weights-first", func(c *engine.Config) { c.Cycles, c.Steps = 3, 1 }, "W1.1 W1.2 W1.3. H1.1 H1.2 H1.3 H1.4 H1.5. H2.1 H2.2."},
		"fewer rollouts": {"stagewise-weights-first", func(c *engine.Config) { c.Rollouts = 130 },
			"W1.1 W1.2 W1.3. H1.1 H1.2."},
		"prompt-only": {"prompt-only", func(c *engine.Config) { c.Iterations = 2 }, "W1.1 W1.2 W1.3. H1.1 H1.2. W2.1 W2.2 W2.3."},
		"epochs": {"whale", func(c *engine.Config) { c.Epochs, c.Iterations = .4, 2 }, // 40 tasks, 4 a step: 10 steps an epoch
			"W1.1 W1.2 W1.3 W1.4. H1.1 H1.2. W2.1 W2.2 W2.3 W2.4."},
	} {
		t.Run(name, func(t *testing.T) {
			config := enginetest.Config()
			config.Condition = c.condition
			if c.change != nil {
				c.change(&config)
			}
			s, records, _ := mustPlay(t, config, nil)
			if got := units(records); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if spent, budget := s.Rollouts.Weight+s.Rollouts.Harness, config.Budget(enginetest.Domain(40)); spent > budget {
				t.Errorf("spent %d of %d", spent, budget)
			}
		})
	}
}

// An adaptive phase goes on while it helps. The harness that turns hint up is better each
// time, so a search that finds it settles only when there is nothing more to gain.
func TestRun_adaptive(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Rollouts = "adaptive", 1500
	config.Adaptive = engine.Adaptive{WindowSteps: 2, Least: 3, Patience: 2, Most: 6}
	s, records, _ := mustPlay(t, config, nil)
	if spent := s.Rollouts.Weight + s.Rollouts.Harness; spent > 1500 || spent <= 1500-16 {
		t.Errorf("spent %+v of 1500", s.Rollouts)
	}
	var means []float64
	var since, proposals, phases int
	for i, r := range records {
		switch {
		case r.Step != nil:
			means = append(means, r.Step.Mean)
			// Settled: no average of 2 steps beat the best one for 2 steps.
			settled := false
			if n := len(means); n >= 4 {
				best, at := 0.0, 0
				for j := 1; j < n; j++ {
					if a := means[j-1] + means[j]; a > best {
						best, at = a, j
					}
				}
				settled = n-1-at >= 2
			}
			over := !slices.ContainsFunc(records[i:], func(r engine.Record) bool { return r.Search != nil })
			if settled != r.Last && !over || over && r.Last != (records[i+1].Kind == engine.MeasureRecord) {
				t.Errorf("record %d: last %v after %v", i, r.Last, means)
			}
			if r.Last {
				means = nil
				phases++
			}
		case r.Search != nil:
			if r.Index == 1 {
				since, proposals = 0, 0
				break
			}
			since++
			proposals++
			if records[i-1].Harness != r.Harness {
				since = 0
			}
			settled := proposals >= 3 && since >= 2 || proposals == 6
			if settled && !r.Last || r.Last && !settled && records[i+1].Kind == engine.SearchRecord {
				t.Errorf("record %d: last %v after %d proposals, %d since the incumbent", i, r.Last, proposals, since)
			}
		}
	}
	if phases < 2 || records[len(records)-1].Kind != engine.MeasureRecord {
		t.Errorf("%d weight phases: %s", phases, units(records))
	}
}

// A run stops at its success rate, after the unit that reached it.
func TestRun_stopAt(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Rollouts = "weight-only", 3000
	_, all, _ := mustPlay(t, config, nil)
	config.StopAt = .5
	_, records, _ := mustPlay(t, config, nil)
	n := slices.IndexFunc(records, func(r engine.Record) bool { return r.Step != nil && r.Step.Mean >= .5 })
	if n < 2 || records[n+1].Kind != engine.MeasureRecord || !records[n].Last {
		t.Errorf("%d: %s", n, units(records))
	}
	if longer := units(all); !strings.HasPrefix(longer, strings.TrimSuffix(units(records), ".")) || len(longer) < 2*len(units(records)) {
		t.Errorf("%s\n%s", longer, units(records))
	}
}

// In prompt-only only the values of string constants may change; the rest comes back.
func TestRun_promptsOnly(t *testing.T) {
	source := func(prompt, more string) string {
		return fmt.Sprintf("package harness\n\nconst hintText = %q // says more\n%s", prompt, more)
	}
	config := enginetest.Config()
	config.Condition, config.Iterations = "prompt-only", 2
	proposed := writer{source("hint=9 turns=1", "func Run() {}\n"), source("hint=4 turns=1", ""), "hint=9 turns=1"}
	s, records, store := mustPlay(t, config, func(p *engine.Parts) {
		p.Domain.Seed = source("hint=0 turns=1", "")
		p.Proposer = proposed
	})
	h, err := store.Harness(s.HarnessID)
	if err != nil || h.Source != proposed[1] {
		t.Errorf("ended with %q, %v", h.Source, err)
	}
	search := records[slices.IndexFunc(records, func(r engine.Record) bool { return r.Index == 2 && r.Search != nil })].Search
	var rules []string
	for _, r := range search.Rejected {
		rules = append(rules, fmt.Sprint(r.Err.Rule, " ", r.Err.Line))
	}
	if !reflect.DeepEqual(rules, []string{"prompt-only 4", "parse 1"}) {
		t.Errorf("rejected by %v", rules)
	}
}

// A proposer that fails costs its iteration; the third time in a row ends the run. Nothing
// is lost by it: weights and harness stay, the iterations that gave nothing are taken
// back, and when the proposer works again the run ends as one without the bad hours, or
// with those only that it had got over before.
func TestRun_proposerFails(t *testing.T) {
	for _, c := range []struct {
		condition string
		fails     []int    // calls
		reach     int      // the call that ends the run
		first     string   // cause
		kept      []string // failures that stay in the journal
	}{
		{"harness-only", []int{3, 4, 5}, 5, "call 3", nil},
		{"harness-only", []int{1, 3, 4, 5}, 5, "call 3", []string{"harness proposer: call 1: too busy"}},
		{"whale", []int{1, 2, 3}, 3, "call 1", nil},
		{"whale", []int{4, 5, 6}, 6, "call 4", nil},
	} {
		config := enginetest.Config()
		config.Condition, config.Iterations = c.condition, 7
		play := func(store *enginetest.Store, f *flaky) error {
			parts := enginetest.Parts(store)
			parts.Proposer = f
			_, err := engine.Run(t.Context(), config, parts)
			return err
		}
		f := &flaky{fails: map[int]bool{}}
		for _, n := range c.fails {
			f.fails[n] = true
		}
		store := enginetest.NewStore(t.TempDir())
		err := play(store, f)
		var failure *engine.Failure
		var stuck *engine.ProposerError
		if !errors.As(err, &failure) || failure.Boundary != engine.AtHarness || !errors.As(err, &stuck) || stuck.Times != 3 || f.calls != c.reach ||
			!strings.Contains(err.Error(), "in 3 iterations in a row, first for this: "+c.first) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%s, calls %v fail: got %v after %d", c.condition, c.fails, err, f.calls)
		}
		var failed []string
		for _, r := range store.Records() {
			if r.Search != nil && r.Search.Failed != "" {
				failed = append(failed, r.Search.Failed)
			}
		}
		if state := engine.Fold(store.Records()); !slices.Equal(failed, c.kept) || state.Harness != stuck.Harness || state.Failing != 0 || state.Saved == "" {
			t.Errorf("%s, calls %v fail: the journal has %q, %+v", c.condition, c.fails, failed, stuck)
		}
		if err := play(store, &flaky{}); err != nil {
			t.Fatal(err)
		}
		calm := enginetest.NewStore(t.TempDir())
		bad := &flaky{fails: map[int]bool{}}
		for i := range c.kept {
			bad.fails[1+i] = true
		}
		if err := play(calm, bad); err != nil {
			t.Fatal(err)
		}
		if got, want := costless(store.Records()), costless(calm.Records()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, calls %v fail: went on as\n%s, want\n%s", c.condition, c.fails, units(got), units(want))
		}
	}
}

// costless are records without what they cost.
func costless(records []engine.Record) []engine.Record {
	records = slices.Clone(records)
	for i := range records {
		records[i].Spending = engine.Spending{}
	}
	return records
}

// A finished run goes on with a larger budget, keeps what was measured, and measures the
// rest; with the same budget it does nothing.
func TestRun_goesOn(t *testing.T) {
	for _, condition := range []string{"whale", "weight-only", "stagewise-weights-first", "stagewise-harness-first", "adaptive"} {
		t.Run(condition, func(t *testing.T) {
			config := enginetest.Config()
			config.Condition = condition
			first, records, store := mustPlay(t, config, nil)
			more := config
			more.Cycles++
			parts := enginetest.Parts(store)
			parts.Observer = nil
			s, err := engine.Run(t.Context(), more, parts)
			if err != nil {
				t.Fatal(err)
			}
			if got := store.Records(); len(got) <= len(records) || !reflect.DeepEqual(got[:len(records)], records) {
				t.Errorf("%d records, then %d", len(records), len(got))
			}
			if !strings.HasPrefix(units(store.Records()), units(records)+" ") || s.Rollouts.Weight <= first.Rollouts.Weight && condition != "stagewise-weights-first" {
				t.Errorf("%s\nthen %s", units(records), units(store.Records()))
			}
			state := engine.Fold(store.Records())
			for i, p := range state.Curve() {
				head := i == 0 || p.Best || i == len(state.Points)-1
				if p.Test == nil || p.Select == nil || head && p.Test.K != config.TestSamples {
					t.Errorf("point %d: %+v", i, p)
				}
			}
			files := map[string]bool{}
			for _, r := range store.Records() {
				if files[r.File] {
					t.Errorf("two units in %q", r.File)
				}
				files[r.File] = true
			}
			if err := more.Same(config); err == nil || !strings.Contains(err.Error(), "a budget can only grow") {
				t.Errorf("back: %v", err)
			}
		})
	}
}

// The hill climber's proposer knows the incumbent and nothing else that was tried.
func TestRun_hillClimber(t *testing.T) {
	config := enginetest.Config()
	config.Search, config.Iterations, config.Cycles = "hill-climber", 4, 2
	proposer := &looker{}
	s, records, store := mustPlay(t, config, func(p *engine.Parts) { p.Proposer = proposer })
	for _, b := range proposer.Briefs {
		if len(b.Entries) != 1 || b.Entries[0].Harness.ID != b.Incumbent || b.Rejected != nil || len(b.Failures) == 0 {
			t.Errorf("%+v", b)
		}
	}
	if len(proposer.found) != len(proposer.Briefs) {
		t.Error(proposer.found)
	}
	for _, found := range proposer.found {
		if found != filepath.Join(store.Dir, "climb")+": []" {
			t.Errorf("a program would find %s", found)
		}
	}
	if s.HarnessID == records[0].Harness || len(proposer.Briefs) != 3 {
		t.Errorf("%d briefs, %s", len(proposer.Briefs), s.HarnessID)
	}
}

// With group advantages only tasks with mixed outcomes teach, the rare success more.
func TestRun_advantage(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Update = "weight-only", "advantage"
	var learner *recorder
	s, records, store := mustPlay(t, config, func(p *engine.Parts) {
		learner = &recorder{Brain: p.Policy.(*enginetest.Brain)}
		p.Learner = learner
	})
	weights := map[float32]bool{}
	got, want := 0, 0
	for _, b := range learner.batches {
		got += len(b)
		for _, row := range b {
			weights[row.Weight] = true
		}
	}
	for _, r := range records {
		if r.Step == nil {
			continue
		}
		ts, err := store.Trajectories(r.File)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(ts); i += 4 {
			if good := len(engine.Accept(ts[i : i+4])); good < 4 {
				want += good
			}
		}
	}
	// 1, 2 and 3 of 4: sqrt(3), 1 and sqrt(1/3).
	for w := range weights {
		if !slices.ContainsFunc([]float32{1.7320508, 1, .57735026}, func(x float32) bool { return x-w < 1e-6 && w-x < 1e-6 }) {
			t.Errorf("weight %v", w)
		}
	}
	if got != want || len(weights) != 3 || s.WeightsID == records[0].Weights {
		t.Errorf("%d rows of %d, weights %v", got, want, weights)
	}
}

// Each condition says what it does.
func TestSchedule(t *testing.T) {
	for condition, want := range map[string]string{
		"whale":                   "2 cycles of 3 steps and 3 iterations of 3 candidates",
		"prompt-only":             "2 cycles of 3 steps and 3 iterations of 3 candidates, prompts only",
		"weight-only":             "phases of 3 steps",
		"harness-only":            "phases of 3 iterations of 3 candidates",
		"adaptive":                "steps while the reward over 3 steps improves, 5 to 15 iterations of 3 candidates with patience 2",
		"stagewise-harness-first": "harness first, then weight, each as much as 2 cycles of 3 steps and 3 iterations of 3 candidates",
	} {
		c := enginetest.Config()
		c.Condition = condition
		if got := c.Schedule(); got != want {
			t.Errorf("%s: %s", condition, got)
		}
	}
	c := enginetest.Config()
	c.Epochs, c.StopAt = .6, .9
	if got := c.Schedule(); got != "2 cycles of 0.6 epochs and 3 iterations of 3 candidates, until a success rate of 0.9" {
		t.Error(got)
	}
	c.Condition, c.Adaptive.WindowSteps = "adaptive", 0
	if got := c.Schedule(); !strings.Contains(got, "over 0.2 epochs") {
		t.Error(got)
	}
}
