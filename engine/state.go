package engine

import "slices"

// Record is one line of a run's journal: a unit that was finished as a whole. It has no
// times, so runs with the same seed write the same journal.
type Record struct {
	Seq  int        `json:"seq"` // from 0
	Kind RecordKind `json:"kind"`
	// Cycle and Index say which unit it was, Last that it ended its phase.
	Cycle int  `json:"cycle,omitempty"`
	Index int  `json:"index,omitempty"`
	Last  bool `json:"last,omitempty"`

	Weights WeightsID `json:"weights"`           // in use after the unit
	Saved   string    `json:"saved,omitempty"`   // the folder that holds them; empty = not saved, can't resume here
	Harness HarnessID `json:"harness"`           // the incumbent after the unit
	Spent   int       `json:"spent"`             // rollouts of this unit
	File    string    `json:"file,omitempty"`    // name of its trajectories
	Step    *Step     `json:"step,omitempty"`    // of a weight phase
	Search  *Search   `json:"search,omitempty"`  // of a harness phase
	Measure *Measure  `json:"measure,omitempty"` // of the reporting after the run

	// Spending is what the unit cost. It has times, so it is kept in the ledger.
	Spending Spending `json:"-"`
}

// Spending is the cost of a unit: of its parts, added, and by the clock on the wall.
type Spending struct {
	Cost     Cost    `json:"cost"`
	Wall     float64 `json:"wall"`     // seconds from the unit's start to its commit
	Rollouts float64 `json:"rollouts"` // of these, with rollouts in flight
	Load     float64 `json:"load"`     // of these, loading harnesses and weights
	Save     float64 `json:"save"`     // of these, writing rollouts and weights
	Drain    float64 `json:"drain"`    // of Rollouts, after the last one was admitted
	Idle     Idle    `json:"idle"`     // of Rollouts, without a call at the policy
	// Energy is what the machine took in Wall, and of this in Rollouts and in updates.
	Energy        Energy `json:"energy,omitzero"`
	RolloutEnergy Energy `json:"rollout_energy,omitzero"`
	TrainEnergy   Energy `json:"train_energy,omitzero"`
}

// Add returns the sum of two spendings.
func (s Spending) Add(o Spending) Spending {
	return Spending{Cost: s.Cost.Add(o.Cost), Wall: s.Wall + o.Wall, Rollouts: s.Rollouts + o.Rollouts,
		Load: s.Load + o.Load, Save: s.Save + o.Save, Drain: s.Drain + o.Drain, Idle: s.Idle.Add(o.Idle),
		Energy: s.Energy.Add(o.Energy), RolloutEnergy: s.RolloutEnergy.Add(o.RolloutEnergy), TrainEnergy: s.TrainEnergy.Add(o.TrainEnergy)}
}

// RecordKind says what a record is about.
type RecordKind string

// A run starts once, then has steps and iterations, then measures.
const (
	StartRecord   RecordKind = "start"
	StepRecord    RecordKind = "step"
	SearchRecord  RecordKind = "search"
	MeasureRecord RecordKind = "measure"
)

// Step reports one RSFT step.
type Step struct {
	Epoch     int     `json:"epoch"`    // of the training tasks, from 0
	Accepted  int     `json:"accepted"` // rollouts with reward > 0.5
	Counted   int     `json:"counted"`  // rollouts that the host did not lose
	Mean      float64 `json:"mean"`     // reward over the counted
	Sequences int     `json:"sequences"`
	Truncated int     `json:"truncated"` // of these, ending in a call that a limit cut
	Updates   int     `json:"updates"`   // optimizer steps made
	Skipped   int     `json:"skipped"`   // optimizer steps that changed nothing
	Tokens    int     `json:"tokens"`    // in the loss
	NLL       float64 `json:"nll"`       // per trained token, before each update
	GradNorm  float64 `json:"grad_norm"` // of the first update, before clipping
	// Drift is the mean |log-prob of learner - log-prob of policy| of the first update,
	// where both have the same weights: anything but rounding is a fault.
	Drift    float64 `json:"drift"`
	DriftMax float64 `json:"drift_max"` // the largest of them
	// Of a policy gradient: the mean KL estimate, before each update, and the tokens whose
	// ratio had left the trust region.
	KL      float64 `json:"kl,omitempty"`
	Clipped int     `json:"clipped,omitempty"`
}

// Search reports one iteration of the harness search.
type Search struct {
	Evaluated  []Entry      `json:"evaluated"`  // the incumbent at the first iteration, then candidates
	Compared   []Comparison `json:"compared"`   // with the incumbent, one per candidate; none at the first iteration
	Rejected   []Rejection  `json:"rejected"`   // proposed, but could not be run
	Detectable float64      `json:"detectable"` // smallest gain that this size of comparison would find
	// Failed is the proposer's latest error: the iteration is spent all the same, with the
	// candidates that it had made before, if any. Spent says that its budget was the cause.
	Failed string `json:"failed,omitempty"`
	Spent  bool   `json:"spent,omitempty"`
	// Repairs is how many times refused candidates went back to the proposer.
	Repairs int `json:"repairs,omitempty"`
	// Race says who was played on what; nil = all candidates on all select tasks.
	Race *Race `json:"race,omitempty"`
}

// fruitless tells that the proposer failed and nothing came of the iteration.
func (s *Search) fruitless() bool {
	return s.Failed != "" && !s.Spent && len(s.Evaluated)+len(s.Rejected) == 0
}

// Measure reports one point of the curve, after the run.
type Measure struct {
	Point int   `json:"point"` // index in State.Points
	Split Split `json:"split"`
	Score Score `json:"score"`
}

