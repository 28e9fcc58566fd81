package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// teller is a learner that reports what it was told to.
type teller struct {
	Learner
	updates []Update
}

func (l *teller) Update(context.Context, []Sequence) (Update, error) {
	u := l.updates[0]
	l.updates = l.updates[1:]
	return u, nil
}

// A step's report has means over trained tokens, whatever the mini-batches' sizes, and its
// cost has the learner's own counts.
func TestLearn(t *testing.T) {
	l := &teller{updates: []Update{
		{Tokens: 10, Forward: 100, NLL: 1, KL: .2, GradNorm: 3, Drift: .1, DriftMax: .4, Clipped: 1, Seconds: .25},
		{Tokens: 30, Forward: 200, NLL: 2, KL: .6, GradNorm: 9, Drift: .9, DriftMax: .9, Clipped: 2, Seconds: .5},
		{Forward: 50, Skipped: true, NLL: 7},
	}}
	s := &Site{Config: Config{Batch: 1}, Parts: Parts{Learner: l}}
	var ts []*Trajectory
	for range 3 {
		one := trajectory(0, call(1, []int32{1, 2}, []int32{3, 4, 5}, StopEnd))
		one.Outcome, one.Verdict = Scored, Verdict{Kind: Equal, Reward: 1}
		ts = append(ts, one)
	}
	ts[2].Calls()[0].Stop = StopLength
	var result StepResult
	if err := s.learn(t.Context(), 1, methods["rsft"], ts, &result); err != nil {
		t.Fatal(err)
	}
	want := Step{Sequences: 3, Truncated: 1, Updates: 2, Skipped: 1, Tokens: 40, NLL: 1.75, GradNorm: 3, Drift: .1, DriftMax: .4, KL: .5, Clipped: 3}
	if got := result.Report; got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if c := result.Spending.Cost; c.Trained != 40 || c.Forward != 350 || c.LearnSeconds != .75 {
		t.Errorf("cost %+v", c)
	}
	for i, one := range ts {
		if one.Cost.Trained != 3 {
			t.Errorf("rollout %d has %d trained tokens, want its 3 sampled ones", i, one.Cost.Trained)
		}
	}
}

// Step by step the tasks are those of the epoch's order from its first on; what does not
// fill a step is dropped.
func TestTrainTasks(t *testing.T) {
	d := &Domain{}
	for i := range 10 {
		d.Train = append(d.Train, Task{ID: TaskID(fmt.Sprint(i))})
	}
	s := &Site{Config: Config{Seed: 7, Prompts: 3}, Parts: Parts{Domain: d}}
	for step := 1; step <= 7; step++ {
		tasks, epoch := s.trainTasks(step)
		if want := (step - 1) / 3; epoch != want {
			t.Errorf("step %d is in epoch %d, want %d", step, epoch, want)
		}
		at := (step - 1) % 3 * 3
		var want, got []TaskID
		for _, i := range permutation(7, epoch, 10)[at : at+3] {
			want = append(want, d.Train[i].ID)
		}
		for _, task := range tasks {
			got = append(got, task.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d has tasks %v, want %v", step, got, want)
		}
	}
}

// A rollout that failed without a verdict lowers its group's mean and teaches nothing; one
// that the host lost is in no group.
func TestGrouped(t *testing.T) {
	_, ts := graded(2, 3, func(task, sample int) float64 { return float64(count(sample == 0)) })
	ts[1].Outcome, ts[1].Verdict = Invalid, Verdict{Kind: Unparsed}
	ts[2].Outcome, ts[2].Verdict = Infra, Verdict{}
	lessons := grouped(ts)
	if len(lessons) != 4 || lessons[0].rollout != ts[0] || !near(float64(lessons[0].weight), 1, 1e-6) {
		t.Fatalf("%d lessons, the first %+v", len(lessons), lessons[0])
	}
	for i, want := range []float64{1.4142, -.7071, -.7071} { // (r - 1/3) / (sqrt(2)/3)
		if l := lessons[1+i]; l.rollout != ts[3+i] || !near(float64(l.weight), want, 1e-4) {
			t.Errorf("sample %d: %v, want %v", i, l.weight, want)
		}
	}
	if n := len(advantaged(ts)); n != 2 {
		t.Errorf("%d lessons of positive advantage, want 2", n)
	}
}
