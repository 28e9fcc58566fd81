package engine

import (
	"math"
	"math/rand/v2"
)

// Comparison sets a candidate against the incumbent on the same tasks and seeds.
type Comparison struct {
	Gain   float64 `json:"gain"`   // mean over tasks of the difference in reward
	P      float64 `json:"p"`      // chance of such a gain or more if neither were better, one-sided
	Tasks  int     `json:"tasks"`  // with at least one pair
	Wins   int     `json:"wins"`   // tasks on which the candidate did better
	Losses int     `json:"losses"` // and worse
}

// Compare pairs rollouts by task and sample. A pair of which one side was lost to the
// host is left out. P comes from flipping the signs of the tasks' differences: counted
// exactly when all rewards are 0 or 1, otherwise from 20,000 flips with a fixed seed.
func Compare(candidate, incumbent []*Trajectory) Comparison {
	type key struct {
		task   TaskID
		sample int
	}
	theirs := map[key]*Trajectory{}
	for _, t := range candidate {
		theirs[key{t.Task, t.Sample}] = t
	}
	var order []TaskID
	pairs := map[TaskID][]float64{}
	whole := true
	for _, t := range incumbent {
		c := theirs[key{t.Task, t.Sample}]
		if c == nil || c.Outcome == Infra || t.Outcome == Infra {
			continue
		}
		if pairs[t.Task] == nil {
			order = append(order, t.Task)
		}
		d := c.Verdict.Reward - t.Verdict.Reward
		whole = whole && d == math.Trunc(d)
		pairs[t.Task] = append(pairs[t.Task], d)
	}
	out := Comparison{Tasks: len(order), P: 1}
	differences := make([]float64, len(order))
	for i, task := range order {
		d := mean(pairs[task])
		differences[i] = d
		out.Wins += count(d > 0)
		out.Losses += count(d < 0)
	}
	out.Gain = mean(differences)
	if out.Wins+out.Losses == 0 {
		return out
	}
	if counts, ok := commonScale(order, pairs); ok && whole {
		out.P = exactFlips(counts)
	} else {
		out.P = sampledFlips(differences)
	}
	return out
}

// commonScale brings the tasks' mean differences to integers over one denominator; it
// declines when that would be large.
func commonScale(order []TaskID, pairs map[TaskID][]float64) ([]int, bool) {
	scale := 1
	for _, task := range order {
		n := len(pairs[task])
		scale = scale / gcd(scale, n) * n
		if scale > 1000 {
			return nil, false
		}
	}
	counts := make([]int, len(order))
	for i, task := range order {
		sum := 0.0
		for _, d := range pairs[task] {
			sum += d
		}
		counts[i] = int(sum) * (scale / len(pairs[task]))
	}
	return counts, true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// exactFlips is the share of all sign assignments whose sum reaches the observed one,
// by dynamic programming over the possible sums.
func exactFlips(d []int) float64 {
	reach, observed := 0, 0
	for _, v := range d {
		observed += v
		reach += max(v, -v)
	}
	chance := make([]float64, 2*reach+1) // index = sum + reach
	next := make([]float64, 2*reach+1)
	chance[reach] = 1
	for _, v := range d {
		if v == 0 {
			continue
		}
		v = max(v, -v)
		clear(next)
		for i, p := range chance {
			if p > 0 {
				next[i+v] += p / 2
				next[i-v] += p / 2
			}
		}
		chance, next = next, chance
	}
	p := 0.0
	for i := reach + observed; i < len(chance); i++ {
		p += chance[i]
	}
	return min(1, p)
}

func sampledFlips(d []float64) float64 {
	const flips = 20_000
	random := rand.New(rand.NewPCG(20260900196, 0)) // fixed: the same data gives the same p
	observed := 0.0
	for _, v := range d {
		observed += v
	}
	hits := 1 // the observed assignment is one of them
	for range flips {
		sum, signs := 0.0, uint64(0)
		for i, v := range d {
			if i%64 == 0 {
				signs = random.Uint64()
			}
			if signs>>(i%64)&1 == 0 {
				v = -v
			}
			sum += v
		}
		hits += count(sum >= observed-1e-9)
	}
	return float64(hits) / (flips + 1)
}

// SameTokens is the baseline that spends as many sampled tokens on the incumbent as
// something else needs per rollout: each task's samples are cut into groups of
// n = tokens / (the incumbent's tokens per rollout), at least 1, at most all, and each
// group answers by vote over Verdict.Answer, an earlier answer winning a tie. Unread
// answers do not vote.
func SameTokens(tasks []Task, incumbent []*Trajectory, tokens float64) Score {
	n, each := 1, NewScore(tasks, incumbent).Tokens
	if each > 0 {
		n = max(1, int(tokens/each))
	}
	groups := map[TaskID][]*Trajectory{}
	for _, t := range incumbent {
		if t.Outcome != Infra {
			groups[t.Task] = append(groups[t.Task], t)
		}
	}
	var voted []*Trajectory
	for _, task := range tasks {
		for g := groups[task.ID]; len(g) > 0; {
			size := min(n, len(g))
			if size < n && len(groups[task.ID]) >= n {
				break // a last, smaller group would vote with fewer tokens
			}
			voted = append(voted, vote(g[:size]))
			g = g[size:]
		}
	}
	out := NewScore(tasks, voted)
	out.Tokens = each * float64(n)
	return out
}

// vote returns the first trajectory with the most frequent answer, or the first of all
// when none has a readable one.
func vote(ts []*Trajectory) *Trajectory {
	votes := map[string]int{}
	for _, t := range ts {
		if t.Verdict.Kind != Unparsed {
			votes[t.Verdict.Answer]++
		}
	}
	best := ts[0]
	most := 0
	for _, t := range ts {
		if n := votes[t.Verdict.Answer]; t.Verdict.Kind != Unparsed && n > most {
			best, most = t, n
		}
	}
	return best
}
