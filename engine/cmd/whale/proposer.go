package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/builtin"
	"github.com/seed-7c27e6b8/whale/engine/propose/command"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// proposerFlags say who writes candidates, and what that may cost.
type proposerFlags struct {
	Proposer        *string  `placeholder:"NAME" help:"builtin (default, offline), claude-code, codex, command, anthropic or openai: see engine/propose/README.md."`
	ProposerCommand *string  `placeholder:"LINE" help:"Of the proposer command: program and arguments; no shell reads them."`
	ProposerModel   *string  `placeholder:"NAME" help:"Model that proposes."`
	ProposerURL     *string  `name:"proposer-url" placeholder:"URL" help:"Base URL of a compatible service, also a local one; without it the official one."`
	ProposerKey     *string  `placeholder:"VAR" help:"Environment variable with the key (default ANTHROPIC_API_KEY or OPENAI_API_KEY)."`
	ProposerTokens  *int     `placeholder:"N" help:"Budget of the run for proposals, in tokens; 0 = none."`
	ProposerDollars *float64 `placeholder:"X" help:"The same in dollars."`
	ProposerPrice   *string  `placeholder:"IN,OUT[,READ[,WRITE]]" help:"Dollars per million tokens: input, output, cache read, cache write; without it from a table."`
	ProposerMinutes *float64 `placeholder:"X" help:"Wall time of one call of the proposer (default 20)."`
	ProposerTurns   *int     `placeholder:"N" help:"Replies of the model in one call (default 60)."`
	Repairs         *int     `placeholder:"R" help:"How many times candidates that are refused go back within an iteration (default 2)."`
}

// apply writes the flags that were given into the settings. The older form
// 'command:PROGRAM ARG...' is --proposer command with its --proposer-command.
func (f *proposerFlags) apply(c *engine.Config) {
	set(&c.Proposer, f.Proposer)
	if line, ok := strings.CutPrefix(c.Proposer, "command:"); ok {
		c.Proposer, c.Proposing.Command = "command", strings.TrimSpace(line)
	}
	p := &c.Proposing
	set(&p.Command, f.ProposerCommand)
	set(&p.Model, f.ProposerModel)
	set(&p.URL, f.ProposerURL)
	set(&p.Key, f.ProposerKey)
	set(&p.Tokens, f.ProposerTokens)
	set(&p.Dollars, f.ProposerDollars)
	set(&p.Price, f.ProposerPrice)
	set(&p.Minutes, f.ProposerMinutes)
	set(&p.Turns, f.ProposerTurns)
	set(&c.Repairs, f.Repairs)
}

// openProposer makes the proposer of the settings. What it would miss later (a program, a
// key, a model, a price) it names now.
func openProposer(c engine.Config) (engine.Proposer, error) {
	set := c.Proposing
	wrong := func(format string, args ...any) (engine.Proposer, error) {
		return nil, usageError{fmt.Errorf("proposer "+c.Proposer+": "+format, args...)}
	}
	var p *command.Proposer
	switch {
	case c.Proposer == "builtin":
		return builtin.Proposer{}, nil
	case c.Proposer == "command":
		p = &command.Proposer{Argv: strings.Fields(os.ExpandEnv(set.Command))}
		if len(p.Argv) == 0 {
			return wrong("--proposer-command is missing: the program and its arguments")
		}
	case command.Agents[c.Proposer] != nil:
		var err error
		if p, err = command.NewAgent(c.Proposer, set.Model); err != nil {
			return wrong("%w", err)
		}
	default:
		return wrong("unknown; there are builtin, command, claude-code, codex, anthropic, openai")
	}
	if err := p.Find(); err != nil {
		return wrong("%w", err)
	}
	if set.Key != "" {
		if os.Getenv(set.Key) == "" {
			return wrong("the environment variable %s is not set", set.Key)
		}
		p.Pass, p.Hide = append(p.Pass, set.Key), append(p.Hide, os.Getenv(set.Key))
	}
	if p.Usage == nil && (set.Tokens > 0 || set.Dollars > 0) {
		return wrong("a budget in tokens or dollars needs an agent that says what it spends")
	}
	p.Limit = time.Duration(set.Minutes * float64(time.Minute))
	p.Budget = desk.Budget{Tokens: set.Tokens, Dollars: set.Dollars}
	return p, nil
}

