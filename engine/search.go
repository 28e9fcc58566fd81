package engine

import (
	"context"
	"errors"
)

// Proposer writes candidates. It sees the archive, never a reference answer or a task
// of the test split.
type Proposer interface {
	// Propose fills up to Brief.Slots candidates. Fewer is no error. Candidates that
	// do not load come back in the next Brief as Rejections.
	Propose(ctx context.Context, b Brief) ([]Harness, error)
}

// Spender is a Proposer that knows what it spends. The engine asks before and after each
// Propose, also of one that failed, and books the difference.
type Spender interface {
	// Spent is what all proposals cost so far. It only grows, and may be asked while
	// nothing is being proposed.
	Spent() ProposalCost
}

// ProposalCost is what a proposer spent on a service. Costs add.
type ProposalCost struct {
	Calls   int     `json:"calls"`   // requests that were answered
	Input   int     `json:"input"`   // prompt tokens, cached ones included
	Cached  int     `json:"cached"`  // of these, read from the service's cache
	Output  int     `json:"output"`  // tokens generated
	Dollars float64 `json:"dollars"` // money, as far as prices are known
	// Unpriced calls are not in Dollars, which is a lower bound then.
	Unpriced int     `json:"unpriced,omitempty"`
	Seconds  float64 `json:"seconds"` // waiting for the service, pauses before retries included
}

// Add returns the sum of two costs.
func (c ProposalCost) Add(o ProposalCost) ProposalCost { return c.with(o, 1) }

// Minus returns what was spent since an earlier reading.
func (c ProposalCost) Minus(earlier ProposalCost) ProposalCost { return c.with(earlier, -1) }

func (c ProposalCost) with(o ProposalCost, sign int) ProposalCost {
	c.Calls += sign * o.Calls
	c.Input += sign * o.Input
	c.Cached += sign * o.Cached
	c.Output += sign * o.Output
	c.Unpriced += sign * o.Unpriced
	c.Dollars += float64(sign) * o.Dollars
	c.Seconds += float64(sign) * o.Seconds
	return c
}

// ErrSpent: a proposer has used up its budget. The run goes on without new candidates;
// this is not the failure of a proposer that does not work.
var ErrSpent = errors.New("the proposer's budget is spent")

// Brief is what a proposer gets for one iteration.
type Brief struct {
	Domain    string
	Skill     string // SKILL.md of the domain: the tools, what helps, what is forbidden
	Cycle     int
	Iteration int // from 1 in this harness phase
	Slots     int
	// PromptsOnly: candidates that differ from the seed harness in more than the values
	// of its string constants are refused (see the function of this name).
	PromptsOnly bool
	Seed        uint64
	Incumbent   HarnessID
	// Entries are all harnesses of the run so far in the order they were evaluated, the
	// incumbent among them.
	Entries []Entry
	// Failures are trajectories of the incumbent on select tasks under the current
	// weights, worst first, at most a few dozen; Successes a few for contrast.
	Failures, Successes []*Trajectory
	// Rejected are this phase's candidates that were refused, the latest last. Repair is
	// how many of these, at the end, were proposed in this iteration and came back: the
	// slots are theirs.
	Rejected []Rejection
	Repair   int
	// Folder holds the same as plain files, for programs: see package archive.
	Folder string
}

// Entry is one archived harness with its latest score on the select split.
type Entry struct {
	Harness  Harness   `json:"harness"`
	Score    Score     `json:"score"`
	Weights  WeightsID `json:"weights"` // weights the score was measured under
	Accepted bool      `json:"accepted"`
}

// Rejection is a candidate that was refused before it ran.
type Rejection struct {
	Harness Harness   `json:"harness"`
	Err     LoadError `json:"err"`
}
