package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// counter counts what passes through policy and learner, beside the engine's own books.
type counter struct {
	engine.Store
	rollouts, prompt, cached, sampled int
	calls                             int
	files                             map[string][]*engine.Trajectory
	meter                             *meter
	paid                              *spender
}

func (c *counter) PutTrajectories(file string, ts []*engine.Trajectory) error {
	if c.files == nil {
		c.files = map[string][]*engine.Trajectory{}
	}
	c.files[file] = ts
	for _, t := range ts {
		c.rollouts++
		for _, call := range t.Calls() {
			c.calls++
			c.prompt += len(call.Prompt)
			c.cached += call.Cached
			c.sampled += len(call.Sampled)
		}
	}
	return c.Store.PutTrajectories(file, ts)
}

// meter is a machine whose processors took a joule between any two readings.
type meter struct{ joules float64 }

func (m *meter) Energy() engine.Energy {
	m.joules++
	return engine.Energy{Package: engine.Joules{Joules: m.joules, Seconds: m.joules / 100}}
}

// spender pays for each proposal.
type spender struct {
	engine.Proposer
	spent engine.ProposalCost
}

func (s *spender) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	s.spent = s.spent.Add(engine.ProposalCost{Calls: 2, Input: 1000, Cached: 400, Output: 50, Dollars: .25, Unpriced: 1, Seconds: 3})
	return s.Proposer.Propose(ctx, b)
}

func (s *spender) Spent() engine.ProposalCost { return s.spent }

func played(t *testing.T, condition string) (*engine.Summary, []engine.Record, *counter) {
	t.Helper()
	store := &counter{Store: enginetest.NewStore(t.TempDir())}
	config := enginetest.Config()
	config.Condition = condition
	parts := enginetest.Parts(store)
	store.meter, store.paid = &meter{}, &spender{Proposer: parts.Proposer}
	parts.Energy, parts.Proposer = store.meter, store.paid
	s, err := engine.Run(t.Context(), config, parts)
	if err != nil {
		t.Fatal(err)
	}
	return s, store.Records(), store
}

// Everything the profile says is what the engine and the trajectories say, exactly: the
// total, the parts, the units, the pprof profile and the trace.
func TestProfile_sums(t *testing.T) {
	for _, condition := range []string{"whale", "harness-only", "stagewise-weights-first"} {
		s, records, counted := played(t, condition)
		p := ledger.NewProfile(condition, records)
		if state := engine.Fold(records); p.Total.Spending != state.Total {
			t.Errorf("%s: total %+v, the engine has %+v", condition, p.Total.Spending, state.Total)
		}
		c := p.Total.Spending.Cost
		if got, want := (engine.SummaryTokens{Prompt: c.Prompt, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained}), s.Tokens; got != want || got.Prompt != counted.prompt || got.Cached != counted.cached || got.Sampled != counted.sampled {
			t.Errorf("%s: %+v, summary %+v, calls %+v", condition, got, want, counted)
		}
		if all := s.Rollouts.Weight + s.Rollouts.Harness + s.Rollouts.Test; p.Total.Rollouts != all || all != counted.rollouts {
			t.Errorf("%s: %d rollouts, %d, %d", condition, p.Total.Rollouts, all, counted.rollouts)
		}
		var parts ledger.Kinds
		units, wall := 0, 0.0
		for _, part := range p.Parts {
			k := part.Kinds()
			parts = ledger.Kinds{Prefill: parts.Prefill + k.Prefill, Cached: parts.Cached + k.Cached, Sampled: parts.Sampled + k.Sampled, Trained: parts.Trained + k.Trained}
			units += part.Units
			clock := 0.0
			for _, stage := range part.Stages() {
				clock += stage.Seconds
				if stage.Seconds < -1e-9 {
					t.Errorf("%s: %v s of %s", condition, stage.Seconds, stage.Name)
				}
			}
			if math.Abs(clock-part.Spending.Wall) > 1e-9 {
				t.Errorf("%s: stages of %v s in %v s", condition, clock, part.Spending.Wall)
			}
			idle := part.Device()
			for _, cause := range part.Idle() {
				idle += cause.Seconds
				if cause.Seconds < -1e-9 {
					t.Errorf("%s: idle %v s by %s", condition, cause.Seconds, cause.Name)
				}
			}
			if math.Abs(idle-part.Spending.Wall) > 1e-9 {
				t.Errorf("%s: device and idle are %v s of %v s", condition, idle, part.Spending.Wall)
			}
			wall += part.Spending.Wall
		}
		if n := s.Rollouts.Weight + s.Rollouts.Harness; p.Phases.Rollouts != n {
			t.Errorf("%s: %d rollouts of phases, %d", condition, p.Phases.Rollouts, n)
		}
		phases := 0
		for _, part := range p.Parts {
			if part.Kind == engine.StepRecord || part.Kind == engine.SearchRecord {
				phases++
			}
		}
		if want := len(engine.Fold(records).Points) - 1; phases != want {
			t.Errorf("%s: %d parts are phases, the run had %d", condition, phases, want)
		}
		if parts != p.Total.Kinds() || units != len(records) || math.Abs(wall-p.Total.Spending.Wall) > 1e-9 {
			t.Errorf("%s: parts %+v of %d units, %v s", condition, parts, units, wall)
		}
		if got := p.Total.Spending.Cost.Proposal; got != counted.paid.spent || condition != "stagewise-weights-first" && got.Calls == 0 {
			t.Errorf("%s: proposals %+v, paid %+v", condition, got, counted.paid.spent)
		}
		if joules := p.Total.Spending.Energy.Package.Joules; s.Joules == nil || *s.Joules != joules || joules != counted.meter.joules-1 {
			t.Errorf("%s: %v J of %v, summary %v", condition, joules, counted.meter.joules-1, s.Joules)
		}
		checkRollouts(t, records, counted)
		checkPprof(t, p)
		checkTrace(t, p)
	}
}

