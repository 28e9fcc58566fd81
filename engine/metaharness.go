package engine

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"
)

// MetaHarness is the harness phase of the paper: a proposer reads the archive and writes
// candidates, the engine evaluates them on the select split under the weights in use and
// keeps what is strictly better. The first iteration of a phase evaluates the incoming
// harness; all evaluations of a phase share tasks and seeds, and each phase has its own
// seeds, so luck in one phase does not carry over.
type MetaHarness struct{ Site *Site }

// How many trajectories a proposer is shown.
const (
	shownFailures  = 24
	shownSuccesses = 6
)

// Iterate makes one iteration.
func (m MetaHarness) Iterate(ctx context.Context, u Unit, s State) (result SearchResult, err error) {
	if u.Index == 1 {
		return m.evaluateIncumbent(ctx, u, s)
	}
	incumbent, err := m.Site.Archived(s.Baseline, s.Harness)
	if err != nil {
		return SearchResult{}, err
	}
	result.Harness = s.Harness
	if err := m.propose(ctx, u, s, incumbent, &result); err != nil {
		return SearchResult{}, err
	}
	loaded, programs, err := m.loadAll(ctx, s, &result)
	defer func() {
		for _, p := range programs {
			err = errors.Join(err, Fail(AtSandbox, "candidate", p.Close()))
		}
	}()
	if err != nil {
		return SearchResult{}, err
	}
	if err := m.evaluate(ctx, u, loaded, programs, &result); err != nil {
		return SearchResult{}, err
	}
	m.choose(incumbent, loaded, &result)
	return result, nil
}

func (m MetaHarness) tasks() []Task {
	all := m.Site.Parts.Domain.Select
	return all[:limited(all, m.Site.Config.SelectTasks)]
}

func purposeOf(u Unit) string { return fmt.Sprintf("select/%d", u.Cycle) }

func (m MetaHarness) evaluateIncumbent(ctx context.Context, u Unit, s State) (SearchResult, error) {
	h, err := m.Site.Parts.Store.Harness(s.Harness)
	if err != nil {
		return SearchResult{}, AtArchive.wrap(string(s.Harness), err)
	}
	program, err := m.Site.Program(ctx, s.Harness)
	if err != nil {
		return SearchResult{}, err
	}
	result := SearchResult{Harness: s.Harness}
	if err := m.evaluate(ctx, u, []Harness{h}, []Program{program}, &result); err != nil {
		return SearchResult{}, err
	}
	result.Report.Evaluated[0].Accepted = true
	return result, nil
}

// propose asks for candidates and names them by their content, whatever the proposer
// calls them.
func (m MetaHarness) propose(ctx context.Context, u Unit, s State, incumbent []*Trajectory, result *SearchResult) error {
	brief, err := m.brief(u, s, incumbent)
	if err != nil {
		return err
	}
	begin := time.Now()
	var proposed []Harness
	err = guard(AtHarness, "proposer", func() (err error) {
		proposed, err = m.Site.Parts.Proposer.Propose(ctx, brief)
		return err
	})
	result.Spending.Cost.ProposeSeconds = time.Since(begin).Seconds()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return AtHarness.wrap("proposer", err)
	}
	for _, h := range proposed[:min(len(proposed), brief.Slots)] {
		h.Meta.Cycle, h.Meta.Iteration = u.Cycle, u.Index
		result.Proposed = append(result.Proposed, NewHarness(h.Source, h.Meta))
	}
	return nil
}

