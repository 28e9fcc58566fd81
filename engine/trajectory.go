package engine

// Call is one generation: exactly what the policy was conditioned on and what it
// sampled. The loss sees Sampled only; a mask exists solely inside batch packing.
type Call struct {
	Handle   int        `json:"handle"`
	Prompt   []int32    `json:"prompt"`
	Sampled  []int32    `json:"sampled"`
	LogProbs []float32  `json:"logprobs"`
	Text     string     `json:"text"`
	Stop     StopReason `json:"stop"`
	Weights  WeightsID  `json:"weights"`
	Cached   int        `json:"cached"`
	Seconds  float64    `json:"seconds"`        // of the device's steps, shared out by tokens
	Wall     float64    `json:"wall,omitempty"` // seconds from asking to the answer
}

// ToolUse is one tool call with its result.
type ToolUse struct {
	Name   string `json:"name"`
	Args   string `json:"args"`
	Result string `json:"result"`
	Failed bool   `json:"failed,omitempty"`
}

// Event is one step of a rollout in order; exactly one field is set.
type Event struct {
	Call *Call    `json:"call,omitempty"`
	Tool *ToolUse `json:"tool,omitempty"`
	Log  string   `json:"log,omitempty"`
	// Said is a system, user or tool message that entered the context for the first
	// time before the next call, for readers of transcripts.
	Said *Turn `json:"said,omitempty"`
}

// Outcome says how a rollout ended.
type Outcome string

// Scored: judged by the verifier. Invalid: the model or harness failed by its own
// fault, reward 0. Infra: a fault of the host; retried, then left out, never a zero.
const (
	Scored  Outcome = "scored"
	Invalid Outcome = "invalid"
	Infra   Outcome = "infra"
)

// Trajectory is the record of one rollout.
type Trajectory struct {
	Task    TaskID    `json:"task"`
	Harness HarnessID `json:"harness"`
	Weights WeightsID `json:"weights"`
	Phase   string    `json:"phase"` // which part of the run asked for it
	Sample  int       `json:"sample"`
	Seed    uint64    `json:"seed"`

	Events    []Event `json:"events"`
	Submitted int     `json:"submitted,omitempty"` // handle the harness submitted; 0 = the last call counts
	Record    string  `json:"record,omitempty"`    // the environment's own account

	Outcome Outcome `json:"outcome"`
	Failure string  `json:"failure,omitempty"` // one line, when the rollout did not run to its end
	Cause   string  `json:"cause,omitempty"`   // the failure's boundary, for counting
	Verdict Verdict `json:"verdict"`
	Cost    Cost    `json:"cost"`
}

// Answer returns the call whose text counts: the one submitted, otherwise the last
// one; nil when the model never wrote anything.
func (t *Trajectory) Answer() *Call {
	var last *Call
	for i := range t.Events {
		c := t.Events[i].Call
		if c == nil {
			continue
		}
		if t.Submitted != 0 && c.Handle == t.Submitted {
			return c
		}
		last = c
	}
	return last
}

// Calls returns the calls in order.
func (t *Trajectory) Calls() []*Call {
	var calls []*Call
	for i := range t.Events {
		if c := t.Events[i].Call; c != nil {
			calls = append(calls, c)
		}
	}
	return calls
}

// Tools returns the uses of tools in order.
func (t *Trajectory) Tools() []*ToolUse {
	var uses []*ToolUse
	for i := range t.Events {
		if u := t.Events[i].Tool; u != nil {
			uses = append(uses, u)
		}
	}
	return uses
}

// Cost is what a rollout or a larger piece of work took. Costs add.
type Cost struct {
	Prompt  int `json:"prompt"`  // prompt tokens, cached ones included
	Cached  int `json:"cached"`  // of these, already in the cache
	Sampled int `json:"sampled"` // tokens generated
	Trained int `json:"trained"` // tokens in the loss
	Forward int `json:"forward"` // tokens run through training forward and backward

	Seconds        float64 `json:"seconds"`         // wall
	DeviceSeconds  float64 `json:"device_seconds"`  // of the device, generating: its steps, shared out by tokens
	LearnSeconds   float64 `json:"learn_seconds"`   // of the device, in updates
	PolicySeconds  float64 `json:"policy_seconds"`  // waiting for the policy
	SandboxSeconds float64 `json:"sandbox_seconds"` // in guest code
	ToolSeconds    float64 `json:"tool_seconds"`
	VerifySeconds  float64 `json:"verify_seconds"`
	TrainSeconds   float64 `json:"train_seconds"`
	ProposeSeconds float64 `json:"propose_seconds"`

	Interpreted int `json:"interpreted,omitempty"` // runs of a harness by the sandbox's interpreter
	Compiled    int `json:"compiled,omitempty"`    // runs of a harness compiled

	Proposal ProposalCost `json:"proposal,omitzero"` // what proposers paid a service
}

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	c.Prompt += o.Prompt
	c.Cached += o.Cached
	c.Sampled += o.Sampled
	c.Trained += o.Trained
	c.Forward += o.Forward
	c.Seconds += o.Seconds
	c.DeviceSeconds += o.DeviceSeconds
	c.LearnSeconds += o.LearnSeconds
	c.PolicySeconds += o.PolicySeconds
	c.SandboxSeconds += o.SandboxSeconds
	c.ToolSeconds += o.ToolSeconds
	c.VerifySeconds += o.VerifySeconds
	c.TrainSeconds += o.TrainSeconds
	c.ProposeSeconds += o.ProposeSeconds
	c.Interpreted += o.Interpreted
	c.Compiled += o.Compiled
	c.Proposal = c.Proposal.Add(o.Proposal)
	return c
}
