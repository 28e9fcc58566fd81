// Package enginetest is a small world that plays along, for tests of the engine and of
// what stands around it: tasks, a model that is one number, harnesses that are one line
// of settings, a learner that moves the number. All of it is a function of its inputs,
// so runs can be compared byte for byte, and a run takes milliseconds.
//
// It is for tests only and says nothing about how real parts behave.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Canary is in the reference answer of every hard task, which the model never gets
// right. It must show up nowhere outside of the world.
const Canary = "CANARY-7f3a"

// Domain has n training tasks, n/2 select and n/2 test tasks. Task i asks for the square
// of i; every fifth is hard.
func Domain(n int) *engine.Domain {
	d := &engine.Domain{Name: "squares", Seed: "hint=0 turns=1", Skill: "Raise hint.",
		Budget: engine.Budget{Tokens: 60, CallTokens: 20, Turns: 4, Tools: 2, LogBytes: 100},
		Tools:  []engine.ToolSpec{{Name: "echo", Description: "says it again", Schema: `{}`}}, World: World{}}
	for i := range n * 2 {
		t := engine.Task{ID: engine.TaskID("task" + strconv.Itoa(i)), Domain: d.Name, Input: fmt.Sprintf("square %d", i)}
		if i%2 == 0 {
			t.Tags = []string{"even"}
		}
		switch {
		case i < n:
			d.Train = append(d.Train, t)
		case i < n+n/2:
			d.Select = append(d.Select, t)
		default:
			d.Test = append(d.Test, t)
		}
	}
	return d
}

// World judges squares.
type World struct{}

// Start opens an environment with the tool echo, and one called break, which does.
func (World) Start(engine.Task) (engine.Environment, error) { return &environment{}, nil }

// Verify compares with the square, or with the canary for a hard task.
func (World) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(task.Input, "square "))
	if err != nil {
		return engine.Verdict{}, err
	}
	want := strconv.Itoa(n * n)
	if n%5 == 0 {
		want = Canary
	}
	got := t.Answer().Text
	switch {
	case got == want:
		return engine.Verdict{Kind: engine.Equal, Reward: 1, Answer: got}, nil
	case got == "hmm":
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	return engine.Verdict{Kind: engine.Different, Answer: got}, nil
}

type environment struct{ record []string }

func (e *environment) Tool(_ context.Context, c engine.ToolCall) (string, error) {
	switch c.Name {
	case "echo":
	case "break":
		return "", errors.New("the tool broke")
	default:
		return "", fmt.Errorf("%w: no tool %q", engine.ErrTool, c.Name)
	}
	e.record = append(e.record, c.Args)
	return c.Args, nil
}

func (e *environment) Record() string { return strings.Join(e.record, ",") }

// Sandbox runs harnesses that are settings: "hint=H turns=T" asks with a hint of strength
// H, at most T times while the model says hmm; what stands before it does not matter, so
// that it can be a constant of a Go file. "broken" does not load, "panic" panics,
// "kill" takes its worker with it.
type Sandbox struct{}

// Load reads the settings.
func (Sandbox) Load(_ context.Context, h engine.Harness) (engine.Program, error) {
	var p Program
	if err := map[string]error{"panic": &engine.HarnessError{Panic: true, Text: "index out of range"},
		"kill": errors.New("worker died: exit status 2")}[h.Source]; err != nil {
		return Func(func(context.Context, engine.Start, engine.Host) error { return err }), nil
	}
	settings := h.Source[max(0, strings.Index(h.Source, "hint=")):]
	if _, err := fmt.Sscanf(settings, "hint=%d turns=%d", &p.hint, &p.turns); err != nil {
		return nil, &engine.LoadError{Line: 1, Column: 1, Rule: "parse", Reason: "want hint=H turns=T"}
	}
	return Func(p.run), nil
}

// Program is a harness read from settings.
type Program struct{ hint, turns int }

func (p Program) run(ctx context.Context, s engine.Start, host engine.Host) error {
	messages := []engine.Message{{Role: "user", Content: fmt.Sprintf("%s hint %d", s.Input, p.hint)}}
	for range p.turns {
		replies, err := host.Generate(ctx, messages, engine.GenerateOptions{})
		if err != nil {
			return err
		}
		r := replies[0]
		if r.Text != "hmm" {
			return nil
		}
		messages = append(messages, engine.Message{Role: "assistant", Content: r.Text, Handle: r.Handle},
			engine.Message{Role: "user", Content: "And?"})
	}
	return nil
}

// Func is a program that runs a Go function.
type Func func(ctx context.Context, s engine.Start, host engine.Host) error

// Run calls the function.
func (f Func) Run(ctx context.Context, s engine.Start, host engine.Host) (engine.GuestUse, error) {
	return engine.GuestUse{Pages: 1, Engine: "func"}, f(ctx, s, host)
}

// Close does nothing.
func (f Func) Close() error { return nil }

// Proposer tries one step up in hint, one in turns, and a source that does not load. It
// keeps the briefs it was given.
type Proposer struct{ Briefs []engine.Brief }

// Propose fills the slots.
func (p *Proposer) Propose(_ context.Context, b engine.Brief) ([]engine.Harness, error) {
	p.Briefs = append(p.Briefs, b)
	var hint, turns int
	for _, e := range b.Entries {
		if e.Harness.ID == b.Incumbent {
			if _, err := fmt.Sscanf(e.Harness.Source, "hint=%d turns=%d", &hint, &turns); err != nil {
				return nil, err
			}
		}
	}
	parents := []engine.HarnessID{b.Incumbent}
	return []engine.Harness{
		{Source: fmt.Sprintf("hint=%d turns=%d", hint+1, turns), Meta: engine.Meta{Hypothesis: "more hint", Axis: "context", Parents: parents}},
		{Source: "broken", Meta: engine.Meta{Hypothesis: "none", Parents: parents}},
		{Source: fmt.Sprintf("hint=%d turns=%d", hint, turns+1), Meta: engine.Meta{Hypothesis: "ask again", Axis: "stopping", Parents: parents}},
	}, nil
}
