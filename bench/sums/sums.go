// Package sums is the generated arithmetic domain: one or two additions or subtractions,
// written out step by step in one reply, no tool (spec/nano.md section 3.2). It needs no
// file and no network.
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs.
// What it does not cover: anything but small sums; no harness can raise the score, which
// is what this domain is for.
package sums

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "sums"

// Options are the sizes of the splits; zero values mean the defaults.
type Options struct {
	Test   int // default 100
	Select int // default 64
	Train  int // default 1,600; more than about 1,800 has fewer one-step tasks in it
}

// patience is how often in a row a draw may be a repetition before the pool counts as
// used up.
const patience = 10000

// New draws the tasks of a seed. Half of each split has one step and half two, no two
// tasks are the same.
func New(seed uint64, o Options) (*engine.Domain, error) {
	if o.Test == 0 {
		o.Test = 100
	}
	if o.Select == 0 {
		o.Select = 64
	}
	if o.Train == 0 {
		o.Train = 1600
	}
	source, err := harnesses.Source(Name)
	if err != nil {
		return nil, err
	}
	skill, err := harnesses.Skill(Name)
	if err != nil {
		return nil, err
	}
	w := &world{rng: bench.Rand(seed, "sums tasks"), answers: map[engine.TaskID]string{}}
	d := &engine.Domain{
		Name:   Name,
		Budget: engine.Budget{Tokens: 256, CallTokens: 32, Turns: 8, Tools: 1, LogBytes: 4096},
		World:  w,
		Seed:   source,
		Skill:  skill,
	}
	for _, split := range []struct {
		tasks *[]engine.Task
		n     int
	}{{&d.Test, o.Test}, {&d.Select, o.Select}, {&d.Train, o.Train}} {
		if *split.tasks, err = w.tasks(split.n); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sum is one problem: a first term and one or two steps.
type sum struct {
	first int
	steps []step
}

// step adds b, or takes it away.
type step struct {
	minus bool
	b     int
}

func (s step) apply(v int) int {
	if s.minus {
		return v - s.b
	}
	return v + s.b
}

func (s step) String() string {
	if s.minus {
		return "-" + strconv.Itoa(s.b)
	}
	return "+" + strconv.Itoa(s.b)
}

// draw makes a sum: first term 1 to 20, steps +1..9 or -0..min(v,9), never negative.
func draw(rng *rand.Rand, steps int) sum {
	s := sum{first: 1 + rng.IntN(20)}
	v := s.first
	for range steps {
		next := step{b: 1 + rng.IntN(9)}
		if rng.IntN(2) == 0 {
			next = step{minus: true, b: rng.IntN(min(v, 9) + 1)}
		}
		s.steps = append(s.steps, next)
		v = next.apply(v)
	}
	return s
}

// wordings of a question; %s is the expression.
var wordings = []string{"What is %s?", "Compute %s.", "%s=?"}

// question words a sum.
func (s sum) question(rng *rand.Rand) string {
	text := strconv.Itoa(s.first)
	for _, next := range s.steps {
		text += next.String()
	}
	return strings.Replace(wordings[rng.IntN(len(wordings))], "%s", text, 1)
}

func (s sum) value() int {
	v := s.first
	for _, next := range s.steps {
		v = next.apply(v)
	}
	return v
}

// world is the engine.World: the reference answers. Only New writes to it.
type world struct {
	rng     *rand.Rand
	answers map[engine.TaskID]string
}

// tasks draws n tasks that no split has yet, one and two steps in turn.
func (w *world) tasks(n int) ([]engine.Task, error) {
	var list []engine.Task
	for repeated := 0; len(list) < n; {
		steps := 1 + len(list)%2
		if repeated > patience/2 { // this kind is used up
			steps = 2
		}
		if repeated > patience {
			return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("only %d different tasks of the %d wanted", len(list), n))
		}
		s := draw(w.rng, steps)
		text := s.question(w.rng)
		id := bench.TaskID(Name, text)
		if _, taken := w.answers[id]; taken {
			repeated++
			continue
		}
		repeated = 0
		w.answers[id] = strconv.Itoa(s.value())
		tag := "1 step"
		if steps == 2 {
			tag = "2 steps"
		}
		list = append(list, engine.Task{ID: id, Domain: Name, Input: text, Tags: []string{tag}})
	}
	return list, nil
}

// Start opens a rollout; there are no tools.
func (w *world) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w.answers[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a task of %s", Name))
	}
	return environment{}, nil
}

// Verify compares the answer in the model's text with the value, as text.
func (w *world) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	want, ok := w.answers[task.ID]
	if !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a task of %s", Name))
	}
	return bench.Judge(t, want), nil
}

type environment struct{}

// Tool refuses every call.
func (environment) Tool(_ context.Context, call engine.ToolCall) (string, error) {
	return "", fmt.Errorf("%w: no tool %q, this domain has none", engine.ErrTool, call.Name)
}

// Record is empty: only what the model answers counts.
func (environment) Record() string { return "" }
