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
	Train  int // default 1,600; more than about 1,900 has fewer one-step tasks in it
}

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
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	w := world{}
	left := newPool(bench.Rand(seed, "sums tasks"))
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
		*split.tasks = w.tasks(left.take(split.n))
		if len(*split.tasks) < split.n {
			return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("only %d different tasks left of the %d wanted", len(*split.tasks), split.n))
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

// question words a sum in one of the wordings.
func (s sum) question(wording int) string {
	text := strconv.Itoa(s.first)
	for _, next := range s.steps {
		text += next.String()
	}
	return strings.Replace(wordings[wording], "%s", text, 1)
}

func (s sum) value() int {
	v := s.first
	for _, next := range s.steps {
		v = next.apply(v)
	}
	return v
}

// stepsFrom are all steps that may follow a value.
func stepsFrom(v int) []step {
	var list []step
	for b := 1; b <= 9; b++ {
		list = append(list, step{b: b})
	}
	for b := 0; b <= min(v, 9); b++ {
		list = append(list, step{minus: true, b: b})
	}
	return list
}

// problem is a sum in one wording.
type problem struct {
	sum
	text string
}

// pool holds the problems that no split has taken yet, by steps - 1: about 1,000 of one
// step and 19,000 of two.
type pool [2][]problem

// newPool lists every problem in random order.
func newPool(rng *rand.Rand) *pool {
	p := &pool{}
	add := func(s sum) {
		for wording := range wordings {
			kind := &p[len(s.steps)-1]
			*kind = append(*kind, problem{s, s.question(wording)})
		}
	}
	for first := 1; first <= 20; first++ {
		for _, one := range stepsFrom(first) {
			add(sum{first, []step{one}})
			for _, two := range stepsFrom(one.apply(first)) {
				add(sum{first, []step{one, two}})
			}
		}
	}
	for _, kind := range p {
		rng.Shuffle(len(kind), func(i, j int) { kind[i], kind[j] = kind[j], kind[i] })
	}
	return p
}

// take removes up to n problems, one and two steps in turn while both last.
func (p *pool) take(n int) []problem {
	var list []problem
	for len(list) < n && len(p[0])+len(p[1]) > 0 {
		kind := &p[len(list)%2]
		if len(*kind) == 0 {
			kind = &p[1-len(list)%2]
		}
		list = append(list, (*kind)[0])
		*kind = (*kind)[1:]
	}
	return list
}

// world is the engine.World: the reference answers. Only New writes to it.
type world map[engine.TaskID]string

func (w world) tasks(problems []problem) []engine.Task {
	var list []engine.Task
	for _, p := range problems {
		id := bench.TaskID(Name, p.text)
		w[id] = strconv.Itoa(p.value())
		tag := "1 step"
		if len(p.steps) == 2 {
			tag = "2 steps"
		}
		list = append(list, engine.Task{ID: id, Domain: Name, Input: p.text, Tags: []string{tag}})
	}
	return list
}

// Start opens a rollout; there are no tools.
func (w world) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a task of %s", Name))
	}
	return environment{}, nil
}

// Verify compares the answer in the model's text with the value, as text.
func (w world) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	want, ok := w[task.ID]
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
