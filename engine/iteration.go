package engine

import (
	"context"
	"errors"
	"fmt"
)

// iterate is one iteration of a search: at first the incumbent is evaluated, then
// candidates are asked for with a brief, loaded, evaluated and compared. What a search
// tells its proposer is all that searches differ in.
func (s *Site) iterate(ctx context.Context, u Unit, state State, brief func(incumbent []*Trajectory) (Brief, error)) (result SearchResult, err error) {
	if u.Index == 1 {
		return s.evaluateIncumbent(ctx, u, state)
	}
	incumbent, err := s.baseline(state)
	if err != nil {
		return SearchResult{}, err
	}
	b, err := brief(incumbent)
	if err != nil {
		return SearchResult{}, err
	}
	result.Harness = state.Harness
	loaded, programs, err := s.candidates(ctx, b, state, &result)
	defer func() {
		for _, p := range programs {
			err = errors.Join(err, Fail(AtSandbox, "candidate", p.Close()))
		}
	}()
	if err != nil {
		return SearchResult{}, err
	}
	if s.Config.Racing > 0 && len(loaded) > 0 {
		err = s.race(ctx, u, runners(state.Harness, incumbent, loaded, programs), &result)
		return result, err
	}
	if err := s.evaluate(ctx, u, loaded, programs, &result); err != nil {
		return SearchResult{}, err
	}
	s.choose(incumbent, loaded, &result)
	return result, nil
}

// baseline are the incumbent's rollouts in this phase.
func (s *Site) baseline(state State) ([]*Trajectory, error) {
	var all []*Trajectory
	for _, file := range state.Baseline {
		ts, err := s.Archived(file, state.Harness)
		if err != nil {
			return nil, err
		}
		all = append(all, ts...)
	}
	return all, nil
}

func (s *Site) selectTasks() []Task {
	all := s.Parts.Domain.Select
	return all[:limited(all, s.Config.SelectTasks)]
}

func purposeOf(u Unit) string { return fmt.Sprintf("select/%d", u.Cycle) }

func (s *Site) evaluateIncumbent(ctx context.Context, u Unit, state State) (SearchResult, error) {
	h, err := s.Parts.Store.Harness(state.Harness)
	if err != nil {
		return SearchResult{}, AtArchive.wrap(string(state.Harness), err)
	}
	program, err := s.Program(ctx, state.Harness)
	if err != nil {
		return SearchResult{}, err
	}
	result := SearchResult{Harness: state.Harness}
	if err := s.evaluate(ctx, u, []Harness{h}, []Program{program}, &result); err != nil {
		return SearchResult{}, err
	}
	result.Report.Evaluated[0].Accepted = true
	return result, nil
}

// evaluate rolls out harnesses on the select tasks, all in one pool so that the policy's
// batches are full.
func (s *Site) evaluate(ctx context.Context, u Unit, hs []Harness, programs []Program, result *SearchResult) error {
	tasks := s.selectTasks()
	var jobs []Job
	for i, h := range hs {
		jobs = append(jobs, s.Jobs(h.ID, programs[i], tasks, s.Config.SelectSamples, purposeOf(u))...)
	}
	ts, spending, err := s.Rollouts(ctx, jobs)
	if err != nil {
		return err
	}
	result.Rollouts = ts
	result.Spending = result.Spending.Add(spending)
	weights := s.Parts.Policy.Weights()
	for i, h := range hs {
		per := len(tasks) * s.Config.SelectSamples
		score := NewScore(tasks, ts[i*per:(i+1)*per])
		result.Report.Evaluated = append(result.Report.Evaluated, Entry{Harness: h, Score: score, Weights: weights})
		if i == 0 {
			result.Report.Detectable = score.Detectable()
		}
	}
	return nil
}

// choose accepts the best candidate if it is strictly better than the incumbent on the
// same tasks and seeds. Ties keep the incumbent, and among candidates the earlier one.
func (s *Site) choose(incumbent []*Trajectory, loaded []Harness, result *SearchResult) {
	best, gain := -1, 0.0
	for i, h := range loaded {
		per := len(result.Rollouts) / len(loaded)
		compared := Compare(result.Rollouts[i*per:(i+1)*per], incumbent)
		result.Report.Compared = append(result.Report.Compared, compared)
		covered := result.Report.Evaluated[i].Score.Coverage >= s.Config.Coverage
		if covered && compared.Gain > gain && compared.P <= s.Config.AcceptP {
			best, gain = i, compared.Gain
			result.Harness = h.ID
		}
	}
	if best >= 0 {
		result.Report.Evaluated[best].Accepted = true
	}
}
