package engine

import "context"

// Sequence is one training row: ids, and which of them the model sampled.
type Sequence struct {
	IDs []int32
	// Sampled spans [from, to) of IDs that the policy wrote, in order, disjoint. Only
	// these are in the loss. Position 0 is never in a span: nothing predicts it.
	Sampled []Span
	// LogProbs of the sampled ids in order, as the policy reported them; for the check
	// that policy and learner agree.
	LogProbs []float32
	// Weight of the row's sampled ids in the loss; 0 = 1, never negative. A row that shall
	// not be learned is left out.
	Weight float32
	// Advantage of the row's sampled ids in a policy gradient, of either sign; Update does
	// not read it.
	Advantage float32
}

// Span is a half-open range of positions.
type Span struct{ From, To int }

// Learner trains the weights that the policy generates with.
type Learner interface {
	// Update makes one optimizer step on the log-likelihood of the sampled ids of a
	// mini-batch, averaged over all of them by the rows' weights (spec/rsft.md section 2).
	// Nothing sampled: nothing changes. A non-finite gradient changes nothing and is
	// reported.
	Update(ctx context.Context, batch []Sequence) (Update, error)
	// Save writes weights and optimizer state to a folder and names the weights.
	Save(ctx context.Context, dir string) (WeightsID, error)
	// Load restores what Save wrote, bit for bit.
	Load(ctx context.Context, dir string) error
}

// Update reports one optimizer step.
type Update struct {
	Tokens   int     // trained tokens
	Forward  int     // tokens run through forward and backward
	NLL      float64 // mean negative log-likelihood per trained token, before the step
	GradNorm float64 // before clipping
	Skipped  bool    // no trained token, or a non-finite gradient
	// Drift is the mean |log-prob of learner - log-prob of policy| over the sampled ids;
	// large at the first mini-batch of a step = a mask, position or cache fault.
	Drift    float64
	DriftMax float64 // the largest of them
	// Apart says that the drift is beyond what the learner's arithmetic allows. It means
	// nothing once another update came between sampling and this one.
	Apart   bool
	KL      float64 // Reinforce: mean estimate of the divergence from the reference, per token
	Clipped int     // Reinforce: tokens whose ratio has left the trust region
	Seconds float64
	Weights WeightsID
}

// GradientLearner is a Learner that can also follow a policy gradient.
type GradientLearner interface {
	// Reference makes the weights in a folder of Save those that a KL term holds near.
	Reference(ctx context.Context, dir string) error
	// Reinforce makes one optimizer step on the mean over the sampled ids of a mini-batch of
	//
	//	-min(r A, clip(r, 1-Clip, 1+Clip) A) + Beta (e^k - k - 1)
	//
	// where A is the row's Advantage, r the probability of the id now over the one it was
	// sampled with (Sequence.LogProbs, which must be there) and k the log-probability under
	// the reference weights minus the one now: the k3 estimate of the KL divergence.
	Reinforce(ctx context.Context, batch []Sequence, by Surrogate) (Update, error)
}

// Surrogate is the setting of a policy gradient.
type Surrogate struct {
	Clip float64 `json:"clip"` // how far a ratio may move from 1 and still count; 0 = any distance
	Beta float64 `json:"beta"` // weight of the KL term; 0 = none
}
