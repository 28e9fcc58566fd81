package engine

import "context"

// TaskID is the content hash of what is public of a task: same question, same id.
type TaskID string

// Task is the public part of one problem. Its reference answer stays with the domain's
// World and never travels in this struct, so whatever holds a Task may show it.
type Task struct {
	ID     TaskID
	Domain string
	Input  string   // the question as a harness sees it
	Tags   []string // labels for tables in reports (hops, theme); a harness does not see them
}

// Split says what a task may be used for.
type Split string

// Train teaches the weights, Select chooses between harnesses, Test is only reported.
// The three never share a task.
const (
	Train  Split = "train"
	Select Split = "select"
	Test   Split = "test"
)

// Domain is a set of tasks with tools, limits and a verifier. Packages under bench
// build one; the engine only reads it.
type Domain struct {
	Name   string
	Tools  []ToolSpec
	Budget Budget
	// Tasks of each split, in a fixed order.
	Train, Select, Test []Task
	World               World
	// Seed is the harness h0 of this domain and Skill the advice for its proposers.
	Seed  string
	Skill string
	// Names are those of the data sets that the tasks come from. No candidate may hold one.
	Names []string
}

// Tasks returns the tasks of a split.
func (d *Domain) Tasks(s Split) []Task {
	switch s {
	case Train:
		return d.Train
	case Select:
		return d.Select
	case Test:
		return d.Test
	}
	return nil
}

// World is the living side of a domain: it starts the environment of one rollout and
// judges what came of it. It is used from many goroutines at once.
type World interface {
	// Start opens the tools for one rollout of a task.
	Start(task Task) (Environment, error)
	// Verify judges a finished trajectory. It reads the answering call's text and the
	// environment's record, never what the harness says about itself. It is pure.
	Verify(task Task, t *Trajectory) (Verdict, error)
}

// Environment serves the tool calls of one rollout, one at a time.
type Environment interface {
	// Tool runs one call. A mistake of the model or harness comes back as text or as
	// ErrTool; any other error is a fault of the host.
	Tool(ctx context.Context, call ToolCall) (string, error)
	// Record is the environment's own account of what happened (for chess: the moves
	// played), which the verifier trusts.
	Record() string
}

// ToolCall is one use of a tool.
type ToolCall struct {
	Name string
	Args string // a JSON object
	// Written is the text of the model's last reply. An environment whose calls are
	// moves refuses what the model did not write.
	Written string
}

// ToolSpec describes a tool to harness and model.
type ToolSpec struct {
	Name        string
	Description string
	Schema      string // JSON schema of the arguments
}

// Budget limits one rollout. The engine enforces it; an overrun ends the rollout as a
// recorded outcome and keeps the output so far.
type Budget struct {
	Tokens     int // assistant tokens in all
	CallTokens int // assistant tokens in one call, 0 = no own limit
	Turns      int // calls of Generate, a hard cap
	Tools      int // calls of tools
	LogBytes   int // bytes of log lines
}

// Verdict is the verifier's judgement.
type Verdict struct {
	Kind   VerdictKind `json:"kind"`
	Reward float64     `json:"reward"` // in [0,1]; accepted for training when > 0.5
	Answer string      `json:"answer"` // what was read from the model's text, for votes and reports
	// By names what decided where a domain has several ways to; "" where it has one.
	By string `json:"by,omitempty"`
}

// VerdictKind tells a wrong answer from one that could not be read.
type VerdictKind string

// The kinds of verdict.
const (
	Equal     VerdictKind = "equal"
	Different VerdictKind = "different"
	Unparsed  VerdictKind = "unparsed"
)
