package ledger

import (
	"fmt"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Calibration is a run that was measured: what it took by phase, and the probe before it. It
// foretells a run of the same domain: how much there is to do goes by the calibration, in
// tokens, which are the same on every machine, and how fast it is done by how a probe of
// this machine compares with the probe of then.
type Calibration struct {
	Domain    string           `json:"domain"`
	Condition string           `json:"condition"`
	Model     string           `json:"model"`
	Seed      uint64           `json:"seed"`
	Probe     engine.Probe     `json:"probe"`
	Planned   []engine.Planned `json:"planned"` // before it began
	Phases    []Phase          `json:"phases"`  // as it went
}

// Phase is the cost of a phase, of the start or of the measuring.
type Phase struct {
	Kind     engine.RecordKind    `json:"kind"`
	Cycle    int                  `json:"cycle"`
	Rollouts int                  `json:"rollouts"`
	Tokens   engine.SummaryTokens `json:"tokens"`
	Play     float64              `json:"play"`  // seconds of rollouts
	Train    float64              `json:"train"` // seconds of updates
	Rest     float64              `json:"rest"`  // seconds besides
}

// work is what playing takes time for: sampling goes token by token, four tokens of a
// prompt take about as long as one.
func work(t engine.SummaryTokens) float64 {
	return float64(t.Sampled) + float64(t.Prompt-t.Cached)/4
}

// NewCalibration is a run as a calibration. The manifest says what was run.
func NewCalibration(c engine.Config, probe engine.Probe, planned []engine.Planned, lines []Line) Calibration {
	k := Calibration{Domain: c.Domain, Condition: c.Condition, Model: c.Model, Seed: c.Seed, Probe: probe, Planned: planned}
	for _, t := range Phases(lines) {
		s := t.Spending
		k.Phases = append(k.Phases, Phase{Kind: t.Kind, Cycle: t.Cycle, Rollouts: t.Rollouts, Tokens: s.Cost.Tokens(),
			Play: s.Rollouts, Train: s.Cost.TrainSeconds, Rest: s.Wall - s.Rollouts - s.Cost.TrainSeconds})
	}
	return k
}

// NewEstimate foretells planned units as the mean of what each known run says. With none,
// every rollout is taken to be like the probe's, as many to be rewarded.
func NewEstimate(probe engine.Probe, planned []engine.Planned, known []Calibration) engine.Estimate {
	e := engine.Estimate{Basis: "the probe alone: rollouts that get longer are not foreseen"}
	if n := len(known); n > 0 {
		e.Basis = fmt.Sprintf("a probe and %d run%s of %s, %s", n, plural(n), known[0].Domain, known[0].Condition)
	} else {
		known = []Calibration{fromProbe(probe)}
	}
	var sum amount
	for _, k := range known {
		sum.add(k.foretell(probe, planned), 1/float64(len(known)))
	}
	e.Rollouts, e.Seconds = round(sum.rollouts), sum.seconds
	e.Tokens = engine.SummaryTokens{Prompt: round(sum.prompt), Cached: round(sum.cached), Sampled: round(sum.sampled), Trained: round(sum.trained)}
	if taken := probe.Energy.Total(); taken != nil && probe.Energy.Package.Seconds+probe.Energy.Card.Seconds > 0 {
		joules := *taken / max(probe.Energy.Package.Seconds, probe.Energy.Card.Seconds) * e.Seconds
		e.Joules = &joules
	}
	return e
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func round(x float64) int { return int(x + .5) }

// amount is what units take, before it is rounded.
type amount struct{ rollouts, prompt, cached, sampled, trained, seconds float64 }

func (a *amount) add(b amount, per float64) {
	a.rollouts += per * b.rollouts
	a.prompt += per * b.prompt
	a.cached += per * b.cached
	a.sampled += per * b.sampled
	a.trained += per * b.trained
	a.seconds += per * b.seconds
}

// foretell is what planned units take if they go as in k: the same plan as all of k did,
// another plan phase by phase.
func (k *Calibration) foretell(probe engine.Probe, planned []engine.Planned) (sum amount) {
	play, train := k.slower(probe)
	add := func(phase Phase, per float64) {
		t := phase.Tokens
		sum.add(amount{float64(phase.Rollouts), float64(t.Prompt), float64(t.Cached), float64(t.Sampled), float64(t.Trained),
			play*(phase.Play+phase.Rest) + train*phase.Train}, per)
	}
	if slices.Equal(planned, k.Planned) {
		for _, phase := range k.Phases {
			if phase.Rollouts > 0 { // the start is over by then
				add(phase, 1)
			}
		}
		return sum
	}
	for _, p := range planned {
		if phase := k.like(p); phase.Rollouts > 0 {
			add(phase, float64(p.Rollouts)*k.share(p)/float64(phase.Rollouts))
		}
	}
	return sum
}

// slower is how many times as long as then playing and training take now.
func (k *Calibration) slower(now engine.Probe) (play, train float64) {
	play = perWork(now) / max(perWork(k.Probe), 1e-12)
	if now.Learned == 0 || k.Probe.Learned == 0 {
		return play, play
	}
	return play, perForward(now) / max(perForward(k.Probe), 1e-12)
}

func perWork(p engine.Probe) float64 { return p.Seconds / max(1, work(p.Cost.Tokens())) }

func perForward(p engine.Probe) float64 { return p.LearnSeconds / float64(max(1, p.Learned)) }

// like is the measured phase of the same kind in the same cycle, or in the last before it.
func (k *Calibration) like(p engine.Planned) Phase {
	var best Phase
	for _, phase := range k.Phases {
		if phase.Kind == p.Kind && (best.Rollouts == 0 || phase.Cycle <= p.Cycle) {
			best = phase
		}
	}
	if best.Rollouts == 0 && p.Kind == engine.MeasureRecord && len(k.Phases) > 0 {
		return k.Phases[len(k.Phases)-1]
	}
	return best
}

// share is the part of planned rollouts that came about in the same cycle, or where there
// was none, in all: candidates are refused, points of the curve are the same.
func (k *Calibration) share(of engine.Planned) float64 {
	var planned, played, plannedAll, playedAll int
	for _, p := range k.Planned {
		if p.Kind == of.Kind {
			plannedAll += p.Rollouts
			if p.Cycle == of.Cycle {
				planned += p.Rollouts
			}
		}
	}
	for _, p := range k.Phases {
		if p.Kind == of.Kind {
			playedAll += p.Rollouts
			if p.Cycle == of.Cycle {
				played += p.Rollouts
			}
		}
	}
	switch {
	case planned > 0 && played > 0:
		return float64(played) / float64(planned)
	case plannedAll > 0 && playedAll > 0:
		return float64(playedAll) / float64(plannedAll)
	}
	return 1
}

// fromProbe takes everything to be like the probe.
func fromProbe(p engine.Probe) Calibration {
	k := Calibration{Probe: p}
	t := p.Cost.Tokens()
	t.Trained = 0
	for _, kind := range []engine.RecordKind{engine.StepRecord, engine.SearchRecord, engine.MeasureRecord} {
		k.Phases = append(k.Phases, Phase{Kind: kind, Rollouts: p.Rollouts, Tokens: t, Play: p.Seconds})
	}
	step := &k.Phases[0]
	step.Tokens.Trained = int(p.Rewarded * float64(p.Cost.Sampled))
	perToken := perForward(p)
	if p.Learned == 0 {
		perToken = 3 * perWork(p) / 4 // forward and backward, as prompts are run
	}
	step.Train = p.Lesson * p.Rewarded * float64(p.Rollouts) * perToken
	return k
}
