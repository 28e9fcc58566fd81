package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Probe is how fast a machine plays and learns, measured on a few rollouts of the seed
// harness and an update that is taken back.
type Probe struct {
	Rollouts     int     `json:"rollouts"`
	Cost         Cost    `json:"cost"`          // of these, the trained tokens included
	Seconds      float64 `json:"seconds"`       // by the clock
	Lesson       float64 `json:"lesson"`        // tokens that a rewarded rollout sends through forward and backward; any rollout, when none was
	Rewarded     float64 `json:"rewarded"`      // share of the rollouts
	Learned      int     `json:"learned"`       // tokens through forward and backward; 0 = not measured
	LearnSeconds float64 `json:"learn_seconds"` // for these
	Energy       Energy  `json:"energy,omitzero"`
}

// What a probe is: rounds of a full policy, the first not counted, for about two seconds.
// The faster half counts: what else runs on the machine for a moment is no part of it.
const (
	probeTasks   = 8
	probeLeast   = 6
	probeMost    = 20
	probeFor     = 2 * time.Second
	probeUpdates = 6
)

// round is a piece of a probe.
type round struct {
	rollouts int
	cost     Cost
	seconds  float64
}

// faster are the rounds that took least for a rollout, half of them, the first of all left
// out when there are others.
func faster(all []round) []round {
	if len(all) > 1 {
		all = all[1:]
	}
	slices.SortFunc(all, func(a, b round) int {
		return cmp.Compare(a.seconds*float64(b.rollouts), b.seconds*float64(a.rollouts))
	})
	return all[:(len(all)+1)/2]
}

// TakeProbe measures the parts of a run before it begins. Weights and optimizer are
// afterwards what they were, bit for bit, by way of the folder scratch, which is emptied.
// learn says whether to measure updates, which for a large model means to write and read it.
func TakeProbe(ctx context.Context, c Config, p Parts, scratch string, learn bool) (_ Probe, err error) {
	site := newSite(c, Parts{Domain: p.Domain, Sandbox: p.Sandbox, Policy: p.Policy, Learner: p.Learner, Admission: p.Admission, Energy: p.Energy})
	program, err := site.load(ctx, NewHarness(p.Domain.Seed, Meta{}))
	if err != nil {
		return Probe{}, err
	}
	defer func() { err = errors.Join(err, Fail(AtSandbox, "probe", program.Close())) }()
	var probe Probe
	var lessons []lesson
	played := 0
	tasks := p.Domain.Train
	if len(tasks) == 0 {
		tasks = p.Domain.Select
	}
	begin, energy := time.Now(), site.energy()
	var rounds []round
	for n := 0; n < probeLeast || n < probeMost && time.Since(begin) < probeFor; n++ {
		if n > 0 && time.Since(begin) > 10*probeFor {
			break // a model so slow that one round says enough
		}
		some := make([]Task, min(probeTasks, len(tasks)))
		for i := range some {
			some[i] = tasks[(n*probeTasks+i)%len(tasks)]
		}
		ts, spent, err := site.rollouts(ctx, site.Jobs("", program, some, c.Samples, fmt.Sprintf("probe/%d", n)))
		if err != nil {
			return Probe{}, err
		}
		lessons = append(lessons, probeLessons(ts)...)
		probe.Rewarded += float64(len(Accept(ts)))
		played += len(ts)
		rounds = append(rounds, round{len(ts), spent.Cost, spent.Rollouts})
	}
	for _, one := range faster(rounds) {
		probe.Rollouts += one.rollouts
		probe.Cost = probe.Cost.Add(one.cost)
		probe.Seconds += one.seconds
	}
	probe.Rewarded /= float64(max(1, played))
	if learn && len(lessons) > 0 && Conditions[c.Condition].Trains() {
		err = site.probeLearning(ctx, lessons, scratch, &probe)
	}
	probe.Energy = site.energy().Minus(energy)
	return probe, err
}

// probeLessons are rollouts whose length is that of what a run learns from.
func probeLessons(ts []*Trajectory) []lesson {
	if lessons := rewarded(ts); len(lessons) > 0 {
		return lessons
	}
	var all []lesson
	for _, t := range ts {
		if t.Outcome == Scored && len(t.Calls()) > 0 {
			all = append(all, lesson{t, 1})
		}
	}
	return all
}

// probeLearning times updates and takes them back.
func (s *Site) probeLearning(ctx context.Context, lessons []lesson, scratch string, probe *Probe) error {
	dir, err := os.MkdirTemp(scratch, "probe-")
	if err != nil {
		return AtArchive.wrap("probe", err)
	}
	defer os.RemoveAll(dir) // a folder that stays is swept with the run's scratch
	if _, err := s.Parts.Learner.Save(ctx, dir); err != nil {
		return AtArchive.wrap("probe", err)
	}
	var rows []Sequence
	for _, l := range lessons {
		rows = append(rows, Sequences(l.rollout)...)
	}
	batch := rows[:min(len(rows), s.Config.Batch)]
	alone := 0 // tokens of the batch's rows; what they share is learned once
	for i, row := range rows {
		probe.Lesson += float64(len(row.IDs)) / float64(len(lessons))
		if i < len(batch) {
			alone += len(row.IDs)
		}
	}
	var rounds []round
	for range probeUpdates {
		u, err := s.Parts.Learner.Update(ctx, batch)
		if err != nil {
			return errors.Join(AtDevice.wrap("probe", err), AtArchive.wrap("probe", s.Parts.Learner.Load(ctx, dir)))
		}
		rounds = append(rounds, round{u.Forward, Cost{Trained: u.Tokens}, u.Seconds})
	}
	for _, one := range faster(rounds) {
		probe.Learned += one.rollouts
		probe.Cost = probe.Cost.Add(one.cost)
		probe.LearnSeconds += one.seconds
	}
	probe.Lesson *= float64(rounds[0].rollouts) / float64(max(1, alone))
	return AtArchive.wrap("probe", s.Parts.Learner.Load(ctx, dir))
}

// Estimate is what a run was expected to take before it began.
type Estimate struct {
	Basis    string        `json:"basis"` // what the expectation rests on
	Rollouts int           `json:"rollouts"`
	Tokens   SummaryTokens `json:"tokens"`
	Seconds  float64       `json:"seconds"`
	Joules   *float64      `json:"joules"` // null = not known
}
