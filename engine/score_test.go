package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// graded makes rollouts of n tasks with k samples; reward says what each got.
func graded(n, k int, reward func(task, sample int) float64) ([]Task, []*Trajectory) {
	var tasks []Task
	var ts []*Trajectory
	for i := range n {
		tasks = append(tasks, Task{ID: TaskID(fmt.Sprint("t", i))})
		for j := range k {
			t := trajectory(0, call(1, []int32{1}, []int32{2, 3}, StopEnd))
			t.Task, t.Sample = tasks[i].ID, j
			t.Verdict = Verdict{Kind: Different, Reward: reward(i, j)}
			if t.Verdict.Reward == 1 {
				t.Verdict.Kind = Equal
			}
			ts = append(ts, t)
		}
	}
	return tasks, ts
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestNewScore(t *testing.T) {
	tasks, ts := graded(4, 2, func(task, sample int) float64 { return float64(count(task < 2 || sample == 0)) })
	tasks[0].Tags, tasks[3].Tags = []string{"a"}, []string{"a", "b"}
	ts[1].Outcome = Infra                                           // task 0 keeps one sample
	ts[4].Outcome, ts[5].Outcome = Infra, Infra                     // task 2 is gone
	ts[6].Outcome, ts[6].Verdict = Invalid, Verdict{Kind: Unparsed} // task 3 now 0, 0
	s := NewScore(tasks, ts)
	if s.N != 3 || s.K != 2 || !near(s.Mean, 2.0/3, 1e-12) || s.Coverage != 5.0/8 || s.Unparsed != .2 || s.Invalid != .2 || s.Tokens != 2 {
		t.Errorf("%+v", s)
	}
	if a, b := s.ByTag["a"], s.ByTag["b"]; a != (TagMean{.5, 2}) || b != (TagMean{0, 1}) {
		t.Errorf("by tag: %+v", s.ByTag)
	}
	if none := NewScore(nil, nil); none.N != 0 || none.Mean != 0 || none.Lo != 0 || none.Hi != 1 {
		t.Errorf("nothing measured: %+v", none)
	}
}

func TestInterval_edges(t *testing.T) {
	all := func(v float64, n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = v
		}
		return x
	}
	for name, c := range map[string]struct {
		means  []float64
		k      int
		lo, hi float64
	}{
		"20 of 20":              {all(1, 20), 8, .820, 1},
		"0 of 20":               {all(0, 20), 8, 0, .180},
		"all alike":             {all(.5, 20), 8, .288, .712}, // as 20 draws, not as 160
		"one task":              {all(1, 1), 1, .0062, 1},
		"two tasks disagree":    {[]float64{0, 1}, 1, .003, .997},
		"half all, half none":   {append(all(0, 10), all(1, 10)...), 8, .288, .712}, // as 20 draws, not as 19
		"less spread than luck": {append(all(.5, 18), 0, 1), 2, .343, .657},         // as 40 draws, not as 190
	} {
		lo, hi := interval(c.means, c.k)
		if !near(lo, c.lo, .002) || !near(hi, c.hi, .002) {
			t.Errorf("%s: [%.4f, %.4f], want [%.3f, %.3f]", name, lo, hi, c.lo, c.hi)
		}
	}
}

// Over many draws the interval must hold the truth about 95 times in 100, also when the
// samples of a task are alike.
func TestInterval_coverage(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() float64{
		"independent samples": func() float64 { return .7 },
		"tasks all or none":   func() float64 { return float64(count(random.Float64() < .7)) },
		"spread":              func() float64 { return .4 + .6*random.Float64() },
		"rare":                func() float64 { return .02 },
	} {
		truth := map[string]float64{"rare": .02}[name]
		if truth == 0 {
			truth = .7
		}
		const n, k, runs = 32, 8, 2000
		held := 0
		for range runs {
			means := make([]float64, n)
			for i := range means {
				p := draw()
				for range k {
					means[i] += float64(count(random.Float64() < p)) / k
				}
			}
			lo, hi := interval(means, k)
			held += count(lo <= truth && truth <= hi)
		}
		if share := float64(held) / runs; share < .93 {
			t.Errorf("%s: the 95 %% interval held in %.3f", name, share)
		}
	}
}

