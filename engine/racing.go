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
	harness  Harness // of the incumbent only the id
	program  Program // nil for the incumbent until it is needed
	rollouts []*Trajectory
}

// runners are the incumbent with its rollouts and behind it the candidates.
func runners(incumbent HarnessID, played []*Trajectory, loaded []Harness, programs []Program) []runner {
	all := []runner{{harness: Harness{ID: incumbent}, rollouts: played}}
	for i, h := range loaded {
		all = append(all, runner{harness: h, program: programs[i]})
	}
	return all
}

// race plays the candidates (runners from 1 on) on growing parts of the select split, puts
// those out that can no longer win and accepts the winner. The incumbent's rollouts of this
// phase are there already; where it became the incumbent in a race that ended early, it is
// played on as far as the candidates come.
func (s *Site) race(ctx context.Context, u Unit, runners []runner, result *SearchResult) error {
	tasks := s.raceTasks(u)
	r := newRace(len(runners), len(tasks), s.Config.SelectSamples, s.Config.Racing, s.Config.AcceptP)
	report := &Race{Of: len(tasks), Flat: (len(runners) - 1) * len(tasks) * s.Config.SelectSamples}
	result.Report.Race = report
	s.meter.begin(report.Flat)
	for !r.over() {
		block := tasks[r.played : r.played+r.block()]
		if err := s.playBlock(ctx, u, r, runners, block, result); err != nil {
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
	s.settle(r, runners, tasks, result)
	return nil
}

// raceTasks are the select tasks in the random order of this phase.
func (s *Site) raceTasks(u Unit) []Task {
	place := func(t Task) uint64 { return hashSeed(s.Config.Seed, "race", string(t.ID), uint64(u.Cycle)) }
	return slices.SortedStableFunc(slices.Values(s.selectTasks()), func(a, b Task) int { return cmp.Compare(place(a), place(b)) })
}

// playBlock rolls out what is missing on the next tasks.
func (s *Site) playBlock(ctx context.Context, u Unit, r *race, runners []runner, block []Task, result *SearchResult) error {
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
			result.Report.Race.Incumbent += len(missing)
			if len(missing) > 0 && h.program == nil {
				program, err := s.Program(ctx, h.harness.ID)
				if err != nil {
					return err
				}
				h.program = program
			}
		}
		jobs = append(jobs, s.Jobs(h.harness.ID, h.program, missing, s.Config.SelectSamples, purposeOf(u))...)
	}
	ts, spending, err := s.rollouts(ctx, jobs)
	result.Spending = result.Spending.Add(spending)
	if err != nil {
		return err
	}
	for _, t := range ts {
		i := slices.IndexFunc(runners, func(h runner) bool { return h.harness.ID == t.Harness })
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
func (s *Site) settle(r *race, runners []runner, tasks []Task, result *SearchResult) {
	weights, report := s.Parts.Policy.Weights(), result.Report.Race
	best, lead := -1, r.leader()
	for i, candidate := range runners[1:] {
		l := r.lanes[i+1]
		lane := Lane{Tasks: l.tasks}
		if !r.in(i + 1) {
			lane.By = runners[l.by].harness.ID
		}
		report.Lanes = append(report.Lanes, lane)
		e := Entry{Harness: candidate.harness, Score: NewScore(tasks[:l.tasks], candidate.rollouts), Weights: weights}
		compared := Compare(candidate.rollouts, runners[0].rollouts)
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
	if best >= 0 {
		result.Report.Evaluated[best].Accepted = true
		result.Harness = runners[best+1].harness.ID
	}
}
