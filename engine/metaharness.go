package engine

import (
	"context"
	"sort"
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
func (m MetaHarness) Iterate(ctx context.Context, u Unit, s State) (SearchResult, error) {
	return m.Site.iterate(ctx, u, s, func(incumbent []*Trajectory) (Brief, error) {
		return m.brief(u, s, incumbent)
	})
}

// brief tells all that the archive has.
func (m MetaHarness) brief(u Unit, s State, incumbent []*Trajectory) (Brief, error) {
	b := m.Site.brief(u, s, incumbent)
	b.Folder = m.Site.Parts.Store.Folder()
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
	return b, nil
}

// brief is what every proposer is told: the task it has and how the incumbent fares.
func (s *Site) brief(u Unit, state State, incumbent []*Trajectory) Brief {
	d := s.Parts.Domain
	b := Brief{Domain: d.Name, Skill: d.Skill, Cycle: u.Cycle, Iteration: u.Index,
		Slots:       s.Config.Candidates,
		Seed:        hashSeed(s.Config.Seed, "propose", "", uint64(u.Cycle), uint64(u.Index)),
		PromptsOnly: Conditions[s.Config.Condition].PromptsOnly,
		Incumbent:   state.Harness}
	if b.PromptsOnly {
		b.Skill += promptsOnlyRule
	}
	b.Failures, b.Successes = contrast(incumbent)
	return b
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