// State is where a run stands: the fold of its records.
type State struct {
	Records int
	Phases  int // finished
	InPhase int // units finished in the phase that is not
	Steps   int // update steps in all

	Weights WeightsID
	Saved   string
	Harness HarnessID
	Spent   Spent

	// For schedules that depend on what came out.
	Before  Spent     // spent when the phase began
	Means   []float64 // rewards of this weight phase's steps
	Since   int       // iterations of this harness phase since its incumbent came
	Failing int       // iterations in a row that the proposer failed
	Failure string    // what the first of these was
	Reached float64   // latest success rate: of a step, or of the incumbent

	Entries  []Entry     // in the order of their first evaluation, with the latest score
	Rejected []Rejection // of this harness phase
	Baseline []string    // files with the incumbent's select rollouts in this phase; none = not yet evaluated
	Short    int         // select tasks of this phase that the incumbent was not played on, since it won its race before
	Phase    []HarnessID // evaluated in this phase
	Points   []Point
	Measured []Measure
	Total    Spending // of all units
}

// Spent counts rollouts by what they were for.
type Spent struct {
	Weight  int `json:"weight"`
	Harness int `json:"harness"`
	Test    int `json:"test"`
}

func (s Spent) of(k PhaseKind) int {
	if k == WeightKind {
		return s.Weight
	}
	return s.Harness
}

// Point is a pair of weights and harness that the curve shows: the start and the end of
// every phase.
type Point struct {
	Cycle    int       `json:"cycle"` // 0 = start
	After    PhaseKind `json:"after"` // empty = start
	Weights  WeightsID `json:"weights"`
	Saved    string    `json:"saved"`
	Harness  HarnessID `json:"harness"`
	Rollouts int       `json:"rollouts"` // spent on training and search until then
}

// Fold replays a journal.
func Fold(records []Record) State {
	var s State
	for _, r := range records {
		s.apply(r)
	}
	return s
}

// Resumable is the number of leading records after which the run can go on: up to the
// last one whose weights are in a folder.
func Resumable(records []Record) int {
	for n := len(records); n > 0; n-- {
		if records[n-1].Saved != "" {
			return n
		}
	}
	return 0
}

// apply advances the state by one record.
func (s *State) apply(r Record) {
	s.Records++
	s.Total = s.Total.Add(r.Spending)
	s.Weights, s.Saved = r.Weights, r.Saved
	switch r.Kind {
	case StartRecord:
		s.Harness = r.Harness
		s.Points = append(s.Points, s.point(r, ""))
		return
	case StepRecord:
		s.Spent.Weight += r.Spent
		s.Steps++
		s.Means = append(s.Means, r.Step.Mean)
		s.Reached = r.Step.Mean
	case SearchRecord:
		s.Spent.Harness += r.Spent
		s.applySearch(r)
	case MeasureRecord:
		s.Spent.Test += r.Spent
		s.Measured = append(s.Measured, *r.Measure)
		return
	}
	s.InPhase++
	if !r.Last {
		return
	}
	kind := WeightKind
	if r.Kind == SearchRecord {
		kind = HarnessKind
	}
	s.Points = append(s.Points, s.point(r, kind))
	s.Phases++
	s.InPhase = 0
	s.Rejected, s.Phase, s.Baseline, s.Short = nil, nil, nil, 0
	s.Before, s.Means, s.Since = s.Spent, nil, 0
}

// after is the state after one more unit, which need not be the one that follows: nothing
// is shared with s that it would change.
func (s State) after(r Record) State {
	r.Last = false
	s.Entries, s.Rejected, s.Phase = slices.Clone(s.Entries), slices.Clip(s.Rejected), slices.Clip(s.Phase)
	s.Means = slices.Clip(s.Means)
	s.apply(r)
	return s
}

func (s *State) applySearch(r Record) {
	s.Since++
	if r.Index == 1 || r.Harness != s.Harness {
		s.Since = 0
	}
	switch {
	case r.Search.Spent:
	case r.Search.fruitless():
		if s.Failing++; s.Failing == 1 {
			s.Failure = r.Search.Failed
		}
	case r.Index > 1:
		s.Failing, s.Failure = 0, ""
	}
	switch {
	case r.Index == 1 || r.Harness != s.Harness:
		s.Baseline, s.Short = []string{r.File}, r.Search.short()
	case r.Search.Race != nil && r.Search.Race.Incumbent > 0:
		s.Baseline = append(s.Baseline[:len(s.Baseline):len(s.Baseline)], r.File)
		s.Short -= r.Search.Race.Incumbent
	}
	s.Harness = r.Harness
	s.Rejected = append(s.Rejected, r.Search.Rejected...)
	for _, e := range r.Search.Evaluated {
		if e.Harness.ID == s.Harness {
			s.Reached = e.Score.Mean
		}
		s.Phase = append(s.Phase, e.Harness.ID)
		known := false
		for i := range s.Entries {
			if s.Entries[i].Harness.ID == e.Harness.ID {
				e.Harness.Meta = s.Entries[i].Harness.Meta // where it came from first
				e.Accepted = e.Accepted || s.Entries[i].Accepted
				s.Entries[i], known = e, true
			}
		}
		if !known {
			s.Entries = append(s.Entries, e)
		}
	}
}

func (s *State) point(r Record, after PhaseKind) Point {
	return Point{Cycle: r.Cycle, After: after, Weights: r.Weights, Saved: r.Saved, Harness: s.Harness,
		Rollouts: s.Spent.Weight + s.Spent.Harness}
}
