package engine

import "context"

// WeightsID is the content hash of a set of weights.
type WeightsID string

// Policy is what generates. Many sessions use one policy at once; it batches them.
type Policy interface {
	// Encode renders a conversation to the ids that a call will be conditioned on,
	// generation prompt included. A turn with Sampled ids enters with exactly these ids.
	Encode(turns []Turn) ([]int32, error)
	// Generate samples one completion of a prompt. The result depends on the request
	// and the weights only, never on what else runs at the time.
	Generate(ctx context.Context, r Request) (Completion, error)
	// Weights names the weights in use.
	Weights() WeightsID
}

// Turn is one message of a conversation on its way to the policy.
type Turn struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Sampled []int32 `json:"sampled,omitempty"` // the ids, when the model itself wrote this turn
	// Tools, of the first turn only, are offered to the model in the form that its chat format
	// has for them; ErrContext when it has none.
	Tools []ToolSpec `json:"-"`
}

// Request asks for one completion.
type Request struct {
	Prompt    []int32
	MaxTokens int
	Sampling  Sampling
	// Seed fixes the randomness; the token at position p is drawn with (Seed, p).
	Seed uint64
}

// Sampling is the engine's choice of how to draw tokens; a harness can't change it.
type Sampling struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"` // 1 = off
	TopK        int     `json:"top_k"` // 0 = off
}

// StopReason says why a completion ended.
type StopReason string

// The model ended its turn, or a limit cut it.
const (
	StopEnd    StopReason = "end"
	StopLength StopReason = "length"
)

// Completion is what the policy sampled.
type Completion struct {
	Sampled  []int32   // the stop token included when one was sampled
	LogProbs []float32 // log-probability of each sampled id under softmax(logits/temperature); nil = the policy can't tell
	Text     string    // decoded, without control tokens
	Stop     StopReason
	Weights  WeightsID
	Cached   int     // prompt tokens whose keys and values were already there
	Seconds  float64 // device time attributed to this call
}
