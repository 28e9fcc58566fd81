package report

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

// shelf is an archive in memory.
type shelf struct {
	records []engine.Record
	sources map[engine.HarnessID]string
	files   map[string][]*engine.Trajectory
}

func (s shelf) Records() []engine.Record { return s.records }

func (s shelf) Harness(id engine.HarnessID) (engine.Harness, error) {
	text, ok := s.sources[id]
	if !ok {
		return engine.Harness{}, os.ErrNotExist
	}
	return engine.Harness{ID: id, Source: text}, nil
}

func (s shelf) Trajectories(file string) ([]*engine.Trajectory, error) {
	ts, ok := s.files[file]
	if !ok {
		return nil, os.ErrNotExist
	}
	return ts, nil
}

// smallShelf is a run of two steps and a search, with four rollouts of each file on four
// tasks of two tags: one infra, one right, one wrong, one right.
func smallShelf() (shelf, *engine.Domain) {
	s := shelf{sources: map[engine.HarnessID]string{"h0": "zero", "h1": "one", "h2": "two"}, files: map[string][]*engine.Trajectory{}}
	d := &engine.Domain{}
	for i := range 4 {
		task := engine.Task{ID: engine.TaskID(fmt.Sprint("t", i)), Input: fmt.Sprint("question ", i), Tags: []string{fmt.Sprint("tag", i/2)}}
		d.Train, d.Test = append(d.Train, task), append(d.Test, task)
	}
	add := func(r engine.Record) {
		s.records = append(s.records, r)
		for i := range 4 {
			for sample := range 3 {
				o := &engine.Trajectory{Task: d.Train[i].ID, Harness: r.Harness, Sample: sample, Outcome: engine.Scored, Phase: r.File}
				o.Verdict.Reward = float64(i % 2)
				if i == 0 && sample < 2 {
					o.Outcome = engine.Infra
				}
				s.files[r.File] = append(s.files[r.File], o)
			}
		}
	}
	s.records = append(s.records, engine.Record{Kind: engine.StartRecord, Harness: "h0"})
	add(engine.Record{Kind: engine.StepRecord, Harness: "h0", File: "step1", Step: &engine.Step{}})
	add(engine.Record{Kind: engine.StepRecord, Harness: "h0", File: "step2", Step: &engine.Step{}, Last: true})
	add(engine.Record{Kind: engine.SearchRecord, Harness: "h1", File: "search", Search: &engine.Search{Evaluated: []engine.Entry{
		{Accepted: true, Harness: engine.Harness{ID: "h1", Meta: engine.Meta{Parents: []engine.HarnessID{"h0"}}}}, {Harness: engine.Harness{ID: "h2"}}}}})
	add(engine.Record{Kind: engine.MeasureRecord, Harness: "h1", File: "select", Measure: &engine.Measure{Split: engine.Select}})
	add(engine.Record{Kind: engine.MeasureRecord, Harness: "h1", File: "test0", Measure: &engine.Measure{Split: engine.Test}})
	add(engine.Record{Kind: engine.MeasureRecord, Harness: "h1", File: "test1", Measure: &engine.Measure{Split: engine.Test, Point: 1}})
	return s, d
}

