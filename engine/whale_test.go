package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// play makes a run.
func play(t *testing.T, c engine.Config, change func(*engine.Parts)) (*engine.Summary, *enginetest.Store, error) {
	t.Helper()
	store := enginetest.NewStore(t.TempDir())
	p := enginetest.Parts(store)
	if change != nil {
		change(&p)
	}
	s, err := engine.Run(t.Context(), c, p)
	return s, store, err
}

func mustPlay(t *testing.T, c engine.Config, change func(*engine.Parts)) (*engine.Summary, []engine.Record, *enginetest.Store) {
	t.Helper()
	s, store, err := play(t, c, change)
	if err != nil {
		t.Fatal(err)
	}
	return s, store.Records(), store
}

// units is a journal in short: W1.2 is step 2 of cycle 1, H a search iteration, a dot
// after it ends the phase.
func units(records []engine.Record) string {
	var out []string
	for _, r := range records {
		kind := map[engine.RecordKind]string{engine.StepRecord: "W", engine.SearchRecord: "H"}[r.Kind]
		if kind == "" {
			continue
		}
		u := fmt.Sprintf("%s%d.%d", kind, r.Cycle, r.Index)
		if r.Last {
			u += "."
		}
		out = append(out, u)
	}
	return strings.Join(out, " ")
}

