package engine

import (
	"maps"
	"slices"
	"strings"
)

// PhaseKind says which half of the alternation a phase is.
type PhaseKind string

// The two kinds of phase.
const (
	WeightKind  PhaseKind = "weight"
	HarnessKind PhaseKind = "harness"
)

// Plan is a condition: the phases of one cycle, repeated.
type Plan struct {
	Phases []PhaseKind
	// EndsWith is the kind of phase that a run ends with; a cycle that could not reach
	// one any more is not begun. Empty = any.
	EndsWith PhaseKind
	// Capped conditions end after Config.Cycles, the others when the rollouts are spent.
	Capped bool
}

// Conditions are the ways to spend the same rollouts.
var Conditions = map[string]Plan{
	"whale":        {Phases: []PhaseKind{WeightKind, HarnessKind}, EndsWith: WeightKind, Capped: true},
	"weight-only":  {Phases: []PhaseKind{WeightKind}},
	"harness-only": {Phases: []PhaseKind{HarnessKind}},
}

func conditionNames() string {
	return strings.Join(sortedKeys(Conditions), ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (p Plan) has(k PhaseKind) bool { return slices.Contains(p.Phases, k) }

// Unit is the smallest piece of a run that is finished as a whole or not at all: an
// update step or a search iteration.
type Unit struct {
	Phase PhaseKind
	Cycle int // from 1
	Index int // from 1 in its phase
	Of    int // units in this phase, if the budget lasts
}

// Budget is the number of training and search rollouts that every condition may spend.
func (c Config) Budget(d *Domain) int {
	if c.Rollouts > 0 {
		return c.Rollouts
	}
	search := c.cost(Unit{Phase: HarnessKind, Index: 1}, d) + (c.Iterations-1)*c.cost(Unit{Phase: HarnessKind, Index: 2}, d)
	return c.Cycles*c.Steps*c.Prompts*c.Samples + (c.Cycles-1)*search
}

// cost is the most rollouts that a unit takes.
func (c Config) cost(u Unit, d *Domain) int {
	one := limited(d.Select, c.SelectTasks) * c.SelectSamples
	switch {
	case u.Phase == WeightKind:
		return c.Prompts * c.Samples
	case u.Index == 1:
		return one
	}
	return one * c.Candidates
}

func limited(tasks []Task, most int) int {
	if most > 0 {
		return min(most, len(tasks))
	}
	return len(tasks)
}

// next says which unit follows a state; false when the run is over. It is a function of
// the state alone, so a resumed run goes on exactly as it would have.
func (c Config) next(s State, d *Domain) (Unit, bool) {
	plan := Conditions[c.Condition]
	n := len(plan.Phases)
	u := Unit{Phase: plan.Phases[s.Phases%n], Cycle: s.Phases/n + 1, Index: s.InPhase + 1}
	u.Of = c.Steps
	if u.Phase == HarnessKind {
		u.Of = c.Iterations
	}
	left := c.Budget(d) - s.Spent.Weight - s.Spent.Harness
	if plan.EndsWith == WeightKind && u.Phase == HarnessKind {
		left -= c.Steps * c.Prompts * c.Samples // the last weight phase
	}
	need := c.cost(u, d)
	if u.Phase == HarnessKind && u.Index == 1 {
		need += c.cost(Unit{Phase: HarnessKind, Index: 2}, d) // evaluating alone changes nothing
	}
	switch {
	case plan.Capped && u.Cycle > c.Cycles,
		plan.Capped && u.Cycle == c.Cycles && plan.EndsWith == WeightKind && u.Phase == HarnessKind,
		need > left:
		return Unit{}, false
	}
	return u, true
}

// endsPhase says whether a unit that took so many rollouts is the last of its phase.
func (c Config) endsPhase(u Unit, before State, spent int, d *Domain) bool {
	if u.Index >= u.Of {
		return true
	}
	after := State{Phases: before.Phases, InPhase: before.InPhase + 1, Spent: before.Spent}
	after.Spent.Weight += spent // which of the two does not matter to the budget
	_, more := c.next(after, d)
	return !more
}
