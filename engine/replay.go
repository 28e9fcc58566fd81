package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrDiffers: a rollout that was run again came out differently.
var ErrDiffers = errors.New("the replayed rollout differs")

// Past is a run to replay from.
type Past interface {
	Records() []Record
	Trajectories(file string) ([]*Trajectory, error)
	WeightsDir(folder string) string
}

// Recall makes the learner's weights those of an id that the run had in use, bit for bit
// on the CPU. A run keeps the weights of its phases' ends only; those in between are made
// again: from the kept ones before them, by the updates on the archived rollouts.
func Recall(ctx context.Context, c Config, past Past, l Learner, p Policy, id WeightsID) error {
	records := past.Records()
	at := slices.IndexFunc(records, func(r Record) bool { return r.Weights == id })
	if at < 0 {
		return Fail(AtArchive, string(id), errors.New("the run never had these weights"))
	}
	state := Fold(records)
	kept := map[string]bool{state.Saved: true}
	for _, point := range state.Points {
		kept[point.Saved] = true
	}
	from := at
	for !kept[records[from].Saved] || records[from].Saved == "" {
		if from--; from < 0 {
			return Fail(AtArchive, string(id), errors.New("no weights were kept to start from"))
		}
	}
	s := &Site{Config: c, Parts: Parts{Learner: l, Policy: p, Store: nil}}
	if err := l.Load(ctx, past.WeightsDir(records[from].Saved)); err != nil {
		return AtArchive.wrap("weights "+records[from].Saved, err)
	}
	by := methods[c.Update]
	if by.gradient {
		if err := s.holdNear(ctx, past.WeightsDir(state.Points[0].Saved)); err != nil {
			return err
		}
	}
	steps := Fold(records[:from+1]).Steps
	for _, r := range records[from+1 : at+1] {
		if r.Step == nil {
			continue
		}
		ts, err := past.Trajectories(r.File)
		if err != nil {
			return AtArchive.wrap(r.File, err)
		}
		steps++
		if err := s.learn(ctx, steps, by, ts, &StepResult{}); err != nil {
			return err
		}
		if got := p.Weights(); got != r.Weights {
			return Fail(AtDevice, r.File, fmt.Errorf("trained again it gives weights %s, the journal says %s", got, r.Weights))
		}
	}
	if got := p.Weights(); got != id {
		return Fail(AtArchive, "weights "+records[from].Saved, fmt.Errorf("hold %s, the journal says %s", got, id))
	}
	return nil
}

// Same says where two rollouts of the same job differ first, as ErrDiffers. Times, and
// which prompt tokens were in a cache, belong to the machine and may differ.
func Same(want, got *Trajectory) error {
	for i := range max(len(want.Events), len(got.Events)) {
		if i >= len(want.Events) || i >= len(got.Events) {
			return fmt.Errorf("%w: %d events, now %d", ErrDiffers, len(want.Events), len(got.Events))
		}
		if err := equal(fmt.Sprintf("event %d", i+1), bare(want.Events[i]), bare(got.Events[i])); err != nil {
			return err
		}
	}
	a, b := *want, *got
	for _, t := range []*Trajectory{&a, &b} {
		t.Events, t.Cost = nil, Cost{Prompt: t.Cost.Prompt, Sampled: t.Cost.Sampled}
	}
	return equal("rollout", a, b)
}

// bare is an event without what belongs to the machine.
func bare(e Event) Event {
	if e.Call != nil {
		c := *e.Call
		c.Seconds, c.Wall, c.Cached = 0, 0, 0
		e.Call = &c
	}
	return e
}

// equal compares as archived: floats bit for bit, since JSON keeps their shortest form.
func equal(what string, want, got any) error {
	a, err := json.Marshal(want)
	if err != nil {
		return err
	}
	b, err := json.Marshal(got)
	if err != nil {
		return err
	}
	if string(a) == string(b) {
		return nil
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	around := func(s []byte) []byte { return s[max(0, n-20):min(len(s), n+60)] }
	return fmt.Errorf("%w: %s was …%s…, now …%s…", ErrDiffers, what, around(a), around(b))
}
