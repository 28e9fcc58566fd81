package report

import "github.com/seed-7c27e6b8/whale/engine"

// Run is everything that the page and the table show, in the order of the run.
type Run struct {
	Name    string // for the title
	Folder  string // where the run lies
	Command string // what reproduces it; may be empty
	Summary Summary
	// Settings are the lines of the configuration worth printing, in order.
	Settings []Setting
	// Points are measurements on the test split, Steps the updates of all weight phases
	// and Spans the phases, each in order of rollouts spent.
	Points []Point
	Steps  []Step
	Spans  []Span
	// Seed is the harness the run began with. It is one of Entries.
	Seed engine.HarnessID
	// Entries are all harnesses that were scored, Rejected those that did not load.
	Entries  []engine.Entry
	Rejected []engine.Rejection
	// Transcripts are candidates for the page; WriteHTML shows the first dozen.
	Transcripts []Transcript
	// Decode gives the text of ids, control tokens included. A single id may decode to
	// a part of a character. Nil: the page shows calls without their token ids.
	Decode func(ids []int32) string
}

// Setting is one line of the configuration.
type Setting struct{ Name, Value string }

// PhaseKind tells apart what rollouts are spent on.
type PhaseKind string

// The kinds of work in a run. TestWork is not part of any budget.
const (
	WeightPhase  PhaseKind = "weight"
	HarnessPhase PhaseKind = "harness"
	TestWork     PhaseKind = "test"
)

// Point is one measurement on the test split.
type Point struct {
	Rollouts int // rollouts spent on training and search before it
	Cycle    int // 0 = before the first cycle
	Score    engine.Score
	Harness  engine.HarnessID
	Weights  engine.WeightsID
}

// Step is one update of the weights.
type Step struct {
	Rollouts int     // spent up to and with this step
	Accepted float64 // share of its rollouts that were accepted, in [0,1]
	NLL      float64 // per trained token, before the update
}

// Span is one phase with what it cost.
type Span struct {
	Kind     PhaseKind
	Cycle    int // from 1
	From, To int // rollouts spent before and after it
	Units    int // steps of a weight phase, iterations of a harness phase
	// First and Last are the accepted share in the first and last step of a weight
	// phase; for a harness phase the incumbent's score on the select split before and
	// after.
	First, Last float64
	Cost        engine.Cost // Seconds is wall time, the other times are sums over rollouts
	// Accepted is the harness that a harness phase ended with, empty if it kept its own.
	Accepted engine.HarnessID
}

// Transcript is one rollout to show.
type Transcript struct {
	Moment  string // when it was sampled: "start", "end", …
	Input   string // the task's question
	Tags    []string
	Trained bool // its sampled tokens entered the loss
	Rollout *engine.Trajectory
}

// Summary is what summary.json holds: the run in numbers.
type Summary struct {
	Domain    string `json:"domain"`
	Condition string `json:"condition"`
	Seed      uint64 `json:"seed"`
	Cycles    int    `json:"cycles"`
	Model     string `json:"model"`
	Device    string `json:"device"`
	Test      Tests  `json:"test"`
	// Baseline is the first harness and weights with the tokens that the run's last
	// harness and weights use per task; nil when it was not measured.
	Baseline  *engine.Score    `json:"baseline_same_tokens"`
	Rollouts  Rollouts         `json:"rollouts"`
	Tokens    Tokens           `json:"tokens"`
	Seconds   Seconds          `json:"seconds"`
	Joules    *float64         `json:"joules"` // nil when nothing measures power
	Coverage  float64          `json:"coverage"`
	Unparsed  float64          `json:"unparsed"`
	WeightsID engine.WeightsID `json:"weights_id"`
	HarnessID engine.HarnessID `json:"harness_id"`
}

// Tests are the three scores on the test split that a run is judged by.
type Tests struct {
	Start engine.Score `json:"start"`
	Best  engine.Score `json:"best"`
	Final engine.Score `json:"final"`
}

// Rollouts counts rollouts by what they were for.
type Rollouts struct {
	Weight  int `json:"weight"`
	Harness int `json:"harness"`
	Test    int `json:"test"`
}

// Tokens counts tokens by what was done with them; Cached ones are part of Prompt.
type Tokens struct {
	Prompt  int `json:"prompt"`
	Cached  int `json:"cached"`
	Sampled int `json:"sampled"`
	Trained int `json:"trained"`
}

// Seconds is wall time by stage. The stages overlap where rollouts run at once.
type Seconds struct {
	Total   float64 `json:"total"`
	Rollout float64 `json:"rollout"`
	Sandbox float64 `json:"sandbox"`
	Train   float64 `json:"train"`
	Propose float64 `json:"propose"`
	Verify  float64 `json:"verify"`
	Idle    float64 `json:"idle"`
}