func TestRead(t *testing.T) {
	s, d := smallShelf()
	r, err := Read(s, d)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Harnesses) != 3 || r.Harnesses[2].Source != "two" || r.Harnesses[0].Source != "zero" || r.Harnesses[1].Source != "one" {
		t.Errorf("harnesses %+v", r.Harnesses)
	}
	var got []string
	for _, x := range r.Transcripts {
		got = append(got, fmt.Sprintf("%s/%s/%s/%v/%v", x.Moment, x.Rollout.Phase, x.Task.Input, x.Rollout.Verdict.Reward, x.Trained))
	}
	want := []string{
		"test, end/test1/question 1/1/false", "test, end/test1/question 3/1/false", "test, end/test1/question 0/0/false",
		"last step/step2/question 1/1/true", "last step/step2/question 3/1/true", "last step/step2/question 0/0/false",
		"test, start/test0/question 1/1/false", "test, start/test0/question 0/0/false", "test, start/test0/question 2/0/false",
		"first step/step1/question 1/1/true", "first step/step1/question 3/1/true", "first step/step1/question 0/0/false",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestReadNamesWhatIsMissing(t *testing.T) {
	s, d := smallShelf()
	delete(s.sources, "h1")
	if _, err := Read(s, d); !errors.Is(err, os.ErrNotExist) || err.Error() != "archive h1: file does not exist" {
		t.Errorf("got %v", err)
	}
	s, d = smallShelf()
	delete(s.files, "test0")
	if _, err := Read(s, d); !errors.Is(err, os.ErrNotExist) || err.Error() != "archive test0: file does not exist" {
		t.Errorf("got %v", err)
	}
}

func TestTimeline(t *testing.T) {
	got := newTimeline(sampleRecords())
	type phase struct {
		kind        engine.PhaseKind
		cycle       int
		from, to    int
		units       int
		first, last float64
		kept        engine.HarnessID
	}
	var phases []phase
	for _, s := range got.spans {
		phases = append(phases, phase{s.Kind, s.Cycle, s.From, s.To, s.Units, float64(int(s.First*1000+.5)) / 1000, float64(int(s.Last*1000+.5)) / 1000, s.Kept})
	}
	want := []phase{
		{engine.WeightKind, 1, 0, 1536, 6, .168, .297, ""},
		{engine.HarnessKind, 1, 1536, 1536 + 4*64, 3, .281, .391, idTurns},
		{engine.WeightKind, 2, 1792, 3328, 6, .469, .859, ""},
		{engine.HarnessKind, 2, 3328, 3456, 2, .719, .844, idWhole},
		{engine.WeightKind, 3, 3456, 4992, 6, .898, .957, ""},
	}
	if !reflect.DeepEqual(phases, want) {
		t.Errorf("got %+v", phases)
	}
	if got.measuring.Units != 12 || len(got.steps) != 18 || got.steps[17].Rollouts != 4992 || len(got.rejected) != 1 {
		t.Errorf("measuring %+v, %d steps, %d rejected", got.measuring, len(got.steps), len(got.rejected))
	}
	var trials []string
	for _, c := range got.trials {
		trials = append(trials, fmt.Sprintf("%s against %s: %+.3f %v", short(string(c.entry.Harness.ID)), short(string(c.incumbent)), c.compared.Gain, c.entry.Accepted))
	}
	wantTrials := []string{"h1c93f0a2 against h0d3c1a4f: +0.110 true", "h22aa810c against h0d3c1a4f: +0.000 false",
		"h9e10b4c7 against h1c93f0a2: -0.157 false", "h83be10c5 against h1c93f0a2: +0.125 true"}
	if !reflect.DeepEqual(trials, wantTrials) {
		t.Errorf("got %q", trials)
	}
	if got.incoming == nil || got.incoming.Mean != 0.281 || got.drift != 2.1e-7 {
		t.Errorf("incoming %v, drift %v", got.incoming, got.drift)
	}
}

func TestLineage(t *testing.T) {
	r := sampleRun()
	l := newLineage(newTimeline(r.Records), r.Harnesses)
	if len(l.Accepted) != 3 || len(l.Refused) != 2 || l.Final == nil || l.Final.ID != "h83be10c5" {
		t.Fatalf("%d accepted, %d refused, final %+v", len(l.Accepted), len(l.Refused), l.Final)
	}
	if a := l.Accepted[0]; !a.Seed || a.Source == "" || len(a.Hunks) > 0 {
		t.Errorf("seed %+v", a)
	}
	if a := l.Accepted[1]; a.Parent != "h0d3c1a4f" || a.DiffSize != "+1 −1" || len(a.Hunks) != 1 || !a.Open {
		t.Errorf("first accepted: from %s, %s, %d hunks", a.Parent, a.DiffSize, len(a.Hunks))
	}
	// Without the parent's source the incumbent stands in, without both the source itself.
	r.Harnesses = []engine.Harness{{ID: idSeed, Source: "a"}, {ID: idWhole, Source: "a\nb"}}
	l = newLineage(newTimeline(r.Records), r.Harnesses)
	if a := l.Accepted[1]; len(a.Hunks) > 0 || a.Source != "" {
		t.Errorf("a harness without source: %+v", a)
	}
	if a := l.Accepted[2]; a.Source == "" || len(a.Hunks) > 0 {
		t.Errorf("a harness without known parent: %+v", a)
	}
}
