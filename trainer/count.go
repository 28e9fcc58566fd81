package trainer

import "github.com/seed-7c27e6b8/whale/trainer/checkpoint"

// Counters add up what the device did. FLOPs count a multiply-add as two and only matrix
// products and attention; a cached token costs nothing.
type Counters struct {
	Prefill int // prompt tokens run through the model
	Cached  int // prompt tokens that were in the cache
	Decoded int // tokens sampled
	Trained int // ids in the loss
	Forward int // input ids of training

	GenerateSeconds float64 // holding the device
	TrainSeconds    float64
	GenerateFLOPs   float64
	TrainFLOPs      float64 // forward and backward, 3 times the forward
}

// FLOPRate is the rate over generation and training in FLOP/s, 0 before any work.
func (c Counters) FLOPRate() float64 {
	if seconds := c.GenerateSeconds + c.TrainSeconds; seconds > 0 {
		return (c.GenerateFLOPs + c.TrainFLOPs) / seconds
	}
	return 0
}

// forwardFLOPs is the cost of running tokens through all layers, scoring pairs of query and
// key positions (one head, one layer) and carrying picked of the tokens through output
// projection and MLP of the last layer and through the head.
func forwardFLOPs(c checkpoint.Config, tokens, pairs, picked int) float64 {
	q, w := c.Heads*c.HeadDim, (c.Heads+2*c.KVHeads)*c.HeadDim
	project := float64(c.Hidden * w)
	rest := float64(c.Hidden * (q + 3*c.Intermediate))
	layers, t, p := float64(len(c.Layers)), float64(tokens), float64(picked)
	return 2*layers*t*project + 2*((layers-1)*t+p)*rest + 4*layers*float64(pairs)*float64(q) +
		2*p*float64(c.Vocab)*float64(c.Hidden)
}

func (n *Counters) trained(c checkpoint.Config, batches []*micro, seconds float64) {
	for _, b := range batches {
		n.Trained += len(b.of)
		n.Forward += len(b.ids)
		n.TrainFLOPs += 3 * forwardFLOPs(c, len(b.ids), b.pairs, len(b.pick))
	}
	n.TrainSeconds += seconds
}