func TestStudent(t *testing.T) {
	for degrees, want := range map[int]float64{1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 8: 2.306, 20: 2.086, 63: 1.998, 1000: 1.962} {
		if got := student(degrees); !near(got, want, .03) || degrees >= 8 && !near(got, want, .001) {
			t.Errorf("%d degrees: %.4f, want %.3f", degrees, got, want)
		}
	}
}

func TestDetectable(t *testing.T) {
	// By simulation: at the gain it names, a paired test without shared luck finds it in
	// about four of five cases.
	s := Score{Mean: .3, N: 64, K: 1}
	gain := s.Detectable()
	if gain < .1 || gain > .3 {
		t.Fatalf("%.3f", gain)
	}
	random := rand.New(rand.NewPCG(5, 6))
	found := 0
	const runs = 1000
	for range runs {
		_, a := graded(64, 1, func(int, int) float64 { return float64(count(random.Float64() < .3)) })
		_, b := graded(64, 1, func(int, int) float64 { return float64(count(random.Float64() < .3+gain)) })
		found += count(Compare(b, a).P <= .05)
	}
	if share := float64(found) / runs; share < .65 || share > .9 {
		t.Errorf("found in %.3f", share)
	}
	if more := (Score{Mean: .3, N: 16, K: 4}).Detectable(); more != gain {
		t.Errorf("16 tasks of 4 samples: %.3f, 64 tasks: %.3f", more, gain)
	}
	if (Score{}).Detectable() != 1 {
		t.Error("nothing measured can detect nothing")
	}
}

