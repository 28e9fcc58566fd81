package engine

import "time"

// Observer is told how a run goes on, one call at a time, from the run's goroutines; it
// must not block for long.
type Observer interface {
	Observe(p Progress)
}

// Progress is where a run is.
type Progress struct {
	Stage Stage
	Unit  Unit // zero outside of the two phases
	// Cycles that the budget is planned for; 0 when the condition has no fixed number.
	Cycles int
	// Point counts the measurements of StageMeasure from 1 to Points.
	Point, Points int

	Done, Jobs int     // rollouts of this unit
	Mean       float64 // reward over the counted ones so far
	// TokensPerSecond is the rate of sampling in this unit.
	TokensPerSecond float64

	Spent  Spent         // rollouts of the run, those of this unit not yet included
	Budget int           // of training and search
	Left   time.Duration // rough estimate to the end, 0 = not known yet

	// Finished is a unit that was committed just now, otherwise nil.
	Finished *Record
}

// Stage is a part of a run.
type Stage string

// The stages in order; weight and harness alternate.
const (
	StageStart   Stage = "start"
	StageWeight  Stage = "weight"
	StageHarness Stage = "harness"
	StageMeasure Stage = "measure"
	StageDone    Stage = "done"
)

// meter turns finished rollouts into progress.
type meter struct {
	observer Observer
	now      Progress
	began    time.Time // of this process's part of the run
	rollouts int       // finished in this process
	planned  int       // rollouts of the whole run, measuring included

	unit    time.Time
	tokens  int
	counted int
	reward  float64
}

// begin starts a unit of so many rollouts.
func (m *meter) begin(jobs int) {
	m.unit, m.tokens, m.counted, m.reward = time.Now(), 0, 0, 0
	m.now.Done, m.now.Jobs, m.now.Mean, m.now.TokensPerSecond = 0, jobs, 0, 0
	m.tell()
}

// rollout counts one finished rollout.
func (m *meter) rollout(t *Trajectory) {
	m.rollouts++
	m.now.Done++
	m.tokens += t.Cost.Sampled
	if t.Outcome != Infra {
		m.counted++
		m.reward += t.Verdict.Reward
		m.now.Mean = m.reward / float64(m.counted)
	}
	m.now.TokensPerSecond = rate(m.tokens, time.Since(m.unit))
	m.tell()
}

// finished reports a committed unit.
func (m *meter) finished(r Record, s Spent) {
	m.now.Spent, m.now.Finished = s, &r
	m.now.Done, m.now.Jobs = 0, 0
	m.tell()
	m.now.Finished = nil
}

func (m *meter) tell() {
	if m.observer == nil {
		return
	}
	if left := m.planned - m.now.Spent.Weight - m.now.Spent.Harness - m.now.Spent.Test - m.now.Done; m.rollouts > 0 && left > 0 && m.now.Stage != StageDone {
		m.now.Left = time.Since(m.began) / time.Duration(m.rollouts) * time.Duration(left)
	} else {
		m.now.Left = 0
	}
	m.observer.Observe(m.now)
}

func rate(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
