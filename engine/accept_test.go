package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAccept(t *testing.T) {
	rollout := func(o Outcome, reward float64) *Trajectory {
		return &Trajectory{Outcome: o, Verdict: Verdict{Reward: reward}}
	}
	ts := []*Trajectory{rollout(Scored, 1), rollout(Scored, .5), rollout(Scored, .500001), rollout(Scored, 0),
		rollout(Invalid, 1), rollout(Infra, 1), rollout(Scored, 1)}
	got := Accept(ts)
	want := []*Trajectory{ts[0], ts[2], ts[6]}
	if !slices.Equal(got, want) {
		t.Errorf("accepted %d rollouts, want the three above 0.5 in their order", len(got))
	}
}

func call(handle int, prompt, sampled []int32, stop StopReason) *Call {
	logs := make([]float32, len(sampled))
	for i := range logs {
		logs[i] = -float32(handle) - float32(i)/100
	}
	return &Call{Handle: handle, Prompt: prompt, Sampled: sampled, LogProbs: logs, Stop: stop}
}

func trajectory(submitted int, calls ...*Call) *Trajectory {
	t := &Trajectory{Submitted: submitted, Outcome: Scored, Verdict: Verdict{Reward: 1}}
	for _, c := range calls {
		t.Events = append(t.Events, Event{Log: "between"}, Event{Call: c})
	}
	return t
}

func TestSequences(t *testing.T) {
	p, obs := []int32{1, 2}, []int32{7, 8}
	a, b, c := []int32{10, 11}, []int32{20}, []int32{30, 31, 32}
	join := func(parts ...[]int32) []int32 { return slices.Concat(parts...) }
	for name, test := range map[string]struct {
		t    *Trajectory
		want []Sequence // LogProbs are checked against the calls below
	}{
		"no call": {trajectory(0), nil},
		"one call": {trajectory(0, call(1, p, a, StopEnd)),
			[]Sequence{{IDs: join(p, a), Sampled: []Span{{2, 4}}}}},
		"conversation": {trajectory(0, call(1, p, a, StopEnd), call(2, join(p, a, obs), b, StopEnd), call(3, join(p, a, obs, b, obs), c, StopEnd)),
			[]Sequence{{IDs: join(p, a, obs, b, obs, c), Sampled: []Span{{2, 4}, {6, 7}, {9, 12}}}}},
		"directly continued": {trajectory(0, call(1, p, a, StopEnd), call(2, join(p, a), b, StopEnd)),
			[]Sequence{{IDs: join(p, a, b), Sampled: []Span{{2, 4}, {4, 5}}}}},
		"history rewritten": {trajectory(0, call(1, p, a, StopEnd), call(2, join(p, obs), b, StopEnd)),
			[]Sequence{{IDs: join(p, a), Sampled: []Span{{2, 4}}}, {IDs: join(p, obs, b), Sampled: []Span{{4, 5}}}}},
		"cut turn ends its row": {trajectory(0, call(1, p, a, StopLength), call(2, join(p, a, obs), b, StopEnd)),
			[]Sequence{{IDs: join(p, a), Sampled: []Span{{2, 4}}}, {IDs: join(p, a, obs, b), Sampled: []Span{{6, 7}}}}},
		"dropped samples": {trajectory(0, call(1, p, a, StopEnd), call(2, p, b, StopEnd), call(3, p, c, StopEnd)),
			[]Sequence{{IDs: join(p, c), Sampled: []Span{{2, 5}}}}},
		"submitted sample": {trajectory(2, call(1, p, a, StopEnd), call(2, p, b, StopEnd), call(3, p, c, StopEnd)),
			[]Sequence{{IDs: join(p, b), Sampled: []Span{{2, 3}}}}},
		"continued sample": {trajectory(0, call(1, p, a, StopEnd), call(2, p, b, StopEnd), call(3, join(p, b, obs), c, StopEnd)),
			[]Sequence{{IDs: join(p, b, obs, c), Sampled: []Span{{2, 3}, {5, 8}}}}},
		"submitted sample of a later turn": {trajectory(2, call(1, p, a, StopEnd), call(2, join(p, a, obs), b, StopEnd), call(3, join(p, a, obs), c, StopEnd)),
			[]Sequence{{IDs: join(p, a, obs, b), Sampled: []Span{{2, 4}, {6, 7}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Sequences(test.t)
			if len(got) != len(test.want) {
				t.Fatalf("%d sequences %v, want %d", len(got), got, len(test.want))
			}
			for i, w := range test.want {
				if !slices.Equal(got[i].IDs, w.IDs) || !slices.Equal(got[i].Sampled, w.Sampled) {
					t.Errorf("sequence %d: %v %v, want %v %v", i, got[i].IDs, got[i].Sampled, w.IDs, w.Sampled)
				}
			}
		})
	}
}

// Over random sessions (several samples, rewritten histories, cut turns): every span is
// exactly one call's ids in exactly its context, each call is learned at most once, and
// what is not in a span was not sampled there.
func TestSequences_property(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		tr := randomSession(random)
		used := tr.Learned()
		learned := map[*Call]bool{}
		for _, s := range Sequences(tr) {
			logs := s.LogProbs
			end := 0
			for _, span := range s.Sampled {
				if span.From < 1 || span.From < end || span.To <= span.From {
					t.Fatalf("spans %v of %d ids", s.Sampled, len(s.IDs))
				}
				i := slices.IndexFunc(used, func(c *Call) bool {
					return !learned[c] && slices.Equal(c.Prompt, s.IDs[:span.From]) && slices.Equal(c.Sampled, s.IDs[span.From:span.To]) &&
						slices.Equal(c.LogProbs, logs[:span.To-span.From])
				})
				if i < 0 {
					t.Fatalf("span %v of %v is no call", span, s.IDs)
				}
				learned[used[i]] = true
				if used[i].Stop == StopLength && span.To != len(s.IDs) {
					t.Fatal("a row goes on after a cut turn")
				}
				logs, end = logs[span.To-span.From:], span.To
			}
			if end != len(s.IDs) || len(logs) != 0 {
				t.Fatal("a row ends with ids that nobody sampled")
			}
		}
		if len(learned) != len(used) {
			t.Fatalf("learned %d calls of %d", len(learned), len(used))
		}
	}
}

func randomSession(r *rand.Rand) *Trajectory {
	ids := func(n int) []int32 {
		x := make([]int32, 1+r.IntN(n))
		for i := range x {
			x[i] = int32(r.IntN(3)) // few symbols, so that prefixes collide
		}
		return x
	}
	context := ids(3)
	var calls []*Call
	for range 1 + r.IntN(5) {
		n := 1
		if r.IntN(3) == 0 {
			n = 2 + r.IntN(2)
		}
		for range n {
			stop := StopEnd
			if r.IntN(5) == 0 {
				stop = StopLength
			}
			calls = append(calls, call(len(calls)+1, context, ids(3), stop))
		}
		chosen := calls[len(calls)-1-r.IntN(n)]
		context = slices.Concat(context, chosen.Sampled, ids(2))
		if r.IntN(4) == 0 {
			context = ids(4)
		}
	}
	submitted := 0
	if r.IntN(2) == 0 {
		submitted = 1 + r.IntN(len(calls))
	}
	return trajectory(submitted, calls...)
}
