package engine

import "context"

// Proposer writes candidates. It sees the archive, never a reference answer or a task
// of the test split.
type Proposer interface {
	// Propose fills up to Brief.Slots candidates. Fewer is no error. Candidates that
	// do not load come back in the next Brief as Rejections.
	Propose(ctx context.Context, b Brief) ([]Harness, error)
}

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
	// Rejected are this phase's candidates that could not be loaded.
	Rejected []Rejection
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
