package engine

import "math"

// race decides, task by task, which of several harnesses can still come first when all of
// them have been played on all n tasks. Lane 0 is the incumbent, the others are candidates
// in their order; of equals the earlier lane comes first.
//
// For each pair of lanes it holds a bet against "i comes before j in the full evaluation".
// The tasks come in random order, so under that claim the tasks that are left must bring
// what is missing, mu on average, and the capital Π(1 + λ(mu - x)) over the differences x
// so far is a supermartingale: it reaches 1/alpha with probability alpha at most, however
// often one looks (Waudby-Smith and Ramdas, Estimating means of bounded random variables
// by betting, 2020: the case without replacement). A lane is out when the bet against it and
// the lane in front reaches that.
type race struct {
	n       int
	samples int     // of a task
	level   float64 // log of the capital that puts a lane out
	proof   float64 // log of the capital that a candidate needs before the incumbent is out

	played int
	whole  bool // all rewards so far are 0 or 1
	lanes  []lane
	bets   []bet // of lane i against lane j at i*len(lanes)+j
}

type lane struct {
	tasks int // played
	by    int // the lane that put it out; its own number = none did
	// luck is the log of the capital of a bet against "no better than the incumbent on
	// tasks like these"; most is the largest it has been.
	luck, most float64
}

type bet struct {
	tasks   int     // with a pair of rewards
	sum     float64 // of the differences
	squares float64
	capital float64 // log
}

// stake is the size of a bet in units of what a difference of the full evaluation has for
// a standard deviation. Chosen on tables of 256 tasks (bench/RESULTS.md).
const stake = 1.5

// newRace starts a race of so many lanes. alpha is the chance at which a lane that would
// have come first may be put out by one other; acceptP is Config.AcceptP.
func newRace(lanes, n, samples int, alpha, acceptP float64) *race {
	r := &race{n: n, samples: samples, level: math.Log(1 / alpha), proof: math.Log(1 / acceptP), whole: true,
		lanes: make([]lane, lanes), bets: make([]bet, lanes*lanes)}
	for i := range r.lanes {
		r.lanes[i].by = i
	}
	return r
}

// block is how many tasks are played between two looks.
func (r *race) block() int { return min(max(8, r.n/32), r.n-r.played) }

func (r *race) in(i int) bool { return r.lanes[i].by == i }

func (r *race) over() bool {
	left := 0
	for i := range r.lanes {
		left += count(r.in(i))
	}
	return left <= 1 || r.played == r.n
}

// play takes the rewards of the next tasks, rewards[lane][task][sample], NaN where the
// host lost one. Lanes that are out have none. Then it puts lanes out.
func (r *race) play(rewards [][][]float64) {
	tasks := 0
	for i := range r.lanes {
		if r.in(i) {
			tasks = len(rewards[i])
			r.lanes[i].tasks += tasks
		}
	}
	for t := range tasks {
		for i := range r.lanes {
			for j := range r.lanes {
				if i == j || !r.in(i) || !r.in(j) {
					continue
				}
				if x, ok := r.difference(rewards[i][t], rewards[j][t]); ok {
					if j == 0 {
						r.lanes[i].bet(r.bet(i, j).size(r.n), x)
					}
					r.raise(i, j, x)
				}
			}
		}
		r.played++
	}
	r.drop()
}

// difference is the mean over the samples that both have.
func (r *race) difference(a, b []float64) (float64, bool) {
	sum, n := 0.0, 0
	for k := range a {
		if d := a[k] - b[k]; !math.IsNaN(d) {
			r.whole = r.whole && a[k] == math.Trunc(a[k]) && b[k] == math.Trunc(b[k])
			sum, n = sum+d, n+1
		}
	}
	return sum / float64(max(n, 1)), n > 0
}

func (r *race) bet(i, j int) *bet { return &r.bets[i*len(r.lanes)+j] }

// size is the stake, from what was seen before.
func (b *bet) size(n int) float64 {
	return stake / math.Sqrt((b.squares+1)/float64(b.tasks+4)*float64(n))
}

// raise lets the bet against "i comes before j" go through one more difference.
func (r *race) raise(i, j int, x float64) {
	b := r.bet(i, j)
	target := 0.0 // what i must have in the end
	if j < i && r.whole {
		target = 1 / float64(r.samples)
	}
	left := float64(r.n - r.played)
	if missing := target - b.sum; missing > left {
		b.capital = math.Inf(1)
	} else if mu := missing / left; mu < 1 {
		b.capital += math.Log1p(min(b.size(r.n), .8/(1-mu)) * (mu - x))
	} else {
		b.capital += math.Log1p(b.size(r.n) * (1 - x))
	}
	b.tasks++
	b.sum += x
	b.squares += x * x
}

// bet lets the bet that a candidate is better than the incumbent go through a difference.
func (l *lane) bet(size, x float64) {
	l.luck += math.Log1p(min(size, .8) * x)
	l.most = max(l.most, l.luck)
}

// p is an upper bound, valid at any time, on the chance of such luck of a candidate that is
// no better than the incumbent.
func (l *lane) p() float64 { return math.Exp(-l.most) }

// leader is the lane in front.
func (r *race) leader() int {
	lead := -1
	for i := range r.lanes {
		if r.in(i) && (lead < 0 || r.bet(i, lead).sum > 0) {
			lead = i
		}
	}
	return lead
}

func (r *race) drop() {
	lead := r.leader()
	for i := range r.lanes {
		if !r.in(i) || i == lead || r.bet(i, lead).capital < r.level {
			continue
		}
		if i == 0 && r.lanes[lead].most < r.proof {
			continue
		}
		r.lanes[i].by = lead
	}
}
