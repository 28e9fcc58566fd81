package engine

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Race reports how the candidates of an iteration raced (Config.Racing).
type Race struct {
	// Tasks are the select tasks that were played, in their order: each lane has the first
	// Lane.Tasks of them.
	Tasks []TaskID `json:"tasks"`
	Of    int      `json:"of"`    // select tasks in all
	Lanes []Lane   `json:"lanes"` // one per entry of Search.Evaluated
	// Incumbent is on how many further tasks the incumbent was played to race on.
	Incumbent int `json:"incumbent,omitempty"`
	Flat      int `json:"flat"` // rollouts that evaluating the candidates on all tasks would have taken
}

// Lane is one candidate's race.
type Lane struct {
	Tasks int       `json:"tasks"`
	By    HarnessID `json:"by,omitempty"` // the harness that put it out; empty = none
}

// short is the number of select tasks that an accepted candidate was not played on.
func (s *Search) short() int {
	for i, e := range s.Evaluated {
		if e.Accepted && s.Race != nil {
			return s.Race.Of - s.Race.Lanes[i].Tasks
		}
	}
	return 0
}

// runner is a harness in a race.
type runner struct {
	id       HarnessID
	program  Program // nil for the incumbent until it is needed
	rollouts []*Trajectory
}

// race plays the candidates on growing parts of the select split, puts those out that can
// no longer win and accepts the winner. The incumbent's rollouts of this phase are there
// already; where it became the incumbent in a race that ended early, it is played on as
// far as the candidates come.
func (s *Site) race(ctx context.Context, u Unit, incumbent []*Trajectory, loaded []Harness, programs []Program, state State, result *SearchResult) error {
	tasks := s.raceTasks(u)
	r := newRace(1+len(loaded), len(tasks), s.Config.SelectSamples, s.Config.Racing, s.Config.AcceptP)
	runners := []runner{{id: state.Harness, rollouts: incumbent}}
	for i, h := range loaded {
		runners = append(runners, runner{id: h.ID, program: programs[i]})
	}
	report := &Race{Of: len(tasks), Flat: len(loaded) * len(tasks) * s.Config.SelectSamples}
	s.meter.begin(report.Flat)
	for !r.over() {
		block := tasks[r.played : r.played+r.block()]
		if err := s.playBlock(ctx, u, r, runners, block, result, report); err != nil {
			return err
		}
		rewards := make([][][]float64, len(runners))
		for i := range runners {
			rewards[i] = runners[i].rewards(block, s.Config.SelectSamples)
		}
		r.play(rewards)
		for _, t := range block {
			report.Tasks = append(report.Tasks, t.ID)
		}
	}
	s.settle(r, runners, loaded, tasks, result, report)
	return nil
}

// raceTasks are the select tasks in the random order of this phase.
func (s *Site) raceTasks(u Unit) []Task {
	place := func(t Task) uint64 { return hashSeed(s.Config.Seed, "race", string(t.ID), uint64(u.Cycle)) }
	return slices.SortedStableFunc(slices.Values(s.selectTasks()), func(a, b Task) int { return cmp.Compare(place(a), place(b)) })
}

// playBlock rolls out what is missing on the next tasks.
func (s *Site) playBlock(ctx context.Context, u Unit, r *race, runners []runner, block []Task, result *SearchResult, report *Race) error {
	var jobs []Job
	for i := range runners {
		h := &runners[i]
		if !r.in(i) {
			continue
		}
		missing := block
		if i == 0 {
			missing = slices.DeleteFunc(slices.Clone(block), func(t Task) bool {
				return slices.ContainsFunc(h.rollouts, func(o *Trajectory) bool { return o.Task == t.ID })
			})
			report.Incumbent += len(missing)
			if len(missing) > 0 && h.program == nil {
				program, err := s.Program(ctx, h.id)
				if err != nil {
					return err
				}
				h.program = program
			}
		}
		jobs = append(jobs, s.Jobs(h.id, h.program, missing, s.Config.SelectSamples, purposeOf(u))...)
	}
	ts, spending, err := s.rollouts(ctx, jobs)
	result.Spending = result.Spending.Add(spending)
	if err != nil {
		return err
	}
	for _, t := range ts {
		i := slices.IndexFunc(runners, func(h runner) bool { return h.id == t.Harness })
		runners[i].rollouts = append(runners[i].rollouts, t)
	}
	result.Rollouts = append(result.Rollouts, ts...)
	return nil
}

// rewards are those of some tasks by sample, NaN where there is none.
func (h *runner) rewards(tasks []Task, samples int) [][]float64 {
	out := make([][]float64, len(tasks))
	for i, task := range tasks {
		out[i] = make([]float64, samples)
		for k := range out[i] {
			out[i][k] = math.NaN()
		}
		for _, t := range h.rollouts {
			if t.Task == task.ID && t.Sample < samples && t.Outcome != Infra {
				out[i][t.Sample] = t.Verdict.Reward
			}
		}
	}
	return out
}

// settle reports the lanes and accepts the winner, if it is no incumbent and keeps the
// floors that hold without racing too.
func (s *Site) settle(r *race, runners []runner, loaded []Harness, tasks []Task, result *SearchResult, report *Race) {
	weights := s.Parts.Policy.Weights()
	best, lead := -1, r.leader()
	for i, h := range loaded {
		l := r.lanes[i+1]
		lane := Lane{Tasks: l.tasks}
		if !r.in(i + 1) {
			lane.By = runners[l.by].id
		}
		report.Lanes = append(report.Lanes, lane)
		own := runners[i+1].rollouts
		e := Entry{Harness: h, Score: NewScore(tasks[:l.tasks], own), Weights: weights}
		compared := Compare(own, runners[0].rollouts)
		compared.P = min(1, l.p())
		if i+1 == lead && e.Score.Coverage >= s.Config.Coverage && compared.Gain > 0 && compared.P <= s.Config.AcceptP {
			best = i
		}
		result.Report.Evaluated = append(result.Report.Evaluated, e)
		result.Report.Compared = append(result.Report.Compared, compared)
		if i == 0 {
			result.Report.Detectable = e.Score.Detectable()
		}
	}
	result.Report.Race = report
	if best >= 0 {
		result.Report.Evaluated[best].Accepted = true
		result.Harness = loaded[best].ID
	}
}