func TestCompare(t *testing.T) {
	base := func(int, int) float64 { return 0 }
	for name, c := range map[string]struct {
		n, k int
		a, b func(task, sample int) float64 // incumbent, candidate
		want Comparison
	}{
		"alike":           {8, 1, base, base, Comparison{P: 1, Tasks: 8}},
		"all better":      {5, 1, base, func(int, int) float64 { return 1 }, Comparison{Gain: 1, P: 1.0 / 32, Tasks: 5, Wins: 5}},
		"two against one": {8, 1, func(i, _ int) float64 { return float64(count(i == 0)) }, func(i, _ int) float64 { return float64(count(i == 1 || i == 2)) }, Comparison{Gain: 1.0 / 8, P: .5, Tasks: 8, Wins: 2, Losses: 1}},
		"worse":           {3, 1, func(int, int) float64 { return 1 }, base, Comparison{Gain: -1, P: 1, Tasks: 3, Losses: 3}},
		"within a task":   {2, 2, base, func(i, j int) float64 { return float64(count(j == 0)) }, Comparison{Gain: .5, P: .25, Tasks: 2, Wins: 2}},
	} {
		_, a := graded(c.n, c.k, c.a)
		_, b := graded(c.n, c.k, c.b)
		got := Compare(b, a)
		if !near(got.P, c.want.P, 1e-12) || !near(got.Gain, c.want.Gain, 1e-12) || got.Tasks != c.want.Tasks || got.Wins != c.want.Wins || got.Losses != c.want.Losses {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestCompare_lostPairs(t *testing.T) {
	_, a := graded(4, 2, func(int, int) float64 { return 0 })
	_, b := graded(4, 2, func(int, int) float64 { return 1 })
	a[0].Outcome, b[1].Outcome = Infra, Infra // task 0 has no pair left
	b[3].Outcome = Infra                      // task 1 has one
	if got := Compare(b, a); got.Tasks != 3 || got.Gain != 1 || !near(got.P, 1.0/8, 1e-12) {
		t.Errorf("%+v", got)
	}
	if got := Compare(nil, a); got.Tasks != 0 || got.P != 1 {
		t.Errorf("nothing to compare: %+v", got)
	}
}

// The sampled p of fractional rewards agrees with the exact one of whole rewards.
func TestCompare_sampledAgreesWithExact(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		_, a := graded(24, 1, func(int, int) float64 { return float64(count(random.Float64() < .4)) })
		_, b := graded(24, 1, func(int, int) float64 { return float64(count(random.Float64() < .6)) })
		exact := Compare(b, a).P
		for i := range a {
			a[i].Verdict.Reward *= .5
			b[i].Verdict.Reward *= .5
		}
		if sampled := Compare(b, a).P; !near(sampled, exact, .02) {
			t.Errorf("sampled %.4f, exact %.4f", sampled, exact)
		}
	}
}

func TestSameTokens(t *testing.T) {
	tasks, ts := graded(2, 6, func(int, int) float64 { return 0 })
	set := func(i int, kind VerdictKind, answer string, reward float64) {
		ts[i].Verdict = Verdict{Kind: kind, Answer: answer, Reward: reward}
	}
	for i, answer := range []string{"b", "a", "a", "b", "c", "a"} { // task 0: "a" is right
		set(i, map[bool]VerdictKind{true: Equal, false: Different}[answer == "a"], answer, float64(count(answer == "a")))
	}
	for i := range 4 { // task 1: mostly unreadable, "x" is right
		set(6+i, Unparsed, "", 0)
	}
	set(10, Equal, "x", 1)
	set(11, Unparsed, "", 0)
	for tokens, want := range map[float64]float64{ // 2 sampled tokens a rollout
		1:   NewScore(tasks, ts).Mean, // n = 1: no vote
		2:   NewScore(tasks, ts).Mean, //
		6:   (.5 + .5) / 2,            // n = 3: {b,a,a} a, {b,c,a} b first; {} and {x}
		8:   0,                        // n = 4: {b,a,a,b} tie b first, {}; the two left over do not vote
		11:  (.0+.0)/2*0 + (1+0.0)/2,  // n = 5: one group each: {b,a,a,b,c} tie b first = 0, {x} = 1
		100: 1,                        // all six: a and x
	} {
		got := SameTokens(tasks, ts, tokens)
		if !near(got.Mean, want, 1e-12) {
			t.Errorf("%v tokens: %v, want %v", tokens, got.Mean, want)
		}
	}
}

// What could not be read has no vote, whatever answer stands beside it.
func TestVote(t *testing.T) {
	_, ts := graded(1, 4, func(int, int) float64 { return 0 })
	for i, v := range []Verdict{{Kind: Unparsed, Answer: "b"}, {Kind: Different, Answer: "a"}, {Kind: Equal, Answer: "b"}, {Kind: Unparsed, Answer: "b"}} {
		ts[i].Verdict = v
	}
	if got := vote(ts); got != ts[1] {
		t.Errorf("%+v wins, want the first of two with a vote each", got.Verdict)
	}
}

// The seeds are part of a run's identity: a change of the function breaks every archive.
func TestSeeds(t *testing.T) {
	seen := map[uint64]string{}
	for _, run := range []uint64{0, 1} {
		for _, purpose := range []string{"train/1", "train/11", "select/1"} {
			for _, task := range []TaskID{"", "1", "t1"} {
				for sample := range 3 {
					name := fmt.Sprint(run, purpose, task, sample)
					seed := RolloutSeed(run, purpose, task, sample)
					for turn := range 3 {
						for choice := range 3 {
							s := CallSeed(seed, turn, choice)
							if other, ok := seen[s]; ok {
								t.Fatalf("%s turn %d choice %d has the seed of %s", name, turn, choice, other)
							}
							seen[s] = fmt.Sprint(name, turn, choice)
						}
					}
				}
			}
		}
	}
	if got := CallSeed(RolloutSeed(1, "train/1", "t1", 2), 3, 4); got != 11909240538248412719 {
		t.Errorf("got %d", got)
	}
}