// The order of steps and iterations in every condition, and its end. A step takes 16
// rollouts here, the first iteration of a phase 16, a further one at most 48 (2 of 3
// candidates load: 32).
func TestRun_conditions(t *testing.T) {
	for name, c := range map[string]struct {
		condition string
		rollouts  int // 0 = from the schedule: 2*3*16 + 16 + 2*48 = 208
		want      string
	}{
		"whale":               {"whale", 0, "W1.1 W1.2 W1.3. H1.1 H1.2 H1.3. W2.1 W2.2 W2.3."},
		"weight-only":         {"weight-only", 0, "W1.1 W1.2 W1.3. W2.1 W2.2 W2.3. W3.1 W3.2 W3.3. W4.1 W4.2 W4.3. W5.1."},
		"harness-only":        {"harness-only", 0, "H1.1 H1.2 H1.3. H2.1 H2.2 H2.3."},
		"whale, small budget": {"whale", 165, "W1.1 W1.2 W1.3. H1.1 H1.2. W2.1 W2.2 W2.3."},
		"whale, no search":    {"whale", 100, "W1.1 W1.2 W1.3."},
		"whale, one step":     {"whale", 20, "W1.1."},
	} {
		t.Run(name, func(t *testing.T) {
			config := enginetest.Config()
			config.Condition, config.Rollouts = c.condition, c.rollouts
			s, records, _ := mustPlay(t, config, nil)
			if got := units(records); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			budget := config.Budget(enginetest.Domain(40))
			if spent := s.Rollouts.Weight + s.Rollouts.Harness; spent > budget || c.rollouts == 0 && spent < budget*3/4 {
				t.Errorf("spent %d of %d", spent, budget)
			}
			if s.Condition != c.condition || s.Test.Start.N != 20 || s.Test.Final.N != 20 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Both levers move, each condition only its own.
func TestRun_levers(t *testing.T) {
	for condition, moves := range map[string][2]bool{"whale": {true, true}, "weight-only": {true, false}, "harness-only": {false, true}} {
		config := enginetest.Config()
		config.Condition = condition
		s, records, _ := mustPlay(t, config, nil)
		start := records[0]
		if got := [2]bool{s.WeightsID != start.Weights, s.HarnessID != start.Harness}; got != moves {
			t.Errorf("%s moved weights and harness: %v, want %v", condition, got, moves)
		}
		if s.Test.Final.Mean <= s.Test.Start.Mean {
			t.Errorf("%s: %.3f, from %.3f", condition, s.Test.Final.Mean, s.Test.Start.Mean)
		}
	}
}

// The same seed gives the same journal, byte for byte, at any concurrency; another seed
// another one.
func TestRun_deterministic(t *testing.T) {
	journal := func(seed uint64, inFlight int) string {
		c := enginetest.Config()
		c.Seed, c.InFlight = seed, inFlight
		_, records, _ := mustPlay(t, c, nil)
		text, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	a := journal(1, 1)
	if journal(1, 50) != a {
		t.Error("the journal depends on the number of rollouts in flight")
	}
	if journal(2, 1) == a {
		t.Error("the seed changes nothing")
	}
}

// A step without success leaves weights and optimizer alone, saves nothing, and counts.
func TestRun_nothingAccepted(t *testing.T) {
	config := enginetest.Config()
	config.Condition = "weight-only"
	s, records, store := mustPlay(t, config, func(p *engine.Parts) {
		p.Domain.Seed = "hint=0 turns=1"
		p.Policy.(*enginetest.Brain).Skill = 0
	})
	for _, r := range records {
		if r.Weights != records[0].Weights || r.Saved != records[0].Saved {
			t.Errorf("record %d has weights %s in %s", r.Seq, r.Weights, r.Saved)
		}
		if r.Kind == engine.StepRecord && (r.Step.Accepted != 0 || r.Step.Updates != 0 || r.Step.Counted != 16) {
			t.Errorf("%+v", r.Step)
		}
	}
	if s.Rollouts.Weight != 208 || s.Tokens.Trained != 0 {
		t.Errorf("%+v", s)
	}
	if folders, err := store.Weights(); err != nil || len(folders) != 1 {
		t.Errorf("%d folders of weights, %v", len(folders), err)
	}
}

// recorder keeps what the learner was given.
type recorder struct {
	*enginetest.Brain
	batches [][]engine.Sequence
}

func (r *recorder) Update(ctx context.Context, batch []engine.Sequence) (engine.Update, error) {
	r.batches = append(r.batches, batch)
	return r.Brain.Update(ctx, batch)
}

// With a third of the rollouts lost to the host, means stay within their noise, and what
// reaches the learner are the accepted rollouts only.
func TestRun_infraFaults(t *testing.T) {
	clean, _, _ := mustPlay(t, enginetest.Config(), nil)
	config := enginetest.Config()
	config.Retries = 0
	config.Coverage = .5
	var learner *recorder
	faulty, records, _ := mustPlay(t, config, func(p *engine.Parts) {
		brain := p.Policy.(*enginetest.Brain)
		brain.Fault = func(r engine.Request, _ int) error {
			if r.Seed%10 < 3 {
				return errors.New("bus error")
			}
			return nil
		}
		learner = &recorder{Brain: brain}
		p.Learner = learner
	})
	if faulty.Coverage > .8 || faulty.Coverage < .5 {
		t.Errorf("coverage %v", faulty.Coverage)
	}
	if d := math.Abs(faulty.Test.Start.Mean - clean.Test.Start.Mean); d > .15 {
		t.Errorf("the start's mean moved by %v", d)
	}
	accepted, sequences := 0, 0
	for _, r := range records {
		if r.Step != nil {
			accepted += r.Step.Accepted
			if r.Step.Counted == 16 {
				t.Errorf("step %d lost nothing", r.Seq)
			}
		}
	}
	for _, b := range learner.batches {
		if len(b) > config.Batch {
			t.Errorf("a mini-batch of %d", len(b))
		}
		sequences += len(b)
	}
	if sequences != accepted || accepted == 0 {
		t.Errorf("%d sequences from %d accepted rollouts", sequences, accepted)
	}
}

// Weight steps visit each training task once an epoch, eight samples side by side.
func TestRun_batches(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Rollouts, config.Prompts = "weight-only", 6*12*4, 12
	_, records, store := mustPlay(t, config, nil)
	epochs := map[int]map[engine.TaskID]int{}
	var order [][]engine.TaskID
	for _, rec := range records {
		if rec.Step == nil {
			continue
		}
		ts, err := store.Trajectories(rec.File)
		if err != nil {
			t.Fatal(err)
		}
		var tasks []engine.TaskID
		for i := 0; i < len(ts); i += config.Samples {
			for j := range config.Samples {
				if ts[i+j].Task != ts[i].Task || ts[i+j].Sample != j {
					t.Fatalf("rollout %d is %s/%d", i+j, ts[i+j].Task, ts[i+j].Sample)
				}
			}
			tasks = append(tasks, ts[i].Task)
			if epochs[rec.Step.Epoch] == nil {
				epochs[rec.Step.Epoch] = map[engine.TaskID]int{}
			}
			epochs[rec.Step.Epoch][ts[i].Task]++
		}
		order = append(order, tasks)
	}
	if len(epochs) != 2 || len(epochs[0]) != 36 || len(epochs[1]) != 36 { // 40 tasks, 3 steps of 12, 4 dropped
		t.Errorf("%d epochs of %d and %d tasks", len(epochs), len(epochs[0]), len(epochs[1]))
	}
	if reflect.DeepEqual(order[0], order[3]) {
		t.Error("both epochs have the same order")
	}
}

// The test split is opened after the run, once per point, and the best point is chosen
// without it.
func TestRun_measure(t *testing.T) {
	config := enginetest.Config()
	var learner *enginetest.Brain
	s, records, _ := mustPlay(t, config, func(p *engine.Parts) { learner = p.Policy.(*enginetest.Brain) })
	state := engine.Fold(records)
	if learner.Weights() != s.WeightsID {
		t.Error("measuring left other weights in use")
	}
	measuring := false
	seen := map[string]bool{}
	for _, r := range records {
		if measuring = measuring || r.Kind == engine.MeasureRecord; measuring && r.Kind != engine.MeasureRecord {
			t.Error("the run goes on after it was measured")
		}
		if r.Measure != nil {
			key := fmt.Sprint(r.Measure.Split, state.Points[r.Measure.Point].Weights, state.Points[r.Measure.Point].Harness)
			if seen[key] {
				t.Errorf("measured twice: %s", key)
			}
			seen[key] = true
		}
	}
	curve := state.Curve()
	if len(curve) != 4 || curve[0].Rollouts != 0 || curve[3].Rollouts != s.Rollouts.Weight+s.Rollouts.Harness {
		t.Fatalf("curve %+v", curve)
	}
	best := curve[state.Best()]
	for i, p := range curve {
		if p.Select.Mean > best.Select.Mean {
			t.Errorf("point %d has a better select score than the best", i)
		}
		k := config.CurveSamples
		if i == 0 || i == len(curve)-1 || p.Best {
			k = config.TestSamples
		}
		if p.Test.K != k || p.Select.K != config.CurveSamples {
			t.Errorf("point %d: %d test and %d select samples", i, p.Test.K, p.Select.K)
		}
	}
	if g := s.Gap.Best; s.Select.Best.Mean != best.Select.Mean || g.Mean != best.Select.Mean-best.Test.Mean || g.Lo >= g.Mean || g.Hi <= g.Mean || s.LuckAccepts != .75 {
		t.Errorf("select %+v, gap %+v, luck %v", s.Select, s.Gap, s.LuckAccepts)
	}
	if s.Test.Best.Mean != best.Test.Mean || s.BaselineSameTokens.N != 20 {
		t.Errorf("%+v", s)
	}
}

// The best point is chosen with seeds that no search has met: luck in a search must not
// count again.
func TestRun_measuresAfresh(t *testing.T) {
	_, records, store := mustPlay(t, enginetest.Config(), nil)
	searched := map[uint64]bool{}
	for _, r := range records {
		if r.File == "" {
			continue
		}
		ts, err := store.Trajectories(r.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, rollout := range ts {
			if r.Measure == nil {
				searched[rollout.Seed] = true
			} else if searched[rollout.Seed] {
				t.Fatalf("point %d on %s meets a seed of a search", r.Measure.Point, r.Measure.Split)
			}
		}
	}
}

// watcher keeps the progress and checks that it makes sense.
type watcher struct {
	t       *testing.T
	stages  []engine.Stage
	commits int
	busy    atomic.Bool
	last    engine.Progress
}

func (w *watcher) Observe(p engine.Progress) {
	if !w.busy.CompareAndSwap(false, true) {
		w.t.Error("two calls at once")
	}
	defer w.busy.Store(false)
	if len(w.stages) == 0 || w.stages[len(w.stages)-1] != p.Stage {
		w.stages = append(w.stages, p.Stage)
	}
	if p.Done > p.Jobs || p.Mean < 0 || p.Mean > 1 || p.Left < 0 || p.Budget != 208 {
		w.t.Errorf("%+v", p)
	}
	if p.Finished != nil {
		w.commits++
	}
	w.last = p
}

func TestRun_progress(t *testing.T) {
	w := &watcher{t: t}
	s, records, _ := mustPlay(t, enginetest.Config(), func(p *engine.Parts) { p.Observer = w })
	want := []engine.Stage{engine.StageStart, engine.StageWeight, engine.StageHarness, engine.StageWeight, engine.StageMeasure, engine.StageDone}
	if !reflect.DeepEqual(w.stages, want) {
		t.Errorf("stages %v", w.stages)
	}
	if w.commits != len(records) || w.last.Spent != s.Rollouts || w.last.Left != 0 {
		t.Errorf("%d commits of %d, last %+v", w.commits, len(records), w.last)
	}
}

// What stops a run before it begins, or in the middle, says where and why in one line.
func TestRun_refused(t *testing.T) {
	for name, c := range map[string]struct {
		config func(*engine.Config)
		parts  func(*engine.Parts)
		say    string
	}{
		"condition":        {config: func(c *engine.Config) { c.Condition = "magic" }, say: `bad setting: unknown condition "magic"; there are adaptive, harness-only, prompt-only, stagewise-harness-first, stagewise-weights-first, weight-only, whale`},
		"prompts":          {config: func(c *engine.Config) { c.Prompts = 41 }, say: "bad setting: prompts is 41, but the domain has 40 training tasks"},
		"samples":          {config: func(c *engine.Config) { c.Samples = 0 }, say: "bad setting: samples is 0, at least 1"},
		"budget":           {config: func(c *engine.Config) { c.Rollouts = 15 }, say: "bad setting: rollouts is 15, not enough for one step of whale"},
		"iterations":       {config: func(c *engine.Config) { c.Iterations = 1 }, say: "bad setting: iterations is 1"},
		"temperature":      {config: func(c *engine.Config) { c.Sampling.Temperature = 0 }, say: "bad setting: sampling"},
		"negative":         {config: func(c *engine.Config) { c.Retries = -1 }, say: "bad setting: retries is -1, at least 0"},
		"no select tasks":  {parts: func(p *engine.Parts) { p.Domain.Select = nil }, say: "bad setting: the domain has no select tasks"},
		"leak":             {parts: func(p *engine.Parts) { p.Domain.Test[3] = p.Domain.Train[5] }, say: "task task5: is in split train and again in test"},
		"seed harness":     {parts: func(p *engine.Parts) { p.Domain.Seed = "broken" }, say: "want hint=H turns=T"},
		"update":           {config: func(c *engine.Config) { c.Update = "magic" }, say: `bad setting: unknown update "magic"; there are advantage, policy-gradient, rsft`},
		"search":           {config: func(c *engine.Config) { c.Search = "magic" }, say: `bad setting: unknown search "magic"; there are hill-climber, meta-harness`},
		"epochs":           {config: func(c *engine.Config) { c.Epochs = math.NaN() }, say: "bad setting: epochs is NaN"},
		"stop":             {config: func(c *engine.Config) { c.StopAt = 2 }, say: "bad setting: stop_at is 2, from 0 (never) to 1"},
		"stages":           {config: func(c *engine.Config) { c.Condition, c.Cycles = "stagewise-harness-first", 1 }, say: "bad setting: cycles is 1, at least 2 for stagewise"},
		"first of several": {config: func(c *engine.Config) { c.Retries, c.Samples, c.Cycles = -1, -1, -1 }, say: "bad setting: cycles is -1, at least 1"},
		"proposer":         {config: func(c *engine.Config) { c.Iterations = 5 }, parts: func(p *engine.Parts) { p.Proposer = dead{} }, say: "harness proposer: no candidates in 3 iterations in a row, first for this: panic: out of ideas; the run keeps harness h"},
		"sandbox":          {parts: func(p *engine.Parts) { p.Domain.Seed = "kill" }, say: "all 16 rollouts were lost to the host"},
		"policy": {parts: func(p *engine.Parts) {
			p.Policy.(*enginetest.Brain).Fault = func(engine.Request, int) error { return errors.New("gone") }
		}, say: "policy task"},
	} {
		t.Run(name, func(t *testing.T) {
			config := enginetest.Config()
			if c.config != nil {
				c.config(&config)
			}
			_, _, err := play(t, config, func(p *engine.Parts) {
				if c.parts != nil {
					c.parts(p)
				}
			})
			if err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
			if strings.HasPrefix(c.say, "bad setting") && !errors.Is(err, engine.ErrConfig) {
				t.Error("not an ErrConfig")
			}
		})
	}
}