// The rollouts of a unit, and their calls, add up to the unit.
func checkRollouts(t *testing.T, records []engine.Record, counted *counter) {
	t.Helper()
	for _, r := range records {
		l := ledger.NewLine(r)
		want := l.Spending
		var sum, calls engine.Cost
		var joules, callJoules float64
		for _, one := range ledger.Rollouts(l, r.File, counted.files[r.File]) {
			sum = sum.Add(one.Cost)
			joules += *one.Joules
			for _, c := range one.Calls {
				calls = calls.Add(engine.Cost{Prompt: c.Prefill + c.Cached, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained, LearnSeconds: c.Learn,
					DeviceSeconds: c.Device, PolicySeconds: c.Wall})
				callJoules += *c.Joules
			}
		}
		counts := func(c engine.Cost) [4]int { return [4]int{c.Prompt, c.Cached, c.Sampled, c.Trained} }
		if counts(sum) != counts(want.Cost) || counts(calls) != counts(want.Cost) {
			t.Errorf("unit %d: %v, its rollouts %v, its calls %v", r.Seq, counts(want.Cost), counts(sum), counts(calls))
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("unit %d: %s %v, want %v", r.Seq, what, got, want)
			}
		}
		near("verifying", sum.VerifySeconds, want.Cost.VerifySeconds)
		near("tools", sum.ToolSeconds, want.Cost.ToolSeconds)
		near("policy", calls.PolicySeconds, want.Cost.PolicySeconds)
		near("device", calls.DeviceSeconds, want.Cost.DeviceSeconds)
		near("learning", calls.LearnSeconds, want.Cost.LearnSeconds)
		taken := want.RolloutEnergy.Package.Joules
		if want.Cost.Trained > 0 {
			taken += want.TrainEnergy.Package.Joules
		}
		if want.Cost.DeviceSeconds > 0 {
			near("joules", joules, taken)
			near("joules of calls", callJoules, taken)
		}
	}
}

