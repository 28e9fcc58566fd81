package engine_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
)

// racing is a search of one phase with a clear winner in its second iteration, one that is
// hardly better in its third, and no better one after that.
func racing(t *testing.T, alpha, acceptP float64, change func(*engine.Parts)) ([]engine.Record, *enginetest.Store) {
	t.Helper()
	c := enginetest.Config()
	c.Condition, c.Iterations, c.SelectTasks, c.Racing, c.AcceptP = "harness-only", 4, 40, alpha, acceptP
	c.Rollouts = 40 * (1 + 3*3)
	_, records, store := mustPlay(t, c, func(p *engine.Parts) {
		p.Domain = enginetest.Domain(80)
		p.Proposer = &turns{{"hint=5 turns=1", "hint=0 turns=1 ", "hint=1 turns=1"}, {"hint=6 turns=1", "panic"}, {"hint=3 turns=1", "kill"}}
		if change != nil {
			change(p)
		}
	})
	return records, store
}

// turns proposes another list each time.
type turns []fixed

func (p *turns) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	if len(*p) == 0 {
		return nil, nil
	}
	list := (*p)[0]
	*p = (*p)[1:]
	return list.Propose(ctx, b)
}

func raced(records []engine.Record) (list []engine.Record) {
	for _, r := range records {
		if r.Search != nil && r.Index > 1 && r.Search.Race != nil {
			list = append(list, r)
		}
	}
	return list
}

// Racing ends with the harness that the full evaluation ends with, for fewer rollouts, and
// the journal says which tasks each candidate had.
func TestRacing(t *testing.T) {
	flat, _ := racing(t, 0, 1, nil)
	got, store := racing(t, .2, 1, nil)
	if a, b := flat[len(flat)-1].Harness, got[len(got)-1].Harness; a != b {
		t.Errorf("racing ends with %s, the full evaluation with %s", b, a)
	}
	spent := 0
	for _, r := range raced(got) {
		race := r.Search.Race
		ts, err := store.Trajectories(r.File)
		if err != nil {
			t.Fatal(err)
		}
		if len(race.Lanes) != len(r.Search.Evaluated) || race.Of != 40 || race.Flat != 40*len(race.Lanes) || r.Spent != len(ts) {
			t.Fatalf("%+v with %d rollouts", race, len(ts))
		}
		spent += r.Spent
		for i, lane := range race.Lanes {
			id := r.Search.Evaluated[i].Harness.ID
			var tasks []engine.TaskID
			for _, rollout := range ts {
				if rollout.Harness == id {
					tasks = append(tasks, rollout.Task)
				}
			}
			if !reflect.DeepEqual(tasks, race.Tasks[:lane.Tasks]) || r.Search.Evaluated[i].Score.N > lane.Tasks || lane.By == id {
				t.Errorf("%+v, played on %v", lane, tasks)
			}
			if r.Search.Evaluated[i].Accepted && lane.By != "" {
				t.Error("accepted although it was put out")
			}
		}
	}
	if spent > 3*40*3*2/3 {
		t.Errorf("%d rollouts", spent)
	}
	if again, _ := racing(t, .2, 1, func(p *engine.Parts) { p.Admission = schedule.New(schedule.Limits{Rollouts: 1}) }); !reflect.DeepEqual(plain(got), plain(again)) {
		t.Error("another run is not the same")
	}
}

// plain is a journal without its costs.
func plain(records []engine.Record) []engine.Record {
	list := slices.Clone(records)
	for i := range list {
		list[i].Spending = engine.Spending{}
	}
	return list
}

// An incumbent that won before the end is played on when the next candidates come further
// than it did, and its rollouts of both iterations count as one baseline.
func TestRacing_incumbent(t *testing.T) {
	records, store := racing(t, .2, 1, nil)
	list := raced(records)
	first := list[0].Search
	if s := engine.Fold(records[:3]); s.Short == 0 || s.Short != 40-first.Race.Lanes[0].Tasks || !reflect.DeepEqual(s.Baseline, []string{list[0].File}) {
		t.Fatalf("after a race won early: short %d, baseline %v, %+v", s.Short, s.Baseline, first.Race)
	}
	race := list[1].Search.Race
	if race.Incumbent == 0 {
		t.Fatalf("this test is about nothing: %+v", race)
	}
	ts, err := store.Trajectories(list[1].File)
	if err != nil {
		t.Fatal(err)
	}
	var tasks []engine.TaskID
	for _, rollout := range ts {
		if rollout.Harness == list[0].Harness {
			tasks = append(tasks, rollout.Task)
		}
	}
	from := first.Race.Lanes[0].Tasks
	if !reflect.DeepEqual(tasks, race.Tasks[from:from+race.Incumbent]) {
		t.Errorf("the incumbent was played on %v", tasks)
	}
	if got := list[1].Search.Compared[0].Tasks; got != race.Lanes[0].Tasks {
		t.Errorf("compared on %d tasks of %d", got, race.Lanes[0].Tasks)
	}
}

// An incumbent that is played on in several iterations meets each task once: its rollouts of
// all of them count.
func TestRacing_incumbentTwice(t *testing.T) {
	records, store := racing(t, .2, 1, func(p *engine.Parts) {
		p.Proposer = &turns{{"hint=5 turns=1", "hint=0 turns=1 "}, {"hint=3 turns=1"}, {"hint=5 turns=1 "}}
	})
	list := raced(records)
	winner, further := list[0].Harness, 0
	played := map[engine.TaskID]int{}
	for i, r := range list {
		if r.Harness != winner {
			t.Fatalf("iteration %d has another incumbent", r.Index)
		}
		further += min(1, r.Search.Race.Incumbent)
		ts, err := store.Trajectories(r.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, rollout := range ts {
			if rollout.Harness == winner {
				played[rollout.Task]++
			}
		}
		if s := engine.Fold(records[:2+i+1]); s.Short != 40-len(played) {
			t.Errorf("after iteration %d the incumbent is short of %d tasks, want %d", r.Index, s.Short, 40-len(played))
		}
	}
	if further < 2 {
		t.Fatalf("this test is about nothing: played on in %d iterations", further)
	}
	for task, n := range played {
		if n != 1 {
			t.Errorf("the incumbent was played on %s %d times", task, n)
		}
	}
}

// A strict accept_p keeps the incumbent in the race until the proof is there.
func TestRacing_strict(t *testing.T) {
	for acceptP, want := range map[float64]bool{.2: true, 1e-9: false} {
		records, _ := racing(t, .2, acceptP, nil)
		first := raced(records)[0].Search
		if first.Evaluated[0].Accepted != want || want != (first.Compared[0].P <= acceptP) {
			t.Errorf("accept_p %v: accepted %v with p %v", acceptP, first.Evaluated[0].Accepted, first.Compared[0].P)
		}
	}
}

// Rollouts that the host lost are evidence for nobody.
func TestRacing_lost(t *testing.T) {
	records, _ := racing(t, .2, 1, func(p *engine.Parts) {
		p.Domain.World = &faulty{attempts: map[uint64]uint64{}}
	})
	for _, r := range raced(records) {
		for i, lane := range r.Search.Race.Lanes {
			if s := r.Search.Evaluated[i].Score; s.N > lane.Tasks || s.Coverage > 1 {
				t.Errorf("%+v of %d tasks", s, lane.Tasks)
			}
		}
	}
}

func TestRacing_config(t *testing.T) {
	for _, bad := range []float64{-.1, 1, 2} {
		c := enginetest.Config()
		c.Racing = bad
		if err := c.Validate(enginetest.Domain(40)); err == nil {
			t.Errorf("racing %v is taken", bad)
		}
	}
}
