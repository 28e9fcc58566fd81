package trainer

import (
	"sync/atomic"

	"github.com/seed-7c27e6b8/whale/engine"
)

// sequence is one Generate call in progress. The loop owns it; its caller only waits for
// the reply or gives up by setting gone.
type sequence struct {
	request engine.Request
	ids     []int32 // prompt, then what was sampled
	end     int     // length at which it is cut
	logp    []float32
	cached  int
	seconds float64

	done     int     // ids whose keys and values are stored or being stored by the step in preparation
	pages    []*page // of positions 0..done-1
	key      prefix  // of the last page
	promised int     // pages reserved and not yet taken
	rows     int     // rows in the step in preparation

	gone  atomic.Bool
	reply chan reply                   // room for one, so that the loop never waits
	each  func(id int32, logp float32) // told of every sampled id; nil = nobody listens; must not block
}

type reply struct {
	completion engine.Completion
	err        error
}

func newSequence(r engine.Request, context int) *sequence {
	s := &sequence{request: r, reply: make(chan reply, 1)}
	s.end = min(len(r.Prompt)+r.MaxTokens, context)
	s.ids = append(make([]int32, 0, s.end), r.Prompt...)
	return s
}

// restart forgets everything sampled: the weights changed under it.
func (s *sequence) restart() {
	s.ids, s.logp = s.ids[:len(s.request.Prompt)], nil
	s.cached, s.done, s.pages, s.promised, s.rows = 0, 0, nil, 0, 0
}

// uniform is the randomness of the token at position p: a double in [0,1) that depends on
// (seed, p) only. It is splitmix64's output function over a counter, with the seed mixed
// first so that neighbouring seeds do not share counters.
func uniform(seed uint64, p int) float64 {
	x := mix(mix(seed) + uint64(p+1)*0x9e3779b97f4a7c15)
	return float64(x>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
