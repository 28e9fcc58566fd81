package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// diligent proposes answers by the call, counted from 1 in each iteration, and keeps its
// briefs.
type diligent struct {
	calls  map[int][]string
	briefs []engine.Brief
	at     int
}

func (d *diligent) Propose(_ context.Context, b engine.Brief) ([]engine.Harness, error) {
	d.briefs = append(d.briefs, b)
	if d.at++; b.Repair == 0 {
		d.at = 1
	}
	return writer(d.calls[d.at]).Propose(context.Background(), b)
}

// A candidate that is refused goes back with its reason, at most R times in an iteration,
// and in the end what could be loaded is evaluated.
func TestRun_repairs(t *testing.T) {
	for name, c := range map[string]struct {
		repairs  int
		calls    map[int][]string
		asked    []string // slots, and of how many repairs
		rules    string
		accepted string
	}{
		"not at all":   {0, map[int][]string{1: {"broken", "hint=1 turns=1"}}, []string{"3/0"}, "parse", "hint=1 turns=1"},
		"mended":       {2, map[int][]string{1: {"broken", "hint=1 turns=1"}, 2: {"hint=9 turns=1"}}, []string{"3/0", "1/1"}, "parse", "hint=9 turns=1"},
		"at most R":    {2, map[int][]string{1: {"broken"}, 2: {"bad"}, 3: {"worse"}, 4: {"hint=9 turns=1"}}, []string{"3/0", "1/1", "1/1"}, "parse parse parse", "hint=0 turns=1"},
		"the same":     {3, map[int][]string{1: {"broken"}, 2: {"broken"}}, []string{"3/0", "1/1"}, "parse", "hint=0 turns=1"},
		"gives up":     {3, map[int][]string{1: {"broken"}, 2: nil}, []string{"3/0", "1/1"}, "parse", "hint=0 turns=1"},
		"too many":     {1, map[int][]string{1: {"broken"}, 2: {"hint=2 turns=1", "hint=9 turns=1"}}, []string{"3/0", "1/1"}, "parse", "hint=2 turns=1"},
		"holds an id":  {1, map[int][]string{1: {"hint=9 turns=1 task3"}, 2: {"hint=2 turns=1"}}, []string{"3/0", "1/1"}, "mention", "hint=2 turns=1"},
		"holds a name": {1, map[int][]string{1: {"hint=9 turns=1 // as in SquareBench"}}, []string{"3/0", "1/1"}, "mention", "hint=0 turns=1"},
	} {
		t.Run(name, func(t *testing.T) {
			config := enginetest.Config()
			config.Condition, config.Iterations, config.Rollouts, config.Repairs = "harness-only", 2, 70, c.repairs
			d := &diligent{calls: c.calls}
			s, records, store := mustPlay(t, config, func(p *engine.Parts) {
				p.Proposer = d
				p.Domain.Names = []string{"SquareBench"}
			})
			var asked, rules []string
			for _, b := range d.briefs {
				asked = append(asked, fmt.Sprintf("%d/%d", b.Slots, b.Repair))
				if b.Repair > 0 && (len(b.Rejected) < b.Repair || b.Rejected[len(b.Rejected)-1].Err.Reason == "") {
					t.Errorf("nothing to repair in %+v", b.Rejected)
				}
			}
			search := records[2].Search
			for _, r := range search.Rejected {
				rules = append(rules, r.Err.Rule)
			}
			if !slices.Equal(asked, c.asked) || strings.Join(rules, " ") != c.rules || search.Repairs != len(asked)-1 {
				t.Errorf("asked %v, refused by %v, %d repairs", asked, rules, search.Repairs)
			}
			if h, err := store.Harness(s.HarnessID); err != nil || h.Source != c.accepted {
				t.Errorf("ended with %q, %v", h.Source, err)
			}
		})
	}
}

// spent proposes once, then its budget is used up.
type spent struct{ calls int }

func (p *spent) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	if p.calls++; p.calls > 1 {
		return nil, fmt.Errorf("proposer: %w: 100 of 100 tokens", engine.ErrSpent)
	}
	return writer{"hint=1 turns=1"}.Propose(ctx, b)
}

// A run whose proposer has spent its budget goes on to its end.
func TestRun_proposerSpent(t *testing.T) {
	config := enginetest.Config()
	config.Iterations, config.Cycles = 6, 3
	p := &spent{}
	s, records, _ := mustPlay(t, config, func(parts *engine.Parts) { parts.Proposer = p })
	n := 0
	for _, r := range records {
		if r.Search != nil && r.Search.Failed != "" {
			n++
			if !r.Search.Spent || !strings.Contains(r.Search.Failed, "budget") {
				t.Errorf("%+v", r.Search)
			}
		}
	}
	if n < 3 || n != p.calls-1 || s.Rollouts.Weight == 0 {
		t.Errorf("%d iterations without a budget, %d calls: %s", n, p.calls, units(records))
	}
}

// paying is a proposer that costs, also when it fails.
type paying struct {
	diligent
	cost engine.ProposalCost
}

func (p *paying) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	p.cost = p.cost.Add(engine.ProposalCost{Calls: 1, Input: 100, Dollars: .5})
	if b.Iteration == 3 {
		return nil, errors.New("bad hour")
	}
	return p.diligent.Propose(ctx, b)
}

func (p *paying) Spent() engine.ProposalCost { return p.cost }

// What repairs and failures cost is booked with the iteration.
func TestRun_repairsCost(t *testing.T) {
	config := enginetest.Config()
	config.Condition, config.Iterations, config.Rollouts, config.Repairs = "harness-only", 3, 130, 2
	p := &paying{diligent: diligent{calls: map[int][]string{1: {"broken"}, 2: {"hint=9 turns=1"}}}}
	_, records, _ := mustPlay(t, config, func(parts *engine.Parts) { parts.Proposer = p })
	if two, three := records[2].Spending.Cost.Proposal, records[3].Spending.Cost.Proposal; two.Calls != 2 || two.Dollars != 1 || three.Calls != 1 {
		t.Errorf("%+v, %+v", two, three)
	}
}
