package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/api"
	"github.com/seed-7c27e6b8/whale/engine/propose/command"
)

// What is missing is named before anything starts, and no key is printed.
func TestOpenProposer(t *testing.T) {
	const key = "sk-of-the-test-0123"
	dir := t.TempDir()
	for _, name := range []string{"claude", "codex"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for i, c := range []struct {
		proposer string
		set      engine.Proposing
		env      string // variable that has the key
		want     string // in the error; "" = none
	}{
		{"builtin", engine.Proposing{}, "", ""},
		{"nobody", engine.Proposing{}, "", "unknown; there are builtin"},
		{"command", engine.Proposing{}, "", "--proposer-command is missing"},
		{"command", engine.Proposing{Command: "nothing-there"}, "", "nothing-there"},
		{"command", engine.Proposing{Command: "claude -p"}, "", ""},
		{"command", engine.Proposing{Command: "claude -p", Tokens: 5}, "", "needs an agent that says"},
		{"command", engine.Proposing{Command: "claude", Key: "MY_KEY"}, "", "MY_KEY is not set"},
		{"command", engine.Proposing{Command: "claude", Key: "MY_KEY"}, "MY_KEY", ""},
		{"claude-code", engine.Proposing{Dollars: 5}, "", ""},
		{"command", engine.Proposing{Command: "claude", URL: "http://127.0.0.1:1"}, "", "not for a program"},
		{"codex", engine.Proposing{}, "", ""},
		{"codex", engine.Proposing{Dollars: 5}, "", "--proposer-price"},
		{"codex", engine.Proposing{Dollars: 5, Price: "1,2"}, "", ""},
		{"codex", engine.Proposing{Dollars: 5, Model: "gpt-5"}, "", ""},
		{"codex", engine.Proposing{Dollars: 5, Model: "gpt-5", URL: "http://127.0.0.1:1/v1"}, "", "--proposer-price"},
		{"anthropic", engine.Proposing{Model: "m"}, "", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not set"},
		{"anthropic", engine.Proposing{Model: "m"}, "ANTHROPIC_API_KEY", ""},
		{"anthropic", engine.Proposing{Model: "m"}, "ANTHROPIC_AUTH_TOKEN", ""},
		{"anthropic", engine.Proposing{}, "ANTHROPIC_API_KEY", "--proposer-model is missing"},
		{"anthropic", engine.Proposing{Model: "m", Dollars: 5}, "ANTHROPIC_API_KEY", "--proposer-price"},
		{"anthropic", engine.Proposing{Model: "m", Dollars: 5, Price: "1,2"}, "ANTHROPIC_API_KEY", ""},
		{"anthropic", engine.Proposing{Model: "m", Price: "dear"}, "ANTHROPIC_API_KEY", "dollars per million"},
		{"anthropic", engine.Proposing{Model: "claude-opus-5", Dollars: 5}, "ANTHROPIC_API_KEY", ""},
		{"openai", engine.Proposing{Model: "m"}, "", "OPENAI_API_KEY is not set"},
		{"openai", engine.Proposing{Model: "m", URL: "http://127.0.0.1:1/v1"}, "", ""},
		{"openai", engine.Proposing{Model: "gpt-5", URL: "http://127.0.0.1:1/v1", Dollars: 1}, "", "--proposer-price"},
		{"openai", engine.Proposing{Model: "m", URL: "http://127.0.0.1:1/v1", Key: "MY_KEY"}, "", "MY_KEY is not set"},
	} {
		for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "MY_KEY"} {
			t.Setenv(name, "")
		}
		if c.env != "" {
			t.Setenv(c.env, key)
		}
		config := engine.Defaults()
		config.Proposer, config.Proposing = c.proposer, c.set
		p, err := openProposer(config, 0)
		var usage usageError
		switch {
		case c.want == "" && (err != nil || p == nil):
			t.Errorf("%d: %v", i, err)
		case c.want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key)):
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
		if service, ok := p.(*api.Proposer); ok && (service.Name != c.proposer || service.Budget.Dollars != c.set.Dollars) {
			t.Errorf("%d: %+v", i, service.Budget)
		}
		if program, ok := p.(*command.Proposer); ok && program.Budget.Dollars != c.set.Dollars {
			t.Errorf("%d: %+v", i, program.Budget)
		}
	}
}

// Codex tells tokens; the money is worked out from them.
func TestPriceAgent(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	p, err := command.NewAgent("codex", command.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	if err := priceAgent(p, "codex", engine.Proposing{Price: "2,10,1"}); err != nil {
		t.Fatal(err)
	}
	cost, ok := p.Usage([]byte(`{"type":"turn.completed","usage":{"input_tokens":3000000,"cached_input_tokens":1000000,"output_tokens":100000}}`))
	if want := 2*2 + 1*1 + .1*10; !ok || cost.Dollars != want || cost.Unpriced != 0 || cost.Calls != 1 {
		t.Errorf("%+v, want %v dollars", cost, want)
	}
}

// An agent that is not installed is named before anything starts.
func TestOpenProposer_NotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	config := engine.Defaults()
	config.Proposer = "codex"
	if _, err := openProposer(config, 0); err == nil || !strings.Contains(err.Error(), "codex") {
		t.Error(err)
	}
}

// The flags come into the settings, in both forms of a command, and back into a line.
func TestProposerFlags(t *testing.T) {
	str := func(s string) *string { return &s }
	n, x := 7, 2.5
	config := engine.Defaults()
	f := proposerFlags{Proposer: str("command:my-agent --headless"), ProposerTokens: &n, ProposerDollars: &x, Repairs: &n}
	f.apply(&config)
	want := engine.Proposing{Command: "my-agent --headless", Tokens: 7, Dollars: 2.5}
	if config.Proposer != "command" || config.Proposing != want || config.Repairs != 7 {
		t.Errorf("%+v", config)
	}
	if line := strings.Join(proposerLine(config), " "); line != "--proposer command --proposer-command 'my-agent --headless' --proposer-tokens 7 --proposer-dollars 2.5 --repairs 7" {
		t.Error(line)
	}
	if line := proposerLine(engine.Defaults()); len(line) != 0 {
		t.Error(line)
	}
}
