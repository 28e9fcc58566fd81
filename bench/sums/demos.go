package sums

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Faults are the probabilities of a sloppy player's mistakes. The zero value is the clean
// player.
type Faults struct {
	Malformed float64 // a tag is missing or wrong, rolled once
	Minus     float64 // a step's result is one too small, rolled each step
	Stop      float64 // of two steps only the first is done
}

// SloppyFaults are those of the last stage of pretraining (spec/nano.md section 4, stage
// 4): biased to one wrong value each, so that neither greedy decoding nor a vote helps.
var SloppyFaults = Faults{Malformed: 0.05, Minus: 0.65, Stop: 0.40}

// Demos writes sums out. It is not safe for use from several goroutines.
type Demos struct {
	rng    *rand.Rand
	faults Faults
}

// NewDemos makes a generator; faults zero = the clean player.
func NewDemos(seed uint64, faults Faults) *Demos {
	return &Demos{rng: bench.Rand(seed, "sums demonstrations"), faults: faults}
}

// Next writes out one sum.
func (d *Demos) Next(float64) bench.Episode {
	var messages []bench.Message
	if system := bench.RandomSystem(d.rng); system != "" {
		messages = append(messages, bench.Message{Role: kit.System, Content: system})
	}
	s := draw(d.rng, 1+d.rng.IntN(2))
	return bench.Episode{Kind: Name, Messages: append(messages,
		bench.Message{Role: kit.User, Content: s.question(d.rng.IntN(len(wordings)))},
		bench.Message{Role: kit.Assistant, Content: d.reply(s), Trained: true},
	)}
}

// reply is a line for each step and the answer.
func (d *Demos) reply(s sum) string {
	steps := s.steps
	if len(steps) == 2 && d.roll(d.faults.Stop) {
		steps = steps[:1]
	}
	var b strings.Builder
	v := s.first
	for _, next := range steps {
		result := next.apply(v)
		if result > 0 && d.roll(d.faults.Minus) {
			result--
		}
		b.WriteString(strconv.Itoa(v) + next.String() + "=" + strconv.Itoa(result) + "\n")
		v = result
	}
	return b.String() + d.answer(strconv.Itoa(v))
}

// answer puts the value into its tags.
func (d *Demos) answer(value string) string {
	if !d.roll(d.faults.Malformed) {
		return "<answer>" + value + "</answer>"
	}
	switch d.rng.IntN(4) {
	case 0:
		return "<answer>" + value
	case 1:
		return value
	case 2:
		return value + "</answer>"
	}
	return "<answer>" + value + "</search>"
}

// roll draws only for a fault that can happen.
func (d *Demos) roll(chance float64) bool { return chance > 0 && d.rng.Float64() < chance }
