package ledger

import (
	"fmt"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Calibration is a run that was measured: what it took by phase. It foretells a run of the
// same domain: how much there is to do goes by the calibration, in tokens, which are the
// same on every machine, and how fast it is done by a probe of this one.
type Calibration struct {
	Domain    string           `json:"domain"`
	Condition string           `json:"condition"`
	Model     string           `json:"model"`
	Planned   []engine.Planned `json:"planned"` // before it began
	Phases    []Phase          `json:"phases"`  // as it went
}

// Phase is the cost of a phase, of the start or of the measuring.
type Phase struct {
	Kind     engine.RecordKind    `json:"kind"`
	Cycle    int                  `json:"cycle"`
	Rollouts int                  `json:"rollouts"`
	Tokens   engine.SummaryTokens `json:"tokens"`
	Forward  int                  `json:"forward"` // tokens through forward and backward
	Busy     float64              `json:"busy"`    // seconds of rollouts and updates
	Rest     float64              `json:"rest"`    // seconds besides
}

// work is what playing takes time for: sampling goes token by token, four tokens of a
// prompt take about as long as one.
func work(t engine.SummaryTokens) float64 {
	return float64(t.Sampled) + float64(t.Prompt-t.Cached)/4
}

// NewCalibration is a run as a calibration. The manifest says what was run.
func NewCalibration(c engine.Config, planned []engine.Planned, lines []Line) Calibration {
	k := Calibration{Domain: c.Domain, Condition: c.Condition, Model: c.Model, Planned: planned}
	for _, t := range Phases(lines) {
		s := t.Spending
		k.Phases = append(k.Phases, Phase{Kind: t.Kind, Cycle: t.Cycle, Rollouts: t.Rollouts, Tokens: tokensOf(s.Cost),
			Forward: s.Cost.Forward, Busy: s.Rollouts + s.Cost.TrainSeconds, Rest: s.Wall - s.Rollouts - s.Cost.TrainSeconds})
	}
	return k
}

func tokensOf(c engine.Cost) engine.SummaryTokens {
	return engine.SummaryTokens{Prompt: c.Prompt, Cached: c.Cached, Sampled: c.Sampled, Trained: c.Trained}
}

// NewEstimate foretells planned units. known is nil when no such run was measured: then
// every rollout is taken to be like the probe's, as many to be rewarded.
func NewEstimate(probe engine.Probe, planned []engine.Planned, known *Calibration) engine.Estimate {
	basis := "the probe alone: rollouts that get longer are not foreseen"
	if known != nil {
		basis = fmt.Sprintf("a probe and a run of %s, %s", known.Domain, known.Condition)
	} else {
		c := fromProbe(probe)
		known = &c
	}
	perWork := probe.Seconds / max(1, work(tokensOf(probe.Cost)))
	perForward := probe.LearnSeconds / float64(max(1, probe.Learned))
	if probe.Learned == 0 {
		perForward = 3 * perWork / 4 // forward and backward, as prompts are run
	}
	e := engine.Estimate{Basis: basis}
	var sum [4]float64
	for _, p := range planned {
		phase := known.like(p)
		if phase.Rollouts == 0 {
			continue
		}
		rollouts := float64(p.Rollouts) * known.share(p)
		per := rollouts / float64(phase.Rollouts)
		e.Rollouts += int(rollouts + .5)
		t := phase.Tokens
		for i, n := range []int{t.Prompt, t.Cached, t.Sampled, t.Trained} {
			sum[i] += per * float64(n)
		}
		e.Seconds += per * (work(t)*perWork + float64(phase.Forward)*perForward)
	}
	e.Seconds *= 1 + known.rest()
	e.Tokens = engine.SummaryTokens{Prompt: int(sum[0]), Cached: int(sum[1]), Sampled: int(sum[2]), Trained: int(sum[3])}
	if taken := probe.Energy.Total(); taken != nil && probe.Energy.Package.Seconds+probe.Energy.Card.Seconds > 0 {
		joules := *taken / max(probe.Energy.Package.Seconds, probe.Energy.Card.Seconds) * e.Seconds
		e.Joules = &joules
	}
	return e
}

// rest is the time besides rollouts and updates, as a share of theirs.
func (k *Calibration) rest() float64 {
	busy, rest := 0.0, 0.0
	for _, p := range k.Phases {
		if p.Rollouts > 0 {
			busy += p.Busy
			rest += p.Rest
		}
	}
	return rest / max(busy, 1e-9)
}

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
	var k Calibration
	t := tokensOf(p.Cost)
	t.Trained = 0
	for _, kind := range []engine.RecordKind{engine.StepRecord, engine.SearchRecord, engine.MeasureRecord} {
		k.Phases = append(k.Phases, Phase{Kind: kind, Rollouts: p.Rollouts, Tokens: t})
	}
	step := &k.Phases[0]
	step.Tokens.Trained = int(p.Rewarded * float64(p.Cost.Sampled))
	step.Forward = int(p.Lesson * p.Rewarded * float64(p.Rollouts))
	return k
}
