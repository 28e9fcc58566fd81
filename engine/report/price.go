package report

import (
	"fmt"

	"github.com/seed-7c27e6b8/whale/engine"
)

// proposalRow is what a phase spent at the proposer's service.
type proposalRow struct {
	Where                 string
	Calls                 int
	Input, Cached, Output int
	Dollars               string
	Seconds               float64
}

// dollars prints money; what could not be priced makes it a lower bound.
func dollars(c engine.ProposalCost) string {
	text := fmt.Sprintf("%.2f", c.Dollars)
	if c.Dollars > 0 && c.Dollars < 1 {
		text = fmt.Sprintf("%.4f", c.Dollars)
	}
	switch {
	case c.Unpriced == 0:
		return text
	case c.Dollars == 0:
		return missing
	}
	return "≥ " + text
}

// proposalsOf is what all phases together spent at the proposer's service.
func proposalsOf(t timeline) (all engine.ProposalCost) {
	for _, s := range t.spans {
		all = all.Add(s.Spending.Cost.Proposal)
	}
	return all
}

// viewProposals lists phases that asked a service and, last, all of them; nothing when none did.
func viewProposals(phases []phaseRow, total engine.Spending) (rows []proposalRow) {
	row := func(where string, c engine.ProposalCost) {
		if c.Calls > 0 {
			rows = append(rows, proposalRow{where, c.Calls, c.Input, c.Cached, c.Output, dollars(c), c.Seconds})
		}
	}
	for _, p := range phases {
		row("cycle "+p.Cycle, p.Spending.Cost.Proposal)
	}
	row("all", total.Cost.Proposal)
	return rows
}

// foretoldRow sets what was foretold beside what came.
type foretoldRow struct {
	Name, Foretold, Taken, Off string
}

// viewForetold compares the estimate made before a run with the run; a run that goes on has
// nothing to be compared with yet.
func viewForetold(s engine.Summary, ended bool) (rows []foretoldRow, basis string) {
	e := s.Estimate
	if e == nil {
		return nil, ""
	}
	row := func(name string, want, got float64, print func(float64) string) {
		r := foretoldRow{Name: name, Foretold: print(want), Taken: print(got), Off: missing}
		if ended && got > 0 {
			r.Off = fmt.Sprintf("%+.0f %%", 100*(want/got-1))
		}
		rows = append(rows, r)
	}
	whole := func(v float64) string { return count(int(v)) }
	row("rollouts", float64(e.Rollouts), float64(s.Rollouts.Weight+s.Rollouts.Harness+s.Rollouts.Test), whole)
	row("tokens sampled", float64(e.Tokens.Sampled), float64(s.Tokens.Sampled), compact)
	row("tokens trained", float64(e.Tokens.Trained), float64(s.Tokens.Trained), compact)
	row("seconds", e.Seconds, s.Seconds.Total, seconds)
	if e.Joules != nil && s.Joules != nil {
		row("joules", *e.Joules, *s.Joules, compact)
	}
	return rows, oneLine(first(e.Basis, 200))
}
