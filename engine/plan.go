package engine

import (
	"fmt"
	"maps"
	"math"
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

func (k PhaseKind) other() PhaseKind {
	if k == WeightKind {
		return HarnessKind
	}
	return WeightKind
}

// Plan is a condition: which phases follow each other, and what ends one.
type Plan struct {
	Phases []PhaseKind
	Pace   Pace
	// EndsWith is the kind of phase that a run ends with; a phase that would leave no
	// room for one any more is not begun. Empty = any.
	EndsWith PhaseKind
	// PromptsOnly lets candidates differ from the seed harness in its prompts only.
	PromptsOnly bool
}

// Pace says what ends a phase, and with the last of them the run. The budget of rollouts
// ends both in every condition.
type Pace int

// The paces.
const (
	// PaceCycles: phases of fixed length, Config.Cycles times.
	PaceCycles Pace = iota
	// PaceBudget: phases of fixed length until the rollouts are spent.
	PaceBudget
	// PaceAdaptive: a phase ends when it has stopped to help (Config.Adaptive), the run
	// when the rollouts are spent.
	PaceAdaptive
	// PaceStages: each phase once, as long as all its like in whale are together. What
	// rollouts are left then, or come when the budget grows, go to the last kind of phase
	// in further cycles.
	PaceStages
)

var alternating = []PhaseKind{WeightKind, HarnessKind}

// Conditions are the ways to spend the same rollouts. prompt-only is whale without code:
// fast changes of the prompt, slow ones of the weights.
var Conditions = map[string]Plan{
	"whale":                   {Phases: alternating, EndsWith: WeightKind},
	"adaptive":                {Phases: alternating, EndsWith: WeightKind, Pace: PaceAdaptive},
	"prompt-only":             {Phases: alternating, EndsWith: WeightKind, PromptsOnly: true},
	"weight-only":             {Phases: []PhaseKind{WeightKind}, Pace: PaceBudget},
	"harness-only":            {Phases: []PhaseKind{HarnessKind}, Pace: PaceBudget},
	"stagewise-weights-first": {Phases: alternating, Pace: PaceStages},
	"stagewise-harness-first": {Phases: []PhaseKind{HarnessKind, WeightKind}, Pace: PaceStages},
}

// Updates are the weight phases by name.
var Updates = map[string]func(*Site) WeightPhase{
	"":                func(s *Site) WeightPhase { return RSFT{s} },
	"rsft":            func(s *Site) WeightPhase { return RSFT{s} },
	"advantage":       func(s *Site) WeightPhase { return Advantage{s} },
	"policy-gradient": func(s *Site) WeightPhase { return PolicyGradient{s} },
}

// methods say what each of Updates learns from, and how.
var methods = map[string]method{"": {choose: rewarded}, "rsft": {choose: rewarded}, "advantage": {choose: advantaged},
	"policy-gradient": {choose: grouped, gradient: true}}

// Searches are the harness phases by name.
var Searches = map[string]func(*Site) HarnessPhase{
	"":             func(s *Site) HarnessPhase { return MetaHarness{s} },
	"meta-harness": func(s *Site) HarnessPhase { return MetaHarness{s} },
	"hill-climber": func(s *Site) HarnessPhase { return HillClimber{s} },
}

// Schedule says in words what ends the phases.
func (c Config) Schedule() string {
	steps := fmt.Sprintf("%d steps", c.Steps)
	if c.Epochs > 0 {
		steps = fmt.Sprintf("%g epochs", c.Epochs)
	}
	search := fmt.Sprintf("%d iterations of %d candidates", c.Iterations, c.Candidates)
	plan, a := Conditions[c.Condition], c.Adaptive
	var text string
	switch {
	case plan.Pace == PaceAdaptive:
		window := fmt.Sprintf("%d steps", a.WindowSteps)
		if a.WindowSteps == 0 {
			window = fmt.Sprintf("%g epochs", a.Window)
		}
		text = fmt.Sprintf("steps while the reward over %s improves, %d to %d iterations of %d candidates with patience %d",
			window, a.Least, a.Most, c.Candidates, a.Patience)
	case plan.Pace == PaceStages:
		text = fmt.Sprintf("%s first, then %s, each as much as %d cycles of %s and %s", plan.Phases[0], plan.Phases[1], c.Cycles, steps, search)
	case !plan.has(HarnessKind):
		text = "phases of " + steps
	case !plan.has(WeightKind):
		text = "phases of " + search
	default:
		text = fmt.Sprintf("%d cycles of %s and %s", c.Cycles, steps, search)
	}
	if plan.PromptsOnly {
		text += ", prompts only"
	}
	if c.StopAt > 0 {
		text += fmt.Sprintf(", until a success rate of %g", c.StopAt)
	}
	return text
}

// ConditionNames lists the conditions, for messages.
func ConditionNames() string { return names(Conditions) }

func names[V any](m map[string]V) string {
	return strings.TrimPrefix(strings.Join(sortedKeys(m), ", "), ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Trains says whether the plan has weight phases.
func (p Plan) Trains() bool { return p.has(WeightKind) }

func (p Plan) has(k PhaseKind) bool { return slices.Contains(p.Phases, k) }

// at is the kind and cycle of phase number n, from 0.
func (p Plan) at(n int) (PhaseKind, int) {
	if last := len(p.Phases) - 1; p.Pace == PaceStages {
		return p.Phases[min(n, last)], 1 + max(0, n-last)
	}
	return p.Phases[n%len(p.Phases)], n/len(p.Phases) + 1
}

// Unit is the smallest piece of a run that is finished as a whole or not at all: an
// update step or a search iteration.
type Unit struct {
	Phase PhaseKind
	Cycle int // from 1
	Index int // from 1 in its phase
	Of    int // units in this phase at most, if the budget lasts
}

// StepsIn is the number of update steps in a stretch of so many epochs, at least one;
// what is left of an epoch that does not fill a step is no part of it.
func (c Config) StepsIn(epochs float64, d *Domain) int {
	return max(1, int(math.Round(epochs*float64(len(d.Train)/c.Prompts))))
}

// phaseSteps is E: the update steps of a weight phase of fixed length.
func (c Config) phaseSteps(d *Domain) int {
	if c.Epochs > 0 {
		return c.StepsIn(c.Epochs, d)
	}
	return c.Steps
}

// Budget is the number of training and search rollouts that every condition may spend.
func (c Config) Budget(d *Domain) int {
	if c.Rollouts > 0 {
		return c.Rollouts
	}
	return c.scheduled(WeightKind, d) + c.scheduled(HarnessKind, d)
}

// scheduled is what the condition whale takes of one kind of rollout at most.
func (c Config) scheduled(k PhaseKind, d *Domain) int {
	if k == WeightKind {
		return c.Cycles * c.phaseSteps(d) * c.Prompts * c.Samples
	}
	return (c.Cycles - 1) * (c.cost(HarnessKind, 1, d) + (c.Iterations-1)*c.cost(HarnessKind, 2, d))
}

// share is the part of the budget that goes to one kind of phase in stages.
func (c Config) share(k PhaseKind, d *Domain) int {
	own, other := c.scheduled(k, d), c.scheduled(k.other(), d)
	if c.Rollouts == 0 || own+other == 0 {
		return own
	}
	return int(int64(c.Rollouts) * int64(own) / int64(own+other))
}

// cost is the most rollouts that unit number index of a phase takes.
func (c Config) cost(k PhaseKind, index int, d *Domain) int {
	one := limited(d.Select, c.SelectTasks) * c.SelectSamples
	switch {
	case k == WeightKind:
		return c.Prompts * c.Samples
	case index == 1:
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
	u := Unit{Index: s.InPhase + 1}
	u.Phase, u.Cycle = plan.at(s.Phases)
	left := c.left(plan, u.Phase, s, d)
	u.Of = c.length(plan, u, s, left, d)
	need := c.cost(u.Phase, u.Index, d)
	if u.Phase == HarnessKind && u.Index == 1 {
		need += c.cost(HarnessKind, 2, d) // evaluating alone changes nothing
	}
	need += s.Short * c.SelectSamples
	switch {
	case plan.Pace == PaceCycles && u.Cycle > c.Cycles,
		plan.Pace == PaceCycles && u.Cycle == c.Cycles && plan.EndsWith == WeightKind && u.Phase == HarnessKind,
		c.StopAt > 0 && s.Reached >= c.StopAt,
		need > left:
		return Unit{}, false
	}
	return u, true
}

// left are the rollouts that a phase may still spend.
func (c Config) left(plan Plan, k PhaseKind, s State, d *Domain) int {
	if plan.Pace == PaceStages && s.Phases < len(plan.Phases)-1 {
		return c.share(k, d) - s.Spent.of(k)
	}
	left := c.Budget(d) - s.Spent.Weight - s.Spent.Harness
	if plan.EndsWith == WeightKind && k == HarnessKind { // keep the last weight phase
		steps := c.phaseSteps(d)
		if plan.Pace == PaceAdaptive {
			steps = 2 * c.window(d)
		}
		left -= steps * c.cost(WeightKind, 1, d)
	}
	return left
}

// length is the most units that a phase has.
func (c Config) length(plan Plan, u Unit, s State, left int, d *Domain) int {
	cost := max(1, c.cost(u.Phase, 2, d))
	switch {
	case u.Phase == WeightKind && (plan.Pace == PaceCycles || plan.Pace == PaceBudget):
		return c.phaseSteps(d)
	case u.Phase == WeightKind:
		return u.Index - 1 + left/cost
	case plan.Pace == PaceAdaptive:
		return 1 + c.Adaptive.Most
	case plan.Pace == PaceStages: // as if every candidate ran; a search that finds nothing new must end
		atStart := left + s.Spent.Harness - s.Before.Harness
		return 1 + (atStart-c.cost(HarnessKind, 1, d))/cost
	}
	return c.Iterations
}

// window is the number of steps that an adaptive weight phase averages the reward over.
func (c Config) window(d *Domain) int {
	if c.Adaptive.WindowSteps > 0 {
		return c.Adaptive.WindowSteps
	}
	return c.StepsIn(c.Adaptive.Window, d)
}

// settled says that an adaptive phase has stopped to help.
func (c Config) settled(k PhaseKind, s State, d *Domain) bool {
	if k == HarnessKind {
		proposals := s.InPhase - 1
		return proposals >= c.Adaptive.Least && s.Since >= c.Adaptive.Patience
	}
	w := c.window(d)
	best, at := math.Inf(-1), w
	for n := w; n <= len(s.Means); n++ {
		sum := 0.0
		for _, mean := range s.Means[n-w : n] {
			sum += mean
		}
		if sum > best {
			best, at = sum, n
		}
	}
	return len(s.Means)-at >= w
}

// endsPhase says whether a unit is the last of its phase, given the state after it. An
// adaptive phase that has settled goes on when no other would follow: the budget is there
// to be spent.
func (c Config) endsPhase(u Unit, after State, d *Domain) bool {
	if u.Index >= u.Of {
		return true
	}
	if Conditions[c.Condition].Pace == PaceAdaptive && c.settled(u.Phase, after, d) {
		if _, more := c.next(State{Phases: after.Phases + 1, Spent: after.Spent, Reached: after.Reached}, d); more {
			return true
		}
	}
	_, more := c.next(after, d)
	return !more
}