func checkPprof(t *testing.T, p ledger.Profile) {
	t.Helper()
	var text bytes.Buffer
	if err := ledger.WritePprof(&text, []ledger.Profile{p}); err != nil {
		t.Fatal(err)
	}
	back, err := profile.Parse(&text)
	if err != nil {
		t.Fatal(err)
	}
	var sums [4]int64
	for _, s := range back.Sample {
		for i, v := range s.Value {
			sums[i] += v
		}
		if root := s.Location[len(s.Location)-1].Line[0].Function.Name; root != p.Name {
			t.Errorf("a stack begins with %q", root)
		}
	}
	if sums[1] != int64(p.Total.Kinds().Sum()) || sums[1] == 0 {
		t.Errorf("pprof has %d tokens of %d", sums[1], p.Total.Kinds().Sum())
	}
	// Each of twelve pieces of a unit is cut to whole nanoseconds.
	if off := math.Abs(p.Total.Spending.Wall*1e9 - float64(sums[0])); off > float64(12*p.Total.Units+1) {
		t.Errorf("pprof is off by %v ns", off)
	}
	if want := p.Total.Spending.Energy.Package.Joules; float64(sums[3]) != 1e3*want {
		t.Errorf("pprof has %d mJ of %v J", sums[3], want)
	}
}

func checkTrace(t *testing.T, p ledger.Profile) {
	t.Helper()
	var text bytes.Buffer
	if err := ledger.WriteTrace(&text, []ledger.Profile{p, p}); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Events []struct {
			Ph       string
			Ts, Dur  float64
			Pid, Tid int
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(text.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	ends := map[[2]int]float64{}
	for _, e := range back.Events {
		row := [2]int{e.Pid, e.Tid}
		if e.Ph != "X" {
			continue
		}
		if e.Ts < ends[row]-1e-3 {
			t.Errorf("row %v: an event at %v, before the end of the last at %v", row, e.Ts, ends[row])
		}
		ends[row] = e.Ts + e.Dur
	}
	for row, end := range ends {
		if row[1] < 3 && math.Abs(end-p.Total.Spending.Wall*1e6) > 1 {
			t.Errorf("row %v ends at %v, the run at %v", row, end, p.Total.Spending.Wall*1e6)
		}
	}
	if len(ends) != 6 {
		t.Errorf("rows %v", ends)
	}
}

// Phases have their scores around them, and gains add up to the run's.
func TestProfile_gains(t *testing.T) {
	_, records, _ := played(t, "whale")
	p := ledger.NewProfile("run", records)
	kinds, sum := "", 0.0
	for _, part := range p.Parts {
		kinds += string(part.Kind) + " "
		phase := part.Kind == engine.StepRecord || part.Kind == engine.SearchRecord
		gain, ok := part.Gain()
		if ok != phase {
			t.Errorf("cycle %d, %s: gain %v, %v", part.Cycle, part.Kind, gain, ok)
		}
		sum += gain
	}
	if kinds != "start step search step measure " {
		t.Errorf("parts %s", kinds)
	}
	if all, ok := p.Gain(); !ok || math.Abs(all-sum) > 1e-12 || all <= 0 {
		t.Errorf("gain %v, of the parts %v", all, sum)
	}
	begun := ledger.NewProfile("begun", records[:3]) // two steps, the phase is not over
	if _, ok := begun.Gain(); ok || len(begun.Parts) != 2 || begun.Parts[1].Units != 2 {
		t.Errorf("%+v", begun)
	}
	if empty := ledger.NewProfile("empty", nil); empty.Total.Units != 0 || len(empty.Parts) != 0 {
		t.Errorf("%+v", empty)
	}
}

// A prompt token is prefilled or cached, never both.
func TestKinds(t *testing.T) {
	total := ledger.Total{Spending: engine.Spending{Cost: engine.Cost{Prompt: 10, Cached: 7, Sampled: 5, Trained: 2, Forward: 99}}}
	if k := total.Kinds(); k != (ledger.Kinds{Prefill: 3, Cached: 7, Sampled: 5, Trained: 2}) || k.Sum() != 17 {
		t.Errorf("%+v, %d in all", k, k.Sum())
	}
}
