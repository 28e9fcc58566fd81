package builtin

import (
	"math/bits"
	"math/rand/v2"
	"sort"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// blocking are the symptoms that keep a rollout from succeeding as long as they last, so
// that an edit which cures another symptom of the same rollout helps little.
const blocking = endedAsking | unreadable | brokenCall | cutResult | noTool | ranOut | toolFault

// plan is one candidate to be: moves to make on a source, one after the other.
type plan struct {
	base   *source
	parent engine.HarnessID
	moves  []move
	weight float64
	atOnce bool // the moves are independent edits of base, made together
}

// record is what a kind of edit brought in this run, by move name.
type record struct{ trials, wins float64 }

// learn reads from the archive which edits helped: a candidate won if it was accepted or
// scored above its first parent under the same weights. A combination counts in part
// for each of its edits.
func learn(entries []engine.Entry, rejected []engine.Rejection) map[string]record {
	at := map[engine.HarnessID]engine.Entry{}
	for _, e := range entries {
		at[e.Harness.ID] = e
	}
	records := map[string]record{}
	note := func(edits []string, won bool) {
		for _, label := range edits {
			name, _, _ := strings.Cut(label, ": ")
			r := records[name]
			part := 1 / float64(len(edits))
			r.trials += part
			if won {
				r.wins += part
			}
			records[name] = r
		}
	}
	for _, e := range entries {
		if e.Harness.Meta.Proposer != name || len(e.Harness.Meta.Parents) == 0 {
			continue
		}
		parent, ok := at[e.Harness.Meta.Parents[0]]
		if e.Accepted {
			note(e.Harness.Meta.Edits, true)
		} else if ok && parent.Weights == e.Weights {
			note(e.Harness.Meta.Edits, e.Score.Mean > parent.Score.Mean)
		}
	}
	for _, r := range rejected {
		if r.Harness.Meta.Proposer == name {
			note(r.Harness.Meta.Edits, false)
		}
	}
	return records
}

// factor turns a record into a multiplier between .3 and 2; 1 without trials.
func (r record) factor() float64 {
	return max(.3, min(2, (1+2*r.wins)/(1+r.trials)))
}

// hope estimates which share of the failed rollouts a set of moves cures.
func (d *diagnosis) hope(moves []move) float64 {
	if len(d.failures) == 0 {
		return 0
	}
	var cures symptom
	for _, m := range moves {
		cures |= m.cures
	}
	sum := 0.0
	for _, f := range d.failures {
		share, hits := 0.0, 0.0
		for _, m := range moves {
			if f&m.cures != 0 {
				share += m.share
				hits++
			}
		}
		if hits > 0 {
			left := bits.OnesCount16(uint16(f & blocking &^ cures))
			sum += share / hits / float64(1+left)
		}
	}
	return sum / float64(len(d.failures))
}

// weigh rates a set of moves.
func (d *diagnosis) weigh(moves []move, records map[string]record) float64 {
	trust, learned := 0.0, 0.0
	for _, m := range moves {
		trust += m.trust / float64(len(moves))
		learned += records[m.name].factor() / float64(len(moves))
	}
	return (.3*trust + d.hope(moves)) * learned
}

// byWeight sorts plans, the heaviest first, equal ones in the order they were listed.
func byWeight(plans []plan) []plan {
	sorted := append([]plan(nil), plans...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].weight > sorted[j].weight })
	return sorted
}

// pairs combines single moves two by two. Moves that cure the same and sit on the same
// axis are left out: they are alternatives. When failures are known, a pair weighs less
// if they speak for only one of its parts.
func (d *diagnosis) pairs(singles []plan, records map[string]record) []plan {
	var all []plan
	for i := range singles {
		for j := i + 1; j < len(singles); j++ {
			a, b := singles[i].moves[0], singles[j].moves[0]
			if a.axis == b.axis && a.cures == b.cures {
				continue
			}
			moves := []move{a, b}
			if b.rank < a.rank {
				moves = []move{b, a}
			}
			weight := d.weigh(moves, records)
			if len(d.failures) > 0 && (d.count(a.cures) == 0 || d.count(b.cures) == 0) {
				weight /= 4
			}
			all = append(all, plan{base: singles[i].base, parent: singles[i].parent, moves: moves, weight: weight})
		}
	}
	return byWeight(all)
}

// draw removes one plan at random, with probability by weight, and halves what resembles
// it, so that the next draws look elsewhere.
func draw(random *rand.Rand, plans []plan) (plan, []plan) {
	total := 0.0
	for _, p := range plans {
		total += p.weight
	}
	at := random.Float64() * total
	chosen := len(plans) - 1
	for i, p := range plans {
		if at < p.weight {
			chosen = i
			break
		}
		at -= p.weight
	}
	drawn := plans[chosen]
	rest := append([]plan(nil), plans[:chosen]...)
	rest = append(rest, plans[chosen+1:]...)
	for i := range rest {
		if rest[i].moves[0].axis == drawn.moves[0].axis {
			rest[i].weight /= 2
		}
		if rest[i].moves[0].name == drawn.moves[0].name {
			rest[i].weight /= 2
		}
	}
	return drawn, rest
}

// make performs the moves of a plan one after the other; later moves are found again in
// the changed source by name and step.
func (p plan) make(d *diagnosis) (*source, bool) {
	if p.atOnce {
		var edits []edit
		for _, m := range p.moves {
			edits = append(edits, m.edits...)
		}
		c, err := p.base.apply(edits)
		return c, err == nil
	}
	c, err := p.base.apply(p.moves[0].edits)
	for _, m := range p.moves[1:] {
		if err != nil {
			return nil, false
		}
		again, ok := find(movesOf(c, d), m)
		if !ok {
			return nil, false
		}
		c, err = c.apply(again.edits)
	}
	return c, err == nil
}

func find(moves []move, wanted move) (move, bool) {
	for _, m := range moves {
		if m.name == wanted.name && m.step == wanted.step {
			return m, true
		}
	}
	return move{}, false
}
