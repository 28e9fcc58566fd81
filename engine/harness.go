package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// HarnessID is the content hash of a harness's source.
type HarnessID string

// Harness is one candidate: its source and where it came from.
type Harness struct {
	ID     HarnessID `json:"id"`
	Source string    `json:"-"`
	Meta   Meta      `json:"meta"`
}

// Meta is what a proposer says about a candidate. It never influences a score.
type Meta struct {
	Parents    []HarnessID `json:"parents,omitempty"`
	Hypothesis string      `json:"hypothesis,omitempty"` // one sentence: what should get better and why
	Axis       string      `json:"axis,omitempty"`       // which lever it moves: context, tools, parsing, recovery, stopping
	Proposer   string      `json:"proposer,omitempty"`
	Edits      []string    `json:"edits,omitempty"` // names of the edits that made it from its parents, so that a proposer can learn from its own past
	Cycle      int         `json:"cycle"`
	Iteration  int         `json:"iteration"`
}

// NewHarness names a source by its content.
func NewHarness(source string, meta Meta) Harness {
	sum := sha256.Sum256([]byte(source))
	return Harness{ID: HarnessID("h" + hex.EncodeToString(sum[:])[:16]), Source: source, Meta: meta}
}

// Sandbox makes candidates runnable. Its programs run anywhere but in this process's
// memory.
type Sandbox interface {
	// Load checks and loads a candidate. A candidate that can't run comes back as
	// *LoadError, which a proposer can act on; any other error is a fault of the host.
	Load(ctx context.Context, h Harness) (Program, error)
}

// Program is a loaded candidate. Run may be called from many goroutines; each call is a
// fresh sandbox, so no state passes from one rollout to the next.
type Program interface {
	// Run executes the harness against a host. It returns nil, *HarnessError (the
	// harness returned an error or panicked), *LimitError, or a fault of the host.
	Run(ctx context.Context, start Start, host Host) (GuestUse, error)
	// Close releases what Load took.
	Close() error
}

// GuestUse is what one run cost inside the sandbox.
type GuestUse struct {
	Seconds float64 // time in guest code, host calls excluded
	Fork    float64 // seconds to make the sandbox fresh before and after the run
	Pages   int     // memory pages the run dirtied
	Engine  string  // how the source ran: "interpret" or "compile"
}

// Start is what a session begins with inside the sandbox: the public task and limits.
type Start struct {
	Domain string
	Input  string
	Tools  []ToolSpec
	Budget Budget
}

// Host is what a running harness can reach: the engine's session, or a test's script.
// Calls come one at a time.
type Host interface {
	Generate(ctx context.Context, messages []Message, options GenerateOptions) ([]Reply, error)
	Tool(ctx context.Context, name, args string) (string, error)
	Note(ctx context.Context, n Note) error
}

// Message is one entry of a conversation as the harness sends it. Handle names the
// reply that it repeats unchanged; the session checks that claim.
type Message struct {
	Role    string
	Content string
	Handle  int
}

// GenerateOptions are a harness's wishes for one call; the session clamps them.
type GenerateOptions struct {
	Samples   int
	MaxTokens int
	Tools     bool // offer the domain's tools in the form of the model's chat format
}

// Reply is one sampled text as the harness sees it.
type Reply struct {
	Handle int
	Text   string
	Stop   StopReason
	Tokens int
}

// Note is a one-way message from the harness: a log line, or the handle it submits.
type Note struct {
	Log    string
	Submit int
}
