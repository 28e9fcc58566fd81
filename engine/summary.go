package engine

import (
	"cmp"
	"math"
)

// Summary is a run's result, summary.json in its folder. Means are in [0,1].
type Summary struct {
	Domain    string `json:"domain"`
	Condition string `json:"condition"`
	Seed      uint64 `json:"seed"`
	Cycles    int    `json:"cycles"` // begun
	Model     string `json:"model"`
	Device    string `json:"device"`
	Precision string `json:"precision"`      // of matrix products
	Int8      bool   `json:"int8,omitempty"` // generation was in 8 bits
	Test      Heads  `json:"test"`
	// Select are the same points on the select split with fresh seeds, and Gap is how much
	// better each looks there than on the test. The start's gap is a difference of the two
	// splits; what the others have beyond it was fitted to the select tasks. N is 0 where
	// nothing was measured.
	Select Heads `json:"select"`
	Gap    Heads `json:"select_test_gap"`
	// LuckAccepts is the most iterations, as a share, that accept a candidate which is only
	// as good as the incumbent: see Config.LuckAccepts. 0 = nothing was searched.
	LuckAccepts float64 `json:"luck_accepts"`
	// BaselineSameTokens: the start's weights and harness, voting with as many sampled
	// tokens per task as the final point needs.
	BaselineSameTokens Interval       `json:"baseline_same_tokens"`
	Rollouts           Spent          `json:"rollouts"`
	Tokens             SummaryTokens  `json:"tokens"`
	Seconds            SummarySeconds `json:"seconds"`
	Joules             *float64       `json:"joules"`   // null = not measured
	Coverage           float64        `json:"coverage"` // of the final test score
	Unparsed           float64        `json:"unparsed"`
	Estimate           *Estimate      `json:"estimate,omitempty"` // before the run; absent = none was made
	WeightsID          WeightsID      `json:"weights_id"`
	HarnessID          HarnessID      `json:"harness_id"`
}

// Heads are the three points of the curve that a result is told by.
type Heads struct {
	Start Interval `json:"start"`
	Best  Interval `json:"best"` // at the point that the select split chose
	Final Interval `json:"final"`
}

// Interval is a mean over n tasks with its 95 % interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
	N    int     `json:"n"`
}

// SummaryTokens are counts over the whole run.
type SummaryTokens struct {
	Prompt  int `json:"prompt"`
	Cached  int `json:"cached"`
	Sampled int `json:"sampled"`
	Trained int `json:"trained"`
}

// SummarySeconds are times over the whole run, all processes that worked on it together.
// Total, Rollout, Train and Propose are by the clock; Sandbox and Verify are sums over
// rollouts, which overlap. Idle is the part of Total in none of the four.
type SummarySeconds struct {
	Total   float64 `json:"total"`
	Rollout float64 `json:"rollout"`
	Sandbox float64 `json:"sandbox"`
	Train   float64 `json:"train"`
	Propose float64 `json:"propose"`
	Verify  float64 `json:"verify"`
	Idle    float64 `json:"idle"`
}

// Tokens are a cost's counts.
func (c Cost) Tokens() SummaryTokens {
	return SummaryTokens{Prompt: c.Prompt, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained}
}

// Seconds are a spending's times.
func (s Spending) Seconds() SummarySeconds {
	c := s.Cost
	return SummarySeconds{Total: s.Wall, Rollout: s.Rollouts, Sandbox: c.SandboxSeconds, Train: c.TrainSeconds, Propose: c.ProposeSeconds,
		Verify: c.VerifySeconds, Idle: max(0, s.Wall-s.Rollouts-c.TrainSeconds-c.ProposeSeconds)}
}

// CurvePoint is one point of accuracy against rollouts spent.
type CurvePoint struct {
	Point
	Select *Score // nil = not measured
	Test   *Score
	Best   bool
}

// Curve is the accuracy of the start and after every phase.
func (s *State) Curve() []CurvePoint {
	curve := make([]CurvePoint, len(s.Points))
	for i, p := range s.Points {
		curve[i] = CurvePoint{Point: p, Select: s.score(i, Select), Test: s.score(i, Test), Best: i == s.Best()}
	}
	return curve
}

// finish writes the summary.
func (r *run) finish() (*Summary, error) {
	s := &r.state
	c := r.Config
	out := &Summary{Domain: c.Domain, Condition: c.Condition, Seed: c.Seed, Model: c.Model, Device: c.Device, Precision: cmp.Or(c.Compute.Precision, "float32"), Int8: c.Compute.Int8,
		Cycles: s.Points[len(s.Points)-1].Cycle, Rollouts: s.Spent, WeightsID: s.Weights, HarnessID: s.Harness}
	if final := s.score(len(s.Points)-1, Test); final != nil {
		out.Test, out.Select = s.heads(Test), s.heads(Select)
		out.Gap = Heads{gap(out.Select.Start, out.Test.Start), gap(out.Select.Best, out.Test.Best), gap(out.Select.Final, out.Test.Final)}
		out.Coverage, out.Unparsed = final.Coverage, final.Unparsed
		start, err := r.Archived(firstFile(0, Test), s.Points[0].Harness)
		if err != nil {
			return nil, err
		}
		baseline := SameTokens(r.measureTasks(Test), start, final.Tokens)
		out.BaselineSameTokens = baseline.Interval()
	}
	if Conditions[c.Condition].has(HarnessKind) {
		out.LuckAccepts = c.LuckAccepts()
	}
	out.Tokens, out.Seconds = s.Total.Cost.Tokens(), s.Total.Seconds()
	out.Joules, out.Estimate = s.Total.Energy.Total(), r.Parts.Estimate
	if err := r.Parts.Store.PutSummary(out); err != nil {
		return nil, AtArchive.wrap("summary", err)
	}
	r.meter.now.Stage = StageDone
	r.meter.tell()
	return out, nil
}

// heads are the scores at the three points on one split.
func (s *State) heads(split Split) Heads {
	return Heads{s.score(0, split).Interval(), s.score(s.Best(), split).Interval(), s.score(len(s.Points)-1, split).Interval()}
}

// Interval is the score in short; of nil, which was not measured, one of no tasks.
func (s *Score) Interval() Interval {
	if s == nil {
		return Interval{}
	}
	return Interval{Mean: s.Mean, Lo: s.Lo, Hi: s.Hi, N: s.N}
}

// gap is the difference of two means over different tasks; its interval adds the two sides'
// squares (Newcombe 1998, method 10).
func gap(chosen, test Interval) Interval {
	if chosen.N == 0 || test.N == 0 {
		return Interval{}
	}
	d := chosen.Mean - test.Mean
	return Interval{Mean: d, N: min(chosen.N, test.N),
		Lo: d - math.Hypot(chosen.Mean-chosen.Lo, test.Hi-test.Mean),
		Hi: d + math.Hypot(chosen.Hi-chosen.Mean, test.Mean-test.Lo)}
}

// LuckAccepts bounds the share of search iterations that accept a candidate although all
// of them are only as good as the incumbent: each passes accept_p by luck at most so often,
// and of equals the incumbent is as likely to be in front as any.
func (c Config) LuckAccepts() float64 {
	m := float64(c.Candidates)
	return min(m*c.AcceptP, m/(m+1))
}
