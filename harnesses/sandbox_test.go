package harnesses_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.WorkerMain()
	m.Run()
}

// behind puts a scripted host on the other side of the sandbox's wall.
type behind struct{ host *kittest.Host }

func (b behind) Generate(_ context.Context, messages []engine.Message, o engine.GenerateOptions) ([]engine.Reply, error) {
	var in []kit.Message
	for _, m := range messages {
		in = append(in, kit.Message(m))
	}
	replies, err := b.host.Generate(in, kit.Options(o))
	var out []engine.Reply
	for _, r := range replies {
		out = append(out, engine.Reply{Handle: r.Handle, Text: r.Text, Stop: engine.StopReason(r.Stop), Tokens: r.Tokens})
	}
	return out, toEngine(err)
}

func (b behind) Tool(_ context.Context, name, args string) (string, error) {
	result, err := b.host.Tool(name, args)
	return result, toEngine(err)
}

func (b behind) Note(_ context.Context, n engine.Note) error { return b.host.Note(kit.Note(n)) }

// toEngine gives an error of the kit the name that the engine has for it.
func toEngine(err error) error {
	switch {
	case errors.Is(err, kit.ErrBudget):
		return engine.ErrBudget
	case errors.Is(err, kit.ErrTool):
		return engine.ErrTool
	}
	return err
}

// The scripts that the seeds pass natively, in their own packages, they pass in the
// sandbox too; twice, since the interpreter's faults often need a second pass.
func TestScriptsInTheSandbox(t *testing.T) {
	box, err := sandbox.Open(t.Context(), sandbox.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, domain := range harnesses.Names() {
		source, err := harnesses.Source(domain)
		if err != nil {
			t.Fatal(err)
		}
		program, err := box.Load(t.Context(), engine.NewHarness(source, engine.Meta{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range append(kittest.Scripts(domain), kittest.Scripts(domain)...) {
			host, start := &kittest.Host{Script: script}, script.Start()
			_, err := program.Run(t.Context(), engine.Start{
				Domain: start.Task.Domain,
				Input:  start.Task.Input,
				Budget: engine.Budget{Tokens: start.Budget.Tokens, Turns: start.Budget.Turns, Tools: start.Budget.Tools},
			}, behind{host})
			if err := host.Check(err); err != nil {
				t.Errorf("%s: %v", domain, err)
			}
		}
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	}
}
