package engine

import "math"

// Score is the mean reward over tasks with an interval, and what it rests on.
type Score struct {
	Mean float64 `json:"mean"` // in [0,1], mean over tasks of the mean over samples
	Lo   float64 `json:"lo"`   // 95 % interval, clustered by task
	Hi   float64 `json:"hi"`
	N    int     `json:"n"` // tasks
	K    int     `json:"k"` // samples a task
	// Coverage is the share of rollouts that were not lost to the host (1 - infra).
	Coverage float64 `json:"coverage"`
	Unparsed float64 `json:"unparsed"` // share of counted rollouts without a readable answer
	Invalid  float64 `json:"invalid"`  // share of counted rollouts that ended invalid
	// Tokens sampled per rollout, mean.
	Tokens float64            `json:"tokens"`
	ByTag  map[string]TagMean `json:"by_tag,omitempty"` // for tables only; print in sorted order
}

// TagMean is the mean reward of the tasks with one tag.
type TagMean struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
}

// NewScore summarises rollouts of tasks. Rollouts lost to the host are left out and
// lower Coverage; a task without any counted rollout is left out too.
func NewScore(tasks []Task, ts []*Trajectory) Score {
	byTask := map[TaskID][]*Trajectory{}
	for _, t := range ts {
		byTask[t.Task] = append(byTask[t.Task], t)
	}
	var s Score
	var counted, unparsed, invalid, tokens int
	var means []float64
	tags := map[string][]float64{}
	for _, task := range tasks {
		var rewards []float64
		for _, t := range byTask[task.ID] {
			if t.Outcome == Infra {
				continue
			}
			rewards = append(rewards, t.Verdict.Reward)
			tokens += t.Sampled()
			unparsed += count(t.Verdict.Kind == Unparsed)
			invalid += count(t.Outcome == Invalid)
		}
		s.K = max(s.K, len(byTask[task.ID]))
		if len(rewards) == 0 {
			continue
		}
		counted += len(rewards)
		means = append(means, mean(rewards))
		for _, tag := range task.Tags {
			tags[tag] = append(tags[tag], mean(rewards))
		}
	}
	s.N, s.Mean = len(means), mean(means)
	s.Lo, s.Hi = interval(means, s.K)
	s.Coverage = ratio(counted, len(ts))
	s.Unparsed, s.Invalid, s.Tokens = ratio(unparsed, counted), ratio(invalid, counted), ratio(tokens, counted)
	if len(tags) > 0 {
		s.ByTag = map[string]TagMean{}
		for tag, m := range tags {
			s.ByTag[tag] = TagMean{Mean: mean(m), N: len(m)}
		}
	}
	return s
}

// Sampled counts the tokens that the model wrote in a rollout.
func (t *Trajectory) Sampled() int {
	n := 0
	for _, c := range t.Calls() {
		n += len(c.Sampled)
	}
	return n
}

// interval is the 95 % interval of a mean over tasks, given each task's mean over at most
// k samples. Samples of one task are alike, so the effective sample size is what the
// spread between tasks says it is, n_eff = m(1-m)/var(mean), but at least the number of
// tasks and at most that of samples; on it stands Wilson's interval with Student's
// quantile. Wilson's form keeps it inside [0,1] and of a sensible width where all tasks
// agree: 20 of 20 gives [.82,1], not [1,1]. No tasks: [0,1].
func interval(means []float64, k int) (lo, hi float64) {
	n := float64(len(means))
	if n == 0 {
		return 0, 1
	}
	m := mean(means)
	effective := n
	if v := variance(means) / n; v > 0 {
		effective = min(max(m*(1-m)/v, n), n*float64(max(k, 1)))
	}
	q := student(len(means) - 1)
	q2 := q * q / effective
	centre := (m + q2/2) / (1 + q2)
	half := q / (1 + q2) * math.Sqrt(m*(1-m)/effective+q2/(4*effective))
	return max(0, min(m, centre-half)), min(1, max(m, centre+half))
}

// student is the 97.5 % quantile of Student's t distribution: exact for 1 and 2 degrees
// of freedom, otherwise Cornish and Fisher's expansion around the normal one (off by less
// than .03 at 3 and .001 from 8 on). Without any degree it is that of 1.
func student(degrees int) float64 {
	switch {
	case degrees <= 1:
		return 12.706
	case degrees == 2:
		return 4.303
	}
	const z = 1.959964
	v := float64(degrees)
	z3, z5, z7 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

// Detectable is the smallest gain in the mean that a paired comparison at this size would
// find four times out of five, at one-sided 5 %. It takes rewards of 0 or 1 and draws
// that are independent given the task, which is on the safe side when both sides share
// seeds. It is 1 when nothing was measured.
func (s Score) Detectable() float64 {
	if s.N == 0 {
		return 1
	}
	n := float64(s.N * max(1, s.K))
	m := (s.Mean*n + 1) / (n + 2) // so that 0 of n still leaves some spread
	const quantiles = 1.645 + 0.842
	return min(1, quantiles*math.Sqrt(2*m*(1-m)/n))
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// variance is the unbiased one; 0 for fewer than two values.
func variance(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(x)-1)
}