func (m MetaHarness) brief(u Unit, s State, incumbent []*Trajectory) (Brief, error) {
	d := m.Site.Parts.Domain
	b := Brief{Domain: d.Name, Skill: d.Skill, Cycle: u.Cycle, Iteration: u.Index,
		Slots:     m.Site.Config.Candidates,
		Seed:      hashSeed(m.Site.Config.Seed, "propose", "", uint64(u.Cycle), uint64(u.Index)),
		Incumbent: s.Harness, Folder: m.Site.Parts.Store.Folder()}
	for _, e := range s.Entries {
		h, err := m.Site.Parts.Store.Harness(e.Harness.ID)
		if err != nil {
			return Brief{}, AtArchive.wrap(string(e.Harness.ID), err)
		}
		e.Harness.Source = h.Source
		b.Entries = append(b.Entries, e)
	}
	for _, r := range s.Rejected {
		h, err := m.Site.Parts.Store.Harness(r.Harness.ID)
		if err != nil {
			return Brief{}, AtArchive.wrap(string(r.Harness.ID), err)
		}
		r.Harness.Source = h.Source
		b.Rejected = append(b.Rejected, r)
	}
	b.Failures, b.Successes = contrast(incumbent)
	return b, nil
}

// contrast picks failures, worst first, and a few successes, best first, otherwise in
// the order of the tasks.
func contrast(ts []*Trajectory) (failures, successes []*Trajectory) {
	for _, t := range ts {
		switch {
		case t.Outcome == Infra:
		case t.Verdict.Reward > threshold:
			successes = append(successes, t)
		default:
			failures = append(failures, t)
		}
	}
	sort.SliceStable(failures, func(i, j int) bool { return failures[i].Verdict.Reward < failures[j].Verdict.Reward })
	sort.SliceStable(successes, func(i, j int) bool { return successes[i].Verdict.Reward > successes[j].Verdict.Reward })
	return failures[:min(len(failures), shownFailures)], successes[:min(len(successes), shownSuccesses)]
}

// loadAll loads what can be loaded; the rest goes back to the proposer next time. The
// programs are the caller's to close, on an error too.
func (m MetaHarness) loadAll(ctx context.Context, s State, result *SearchResult) (loaded []Harness, programs []Program, err error) {
	seen := map[HarnessID]bool{}
	for _, id := range s.Phase {
		seen[id] = true
	}
	for _, h := range result.Proposed {
		if seen[h.ID] {
			result.Report.Rejected = append(result.Report.Rejected, Rejection{h, LoadError{Rule: "duplicate",
				Reason: "this source was already evaluated in this phase", Hint: "change what it does"}})
			continue
		}
		seen[h.ID] = true
		program, err := m.Site.load(ctx, h)
		var refused *LoadError
		switch {
		case errors.As(err, &refused):
			result.Report.Rejected = append(result.Report.Rejected, Rejection{h, *refused})
			continue
		case err != nil:
			return nil, programs, err
		}
		loaded, programs = append(loaded, h), append(programs, program)
	}
	return loaded, programs, nil
}

// evaluate rolls out harnesses on the select tasks, all in one pool so that the policy's
// batches are full.
func (m MetaHarness) evaluate(ctx context.Context, u Unit, hs []Harness, programs []Program, result *SearchResult) error {
	tasks := m.tasks()
	var jobs []Job
	for i, h := range hs {
		jobs = append(jobs, m.Site.Jobs(h.ID, programs[i], tasks, m.Site.Config.SelectSamples, purposeOf(u))...)
	}
	ts, spending, err := m.Site.Rollouts(ctx, jobs)
	if err != nil {
		return err
	}
	result.Rollouts = ts
	result.Spending = result.Spending.Add(spending)
	weights := m.Site.Parts.Policy.Weights()
	for i, h := range hs {
		per := len(tasks) * m.Site.Config.SelectSamples
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
func (m MetaHarness) choose(incumbent []*Trajectory, loaded []Harness, result *SearchResult) {
	c := m.Site.Config
	best, gain := -1, 0.0
	for i, h := range loaded {
		per := len(result.Rollouts) / len(loaded)
		compared := Compare(result.Rollouts[i*per:(i+1)*per], incumbent)
		result.Report.Compared = append(result.Report.Compared, compared)
		covered := result.Report.Evaluated[i].Score.Coverage >= c.Coverage
		if covered && compared.Gain > gain && compared.P <= c.AcceptP {
			best, gain = i, compared.Gain
			result.Harness = h.ID
		}
	}
	if best >= 0 {
		result.Report.Evaluated[best].Accepted = true
	}
}
