package builtin

import (
	"context"
	"errors"
	"math/rand/v2"
	"sort"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// name is what the proposer writes into Meta.Proposer.
const name = "builtin"

// Proposer edits archived harnesses. The zero value is ready; it keeps nothing between
// calls, so the same Brief always gives the same candidates.
type Proposer struct{}

var _ engine.Proposer = Proposer{}

// searcher is the state of one call of Propose.
type searcher struct {
	brief   engine.Brief
	d       *diagnosis
	records map[string]record
	random  *rand.Rand
	known   map[engine.HarnessID]bool // never proposed (again)
	made    []engine.Harness
}

// Propose implements engine.Proposer. The first slots go to the two edits that the
// failures call for most, together and alone (spec/nano.md section 9, pitfall 6: some
// gains need two levers at once); later iterations and further slots explore. An
// incumbent that is missing from the entries or is no harness is an error; fewer
// candidates than slots is none.
func (Proposer) Propose(ctx context.Context, b engine.Brief) ([]engine.Harness, error) {
	s, base, err := newSearcher(b)
	if err != nil {
		return nil, err
	}
	singles := byWeight(s.plans(base, b.Incumbent, movesOf(base, s.d)))
	top := s.strongest(singles, 6)
	both := s.d.pairs(top, s.records)
	s.lead(top, both)
	pool := append(append(append([]plan(nil), singles...), both...), s.others(base)...)
	for len(s.made) < b.Slots && len(pool) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var drawn plan
		drawn, pool = draw(s.random, pool)
		s.fill([]plan{drawn}, 1)
	}
	for b.PromptsOnly && len(s.made) < b.Slots && s.compose(base) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return s.made, nil
}

// lead fills the first slots: the best pair and its parts where that pair is worth more
// than the best single edit, otherwise that edit. After a phase's first candidates one
// part alone is enough, so that a slot is left to explore.
func (s *searcher) lead(top, both []plan) {
	if len(top) == 0 {
		return
	}
	if len(both) == 0 || both[0].weight < top[0].weight/2 {
		s.fill(top, 1)
		return
	}
	pair, ok := s.fill(both, 1)
	if !ok {
		s.fill(top, 1)
		return
	}
	parts := byWeight(s.plans(pair.base, pair.parent, pair.moves))
	if !s.opening() {
		parts = parts[:1]
	}
	for _, part := range parts {
		s.fill([]plan{part}, 1)
	}
}

// opening tells whether nothing was proposed in this phase yet. The number of the
// iteration does not say so: the first one may only evaluate the incumbent.
func (s *searcher) opening() bool {
	for _, e := range s.brief.Entries {
		if e.Harness.Meta.Proposer != "" && e.Harness.Meta.Cycle == s.brief.Cycle {
			return false
		}
	}
	return len(s.brief.Rejected) == 0
}

func newSearcher(b engine.Brief) (*searcher, *source, error) {
	s := &searcher{
		brief: b, known: map[engine.HarnessID]bool{}, records: learn(b.Entries, b.Rejected),
		random: rand.New(rand.NewPCG(b.Seed, uint64(b.Cycle)<<32|uint64(uint32(b.Iteration)))),
	}
	text := ""
	for _, e := range b.Entries {
		s.known[e.Harness.ID] = true
		if e.Harness.ID == b.Incumbent {
			text = e.Harness.Source
		}
	}
	for _, r := range b.Rejected {
		s.known[r.Harness.ID] = true
	}
	if text == "" {
		return nil, nil, engine.Fail(engine.AtArchive, string(b.Incumbent), errors.New("the incumbent is not among the entries"))
	}
	base, err := read(text)
	if err != nil {
		return nil, nil, engine.Fail(engine.AtHarness, string(b.Incumbent), err)
	}
	s.d = diagnose(b, base)
	return s, base, nil
}

