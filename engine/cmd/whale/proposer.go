package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/api"
	"github.com/seed-7c27e6b8/whale/engine/propose/api/anthropic"
	"github.com/seed-7c27e6b8/whale/engine/propose/api/openai"
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
	ProposerMinutes *float64 `placeholder:"X" help:"Limit of one call of the proposer (default 20). One reply of a service has half of it, or --endpoint-timeout."`
	ProposerTurns   *int     `placeholder:"N" help:"Replies of the model in one call (default 60)."`
	Repairs         *int     `placeholder:"R" help:"How many times candidates that are refused go back within an iteration (default 2)."`
}

// apply writes the flags that were given into the settings. The older form
// 'command:PROGRAM ARG...' is --proposer command with its --proposer-command.
func (f *proposerFlags) apply(c *engine.Config) {
	set(&c.Proposer, f.Proposer)
	if f.Proposer != nil && strings.HasPrefix(*f.Proposer, "command:") {
		c.Proposing.Command = "" // it brings its own
	}
	*c = c.Renewed()
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
// key, a model, a price) it names now; no key is printed. patience is how long one reply of
// a service may take; 0 = its default.
func openProposer(c engine.Config, patience time.Duration) (engine.Proposer, error) {
	p, err := makeProposer(c, patience)
	if err != nil {
		return nil, usageError{fmt.Errorf("proposer %s: %w", c.Proposer, err)}
	}
	return p, nil
}

func makeProposer(c engine.Config, patience time.Duration) (engine.Proposer, error) {
	set := c.Proposing
	switch {
	case c.Proposer == "builtin":
		return builtin.Proposer{}, nil
	case c.Proposer == "command":
		p := &command.Proposer{Argv: strings.Fields(os.ExpandEnv(set.Command))}
		if len(p.Argv) == 0 {
			return nil, errors.New("--proposer-command is missing: the program and its arguments")
		}
		if set.URL != "" || set.Model != "" {
			return nil, errors.New("--proposer-url and --proposer-model are not for a program: write them into its --proposer-command")
		}
		return p, setCommand(p, set)
	case command.Agents[c.Proposer] != nil:
		p, err := command.NewAgent(c.Proposer, command.Agent{Model: set.Model, URL: set.URL, Key: set.Key})
		if err != nil {
			return nil, err
		}
		if err := setCommand(p, set); err != nil {
			return nil, err
		}
		return p, priceAgent(p, c.Proposer, set)
	case services[c.Proposer].open != nil:
		return openService(c.Proposer, set, patience)
	}
	return nil, errors.New("unknown; there are builtin, command, claude-code, codex, anthropic, openai")
}

// setCommand writes limits and budget into a proposer that is a program.
func setCommand(p *command.Proposer, set engine.Proposing) error {
	if err := p.Find(); err != nil {
		return err
	}
	if set.Key != "" {
		if os.Getenv(set.Key) == "" {
			return fmt.Errorf("the environment variable %s is not set", set.Key)
		}
		p.Pass, p.Hide = append(p.Pass, set.Key), append(p.Hide, os.Getenv(set.Key))
	}
	if p.Usage == nil && (set.Tokens > 0 || set.Dollars > 0) {
		return errors.New("a budget in tokens or dollars needs an agent that says what it spends")
	}
	p.Limit, p.Budget = wall(set), desk.Budget{Tokens: set.Tokens, Dollars: set.Dollars}
	return nil
}

// priceAgent counts the money of an agent that tells its tokens only.
func priceAgent(p *command.Proposer, name string, set engine.Proposing) error {
	price, known, err := priceOf(set)
	if err != nil {
		return err
	}
	if set.Dollars > 0 && !known && name == "codex" {
		return errors.New("a budget in dollars needs --proposer-price, or a --proposer-model whose price is known: codex does not say what it costs")
	}
	read := p.Usage
	p.Usage = func(line []byte) (engine.ProposalCost, bool) {
		cost, ok := read(line)
		if known && cost.Unpriced > 0 {
			cost.Dollars, cost.Unpriced = price.Of(cost), 0
		}
		return cost, ok
	}
	return nil
}

// priceOf is what is said or known of a model's price. The list prices are those of the
// makers, not of another service.
func priceOf(set engine.Proposing) (price api.Price, known bool, err error) {
	switch {
	case set.Price != "":
		price, err = api.ParsePrice(set.Price)
		return price, err == nil, err
	case set.URL == "":
		price, known = api.PriceOf(set.Model)
	}
	return price, known, nil
}

func wall(set engine.Proposing) time.Duration {
	return time.Duration(set.Minutes * float64(time.Minute))
}

// service is a model service that can propose.
type service struct {
	keys []string // variables that may have its key, the usual one first
	url  string   // variable that may have another base URL
	open func(set engine.Proposing, variable, key string) api.Model
}

var services = map[string]service{
	"anthropic": {[]string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, "ANTHROPIC_BASE_URL",
		func(set engine.Proposing, variable, key string) api.Model {
			s := anthropic.Settings{Model: set.Model, URL: set.URL, Key: key}
			if variable == "ANTHROPIC_AUTH_TOKEN" {
				s.Key, s.Token = "", key
			}
			return anthropic.New(s)
		}},
	"openai": {[]string{"OPENAI_API_KEY"}, "OPENAI_BASE_URL",
		func(set engine.Proposing, _, key string) api.Model {
			return openai.New(openai.Settings{Model: set.Model, URL: set.URL, Key: key})
		}},
}

// openService makes a proposer that is a model behind a service.
func openService(name string, set engine.Proposing, patience time.Duration) (engine.Proposer, error) {
	s := services[name]
	if set.URL == "" {
		set.URL = os.Getenv(s.url)
	}
	variable, key, err := s.key(set)
	if err != nil {
		return nil, err
	}
	if set.Model == "" {
		return nil, errors.New("--proposer-model is missing: the model's name at the service")
	}
	price, known, err := priceOf(set)
	if err != nil {
		return nil, err
	}
	if set.Dollars > 0 && !known {
		return nil, fmt.Errorf("a budget in dollars needs --proposer-price: what %s costs is not known", set.Model)
	}
	return &api.Proposer{Name: name, Model: s.open(set, variable, key), Price: price, Hide: []string{key},
		Address: engine.PublicAddress(set.URL), Patience: patience, Setting: waitFlag,
		Budget: desk.Budget{Tokens: set.Tokens, Dollars: set.Dollars}, Limit: wall(set), Turns: set.Turns}, nil
}

// key finds the key in the environment. A service at another address may need none.
func (s service) key(set engine.Proposing) (variable, key string, err error) {
	names := s.keys
	if set.Key != "" {
		names = []string{set.Key}
	}
	for _, name := range names {
		if key := os.Getenv(name); key != "" {
			return name, key, nil
		}
	}
	if set.URL != "" && set.Key == "" {
		return "", "", nil
	}
	return "", "", fmt.Errorf("no key: the environment variable %s is not set", strings.Join(names, " or "))
}

// proposerLine are the flags that differ from the defaults.
func proposerLine(c engine.Config) []string {
	var parts []string
	p := c.Proposing
	for _, flag := range []struct {
		name string
		is   any
		want bool
	}{
		{"proposer", c.Proposer, c.Proposer != engine.Defaults().Proposer}, {"proposer-command", "'" + p.Command + "'", p.Command != ""},
		{"proposer-model", p.Model, p.Model != ""}, {"proposer-url", p.URL, p.URL != ""}, {"proposer-key", p.Key, p.Key != ""},
		{"proposer-tokens", p.Tokens, p.Tokens != 0}, {"proposer-dollars", p.Dollars, p.Dollars != 0}, {"proposer-price", p.Price, p.Price != ""},
		{"proposer-minutes", p.Minutes, p.Minutes != 0}, {"proposer-turns", p.Turns, p.Turns != 0}, {"repairs", c.Repairs, c.Repairs != engine.Defaults().Repairs},
	} {
		if flag.want {
			parts = append(parts, fmt.Sprintf("--%s %v", flag.name, flag.is))
		}
	}
	return parts
}
