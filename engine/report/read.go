package report

import (
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Source is the part of an archive that a report reads; engine.Store has it.
type Source interface {
	Records() []engine.Record
	Harness(id engine.HarnessID) (engine.Harness, error)
	Trajectories(file string) ([]*engine.Trajectory, error)
}

// Read fills a report's records, sources and transcripts from an archive. The domain
// gives the tasks their words. What else a Run holds is the caller's to set.
func Read(from Source, d *engine.Domain) (Run, error) {
	r := Run{Records: from.Records()}
	var ids []engine.HarnessID
	note := func(id engine.HarnessID) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	refused := 0
	for _, rec := range r.Records {
		note(rec.Harness)
		if rec.Search != nil {
			for _, e := range rec.Search.Evaluated {
				if e.Accepted || refused < maxRefused {
					note(e.Harness.ID)
					for _, parent := range e.Harness.Meta.Parents {
						note(parent)
					}
				}
				if !e.Accepted {
					refused++
				}
			}
		}
	}
	for _, id := range ids {
		h, err := from.Harness(id)
		if err != nil {
			return r, engine.Fail(engine.AtArchive, string(id), err)
		}
		r.Harnesses = append(r.Harnesses, h)
	}
	tasks := map[engine.TaskID]engine.Task{}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, t := range d.Tasks(split) {
			tasks[t.ID] = t
		}
	}
	for _, s := range scenes(r.Records) {
		ts, err := from.Trajectories(s.file)
		if err != nil {
			return r, engine.Fail(engine.AtArchive, s.file, err)
		}
		for _, t := range s.pick(ts, tasks) {
			r.Transcripts = append(r.Transcripts, Transcript{Moment: s.moment, Task: tasks[t.Task], Trained: s.trained && t.Accepted(), Rollout: t})
		}
	}
	return r, nil
}

// scene is a file of rollouts to choose transcripts from.
type scene struct {
	file, moment string
	trained      bool // rewarded rollouts of it entered the loss
	good, bad    int  // how many of each
}

// scenes are the test at the end and at the start, the last and the first training step;
// twelve transcripts together.
func scenes(records []engine.Record) []scene {
	var list []scene
	var firstStep, lastStep, startTest, finalTest *engine.Record
	for i := range records {
		r := &records[i]
		switch {
		case r.Step != nil && firstStep == nil:
			firstStep, lastStep = r, r
		case r.Step != nil:
			lastStep = r
		case r.Measure != nil && r.Measure.Split == engine.Test && startTest == nil:
			startTest, finalTest = r, r
		case r.Measure != nil && r.Measure.Split == engine.Test:
			finalTest = r
		}
	}
	add := func(r *engine.Record, s scene) {
		if r != nil && !slices.ContainsFunc(list, func(o scene) bool { return o.file == r.File }) {
			s.file = r.File
			list = append(list, s)
		}
	}
	add(finalTest, scene{moment: "test, end", good: 2, bad: 1})
	add(lastStep, scene{moment: "last step", trained: true, good: 2, bad: 1})
	add(startTest, scene{moment: "test, start", good: 1, bad: 2})
	add(firstStep, scene{moment: "first step", trained: true, good: 2, bad: 1})
	return list
}

// pick chooses rollouts in their order, with other tags and other tasks first.
func (s scene) pick(ts []*engine.Trajectory, tasks map[engine.TaskID]engine.Task) []*engine.Trajectory {
	var picked []*engine.Trajectory
	for _, want := range []struct {
		good bool
		n    int
	}{{true, s.good}, {false, s.bad}} {
		seen := map[string]bool{}
		n := 0
		for _, fresh := range []bool{true, false} { // first those with a tag not seen yet
			for _, t := range ts {
				tags := strings.Join(tasks[t.Task].Tags, " ")
				_, good := stateOf(t)
				known := slices.ContainsFunc(picked, func(p *engine.Trajectory) bool { return p.Task == t.Task })
				if n == want.n || good != want.good || known || t.Outcome == engine.Infra || (fresh && seen[tags]) {
					continue
				}
				seen[tags] = true
				picked = append(picked, t)
				n++
			}
		}
	}
	return picked
}