// plans weighs each move as a plan of its own.
func (s *searcher) plans(base *source, parent engine.HarnessID, moves []move) []plan {
	var all []plan
	for _, m := range moves {
		all = append(all, plan{base: base, parent: parent, moves: []move{m}, weight: s.d.weigh([]move{m}, s.records)})
	}
	return all
}

// allowed tells whether a source would be refused where only prompts may change. The
// first entry of a run is its seed harness.
func (s *searcher) allowed(text string) bool {
	return !s.brief.PromptsOnly || engine.PromptsOnly(s.brief.Entries[0].Harness.Source, text) == nil
}

// strongest keeps the heaviest plan of each move name that can be made and whose result is
// not known yet.
func (s *searcher) strongest(sorted []plan, most int) []plan {
	var kept []plan
	seen := map[string]bool{}
	for _, p := range sorted {
		if len(kept) >= most {
			break
		}
		if name := p.moves[0].name; !seen[name] && s.untried(p) {
			seen[name] = true
			kept = append(kept, p)
		}
	}
	return kept
}

// untried tells whether a plan can be made and gives something new.
func (s *searcher) untried(p plan) bool {
	c, ok := p.make(s.d)
	return ok && s.allowed(c.text) && !s.known[engine.NewHarness(c.text, engine.Meta{}).ID]
}

// fill makes candidates of the first plans that give a new one, until n more are made or
// no slot is left; it returns the last plan that was used.
func (s *searcher) fill(plans []plan, n int) (plan, bool) {
	var used plan
	count := 0
	for _, p := range plans {
		if count >= n || len(s.made) >= s.brief.Slots {
			break
		}
		c, ok := p.make(s.d)
		if !ok || !s.allowed(c.text) {
			continue
		}
		h := engine.NewHarness(c.text, s.meta(p))
		if s.known[h.ID] {
			continue
		}
		s.known[h.ID] = true
		s.made = append(s.made, h)
		used = p
		count++
	}
	return used, count > 0
}

// meta is what is said about the candidate of a plan.
func (s *searcher) meta(p plan) engine.Meta {
	m := engine.Meta{
		Parents: []engine.HarnessID{p.parent}, Proposer: name,
		Cycle: s.brief.Cycle, Iteration: s.brief.Iteration,
	}
	var axes, whys []string
	for _, move := range p.moves {
		if move.donor != "" {
			m.Parents = append(m.Parents, engine.HarnessID(move.donor))
		}
		if len(axes) == 0 || axes[len(axes)-1] != move.axis {
			axes = append(axes, move.axis)
		}
		whys = append(whys, move.why)
		m.Edits = append(m.Edits, move.label())
	}
	m.Axis = strings.Join(axes, "+")
	m.Hypothesis = strings.Join(whys, "; and ")
	return m
}

// donors is how many other candidates are looked at for functions and as parents.
const donors = 5

// others are plans that use more of the archive: a function or constant of another
// candidate in the incumbent, and single moves on the best other candidate.
func (s *searcher) others(base *source) []plan {
	incumbent := engine.Entry{}
	var rest []engine.Entry
	for _, e := range s.brief.Entries {
		if e.Harness.ID == s.brief.Incumbent {
			incumbent = e
		} else {
			rest = append(rest, e)
		}
	}
	sort.SliceStable(rest, func(i, j int) bool { return rest[i].Score.Mean > rest[j].Score.Mean })
	var all []plan
	for i, e := range rest[:min(donors, len(rest))] {
		other, err := read(e.Harness.Source)
		if err != nil {
			continue // it ran once, under a check that knows more; it only gives nothing here
		}
		gain := max(0, min(.5, e.Score.Mean-incumbent.Score.Mean))
		all = append(all, s.plans(base, s.brief.Incumbent, crossovers(base, other, e.Harness.ID, gain))...)
		if i == 0 && e.Weights == incumbent.Weights {
			for _, p := range s.plans(other, e.Harness.ID, movesOf(other, s.d)) {
				p.weight *= .3
				all = append(all, p)
			}
		}
	}
	return all
}
