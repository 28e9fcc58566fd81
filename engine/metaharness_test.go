package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// fixed proposes the same sources every time.
type fixed []string

func (f fixed) Propose(context.Context, engine.Brief) ([]engine.Harness, error) {
	var hs []engine.Harness
	for _, s := range f {
		hs = append(hs, engine.Harness{ID: "hfake", Source: s, Meta: engine.Meta{Cycle: 77}})
	}
	return hs, nil
}

func TestRun_search(t *testing.T) {
	const seed = "hint=0 turns=1"
	for name, c := range map[string]struct {
		propose  fixed
		accepted string   // source in the end
		rejected []string // rules in the first proposing iteration
	}{
		"better":            {fixed{"hint=5 turns=1"}, "hint=5 turns=1", nil},
		"best of better":    {fixed{"hint=1 turns=1", "hint=5 turns=1", "hint=2 turns=1"}, "hint=5 turns=1", nil},
		"alike":             {fixed{"hint=0 turns=1 "}, seed, nil},
		"the incumbent":     {fixed{seed}, seed, []string{"duplicate"}},
		"twice the same":    {fixed{"hint=5 turns=1", "hint=5 turns=1"}, "hint=5 turns=1", []string{"duplicate"}},
		"equal, first wins": {fixed{"hint=5 turns=1", "hint=5 turns=1 "}, "hint=5 turns=1", nil},
		"broken":            {fixed{"func Run("}, seed, []string{"parse"}},
		"panics":            {fixed{"panic"}, seed, nil},
		"kills its worker":  {fixed{"kill"}, seed, nil},
		"too many":          {fixed{"broken", "broken ", "broken  ", "hint=5 turns=1"}, seed, []string{"parse", "parse", "parse"}},
		"nothing":           {nil, seed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config := enginetest.Config()
			config.Condition, config.Iterations, config.Rollouts = "harness-only", 2, 70
			s, records, store := mustPlay(t, config, func(p *engine.Parts) { p.Proposer = c.propose })
			h, err := store.Harness(s.HarnessID)
			if err != nil {
				t.Fatal(err)
			}
			if h.Source != c.accepted {
				t.Errorf("ended with %q, want %q", h.Source, c.accepted)
			}
			if h.Source != seed && (h.Meta.Cycle != 1 || h.Meta.Iteration != 2) {
				t.Errorf("a proposer set its own place: %+v", h.Meta)
			}
			var rules []string
			for _, x := range records[2].Search.Rejected {
				rules = append(rules, x.Err.Rule)
			}
			if !reflect.DeepEqual(rules, c.rejected) {
				t.Errorf("rejected by %v, want %v", rules, c.rejected)
			}
		})
	}
}

// Rejections and duplicates are a phase's own affair: the next phase starts anew, with
// fresh seeds for the same harness, and knows what was once accepted.
func TestRun_phasesStartAnew(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Iterations, config.Rollouts = "harness-only", 3, 130
	keen := fixed{"hint=9 turns=1", "hint=1 turns=1", "broken"}
	_, records, store := mustPlay(t, config, func(p *engine.Parts) { p.Proposer = keen })
	if got := units(records); got != "H1.1 H1.2 H1.3. H2.1 H2.2 H2.3." {
		t.Fatalf("units %s", got)
	}
	rules := func(r engine.Record) (rules []string) {
		for _, x := range r.Search.Rejected {
			rules = append(rules, x.Err.Rule)
		}
		return rules
	}
	if got := rules(records[3]); !reflect.DeepEqual(got, []string{"duplicate", "duplicate", "parse"}) {
		t.Errorf("same phase: rejected by %v", got)
	}
	if got := rules(records[5]); !reflect.DeepEqual(got, []string{"duplicate", "parse"}) { // the incumbent is one
		t.Errorf("next phase: rejected by %v", got)
	}
	if again := records[5].Search.Evaluated; len(again) != 1 || again[0].Accepted {
		t.Errorf("next phase evaluated %+v", again)
	}
	if engine.Fold(records[:3]).Rejected == nil || engine.Fold(records[:4]).Rejected != nil {
		t.Error("rejections outlive their phase, or don't live as long")
	}
	for _, e := range engine.Fold(records).Entries {
		h, err := store.Harness(e.Harness.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := h.Source != "hint=1 turns=1"; e.Accepted != want {
			t.Errorf("%q accepted: %v", h.Source, e.Accepted)
		}
	}
	first, err := store.Trajectories(records[1].File)
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.Trajectories(records[4].File)
	if err != nil {
		t.Fatal(err)
	}
	if first[0].Task != second[0].Task || first[0].Seed == second[0].Seed {
		t.Errorf("seeds %d and %d", first[0].Seed, second[0].Seed)
	}
}

// A harness that was accepted once and lost later is still known as accepted.
func TestFold_acceptedOnce(t *testing.T) {
	search := func(seq int, accepted bool) engine.Record {
		h := engine.NewHarness("x", engine.Meta{Cycle: seq})
		return engine.Record{Seq: seq, Kind: engine.SearchRecord, Index: 2, Harness: "h", Search: &engine.Search{
			Evaluated: []engine.Entry{{Harness: h, Score: engine.Score{N: seq}, Accepted: accepted}}}}
	}
	entries := engine.Fold([]engine.Record{search(1, true), search(2, false)}).Entries
	if len(entries) != 1 || !entries[0].Accepted || entries[0].Score.N != 2 || entries[0].Harness.Meta.Cycle != 1 {
		t.Errorf("%+v", entries)
	}
}

// A threshold on p keeps what could be luck.
func TestRun_acceptP(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Iterations, config.Rollouts = "harness-only", 2, 70
	better := func(p *engine.Parts) { p.Proposer = fixed{"hint=1 turns=1"} }
	_, records, _ := mustPlay(t, config, better)
	compared := records[2].Search.Compared[0]
	if compared.Gain <= 0 || records[2].Harness == records[1].Harness {
		t.Fatalf("not accepted: %+v", compared)
	}
	config.AcceptP = compared.P / 2
	if _, strict, _ := mustPlay(t, config, better); strict[2].Harness != strict[1].Harness {
		t.Errorf("accepted at p = %v with a threshold of %v", compared.P, config.AcceptP)
	}
}

// A candidate whose rollouts the host lost is not accepted, however well the rest did.
func TestRun_coverageFloor(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Iterations, config.Rollouts, config.Retries = "harness-only", 2, 70, 0
	_, records, _ := mustPlay(t, config, func(p *engine.Parts) {
		p.Proposer = fixed{"hint=9 turns=1"}
		p.Policy.(*enginetest.Brain).Fault = func(r engine.Request, _ int) error {
			if r.Seed%4 == 0 && strings.Contains(fmt.Sprint(r.Prompt), fmt.Sprint('9', 303)) {
				return errors.New("lost")
			}
			return nil
		}
	})
	e := records[2].Search.Evaluated[0]
	if e.Score.Coverage >= .9 || records[2].Search.Compared[0].Gain <= 0 {
		t.Fatalf("the test is about nothing: %+v", e.Score)
	}
	if e.Accepted || records[2].Harness != records[1].Harness {
		t.Error("accepted below the coverage floor")
	}
}

// What a proposer gets: everything evaluated so far with sources and latest scores, this
// phase's rejections, failures before successes, and never a reference answer.
func TestRun_briefs(t *testing.T) {
	var proposer *enginetest.Proposer
	_, records, store := mustPlay(t, enginetest.Config(), func(p *engine.Parts) { proposer = p.Proposer.(*enginetest.Proposer) })
	if len(proposer.Briefs) != 2 {
		t.Fatalf("%d briefs", len(proposer.Briefs))
	}
	first, second := proposer.Briefs[0], proposer.Briefs[1]
	if first.Cycle != 1 || first.Iteration != 2 || first.Slots != 3 || first.Skill == "" || first.Folder != store.Dir || first.Seed == second.Seed {
		t.Errorf("%+v", first)
	}
	if len(first.Entries) != 1 || first.Entries[0].Harness.Source != "hint=0 turns=1" || !first.Entries[0].Accepted || first.Entries[0].Score.N != 16 {
		t.Errorf("first entries %+v", first.Entries)
	}
	if len(second.Entries) != 3 || second.Entries[1].Harness.Source == "" || second.Entries[1].Harness.Meta.Hypothesis != "more hint" {
		t.Errorf("second entries %+v", second.Entries)
	}
	if len(first.Rejected) != 0 || len(second.Rejected) != 1 || second.Rejected[0].Harness.Source != "broken" || second.Rejected[0].Err.Rule != "parse" {
		t.Errorf("rejected %+v, then %+v", first.Rejected, second.Rejected)
	}
	weights := records[3].Weights // after the first weight phase
	for _, b := range proposer.Briefs {
		if len(b.Failures) == 0 || len(b.Successes) == 0 {
			t.Error("no failures or no successes")
		}
		for _, tr := range append(b.Failures, b.Successes...) {
			if tr.Harness != b.Incumbent || tr.Weights != weights || tr.Phase != "select/1" {
				t.Errorf("shows a rollout of %s under %s for %s", tr.Harness, tr.Weights, tr.Phase)
			}
		}
		if strings.Contains(fmt.Sprintf("%+v", b), enginetest.Canary) {
			t.Error("a reference answer is in the brief")
		}
	}
}

type dead struct{}

func (dead) Propose(context.Context, engine.Brief) ([]engine.Harness, error) { panic("out of ideas") }
