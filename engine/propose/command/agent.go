package command

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Agents are the coding agents with ready settings, by the name of their proposer. Both
// work in a copy of what is laid out for proposers, write their candidates to the slots,
// and get their instructions on standard input. The flags are those that their makers
// document for use without a terminal (claude -p 2.1, codex exec 0.171).
var Agents = map[string]func(model string, p *Proposer){"claude-code": claudeCode, "codex": codex}

// fileTools are the tools of Claude Code that a proposer needs.
const fileTools = "Read,Glob,Grep,Write,Edit"

// claudeCode sets a Proposer up to run Claude Code. It may use file tools only: no shell,
// no network, no further agents.
func claudeCode(model string, p *Proposer) {
	p.Name, p.Copy, p.Usage = "claude-code", true, claudeUsage
	p.Argv = []string{"claude", "-p", "--output-format", "stream-json", "--verbose",
		"--permission-mode", "acceptEdits", "--add-dir", "{out}",
		"--tools", fileTools, "--allowedTools", fileTools,
		"--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"}
	p.Most = func(dollars float64) []string {
		return []string{"--max-budget-usd", strconv.FormatFloat(dollars, 'f', 2, 64)}
	}
	if model != "" {
		p.Argv = append(p.Argv, "--model", model)
	}
	p.keys("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
	p.Pass = append(p.Pass, "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS")
}

// codex sets a Proposer up to run Codex. Its own sandbox lets commands write to the
// copy and to the slots, and to no network.
func codex(model string, p *Proposer) {
	p.Name, p.Copy, p.Usage = "codex", true, codexUsage
	p.Argv = []string{"codex", "exec", "--json", "--sandbox", "workspace-write", "--skip-git-repo-check", "--ephemeral", "--add-dir", "{out}"}
	if model != "" {
		p.Argv = append(p.Argv, "--model", model)
	}
	p.Argv = append(p.Argv, "-")
	p.keys("CODEX_API_KEY", "OPENAI_API_KEY")
	p.Pass = append(p.Pass, "OPENAI_BASE_URL", "CODEX_HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
}

// keys passes variables that hold keys, and hides what they hold from transcripts.
func (p *Proposer) keys(names ...string) {
	p.Pass = append(p.Pass, names...)
	for _, name := range names {
		p.Hide = append(p.Hide, os.Getenv(name))
	}
}

// NewAgent is a Proposer with ready settings for an agent of Agents.
func NewAgent(name, model string) (*Proposer, error) {
	set, ok := Agents[name]
	if !ok {
		return nil, fmt.Errorf("no ready settings for the agent %q", name)
	}
	p := &Proposer{}
	set(model, p)
	return p, nil
}

// claudeUsage reads the last line of Claude Code's stream, which sums the session up.
func claudeUsage(line []byte) (engine.ProposalCost, bool) {
	var result struct {
		Type    string   `json:"type"`
		Turns   int      `json:"num_turns"`
		Dollars *float64 `json:"total_cost_usd"`
		Usage   struct {
			Input   int `json:"input_tokens"`
			Written int `json:"cache_creation_input_tokens"`
			Read    int `json:"cache_read_input_tokens"`
			Output  int `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(line, &result) != nil || result.Type != "result" {
		return engine.ProposalCost{}, false
	}
	u := result.Usage
	cost := engine.ProposalCost{Calls: max(1, result.Turns), Input: max(0, u.Input) + max(0, u.Written) + max(0, u.Read),
		Cached: max(0, u.Read), Output: max(0, u.Output)}
	if result.Dollars != nil && *result.Dollars >= 0 {
		cost.Dollars = *result.Dollars
	} else {
		cost.Unpriced = cost.Calls
	}
	return cost, true
}

// codexUsage reads the event at the end of a turn. Codex does not tell money.
func codexUsage(line []byte) (engine.ProposalCost, bool) {
	var event struct {
		Type  string `json:"type"`
		Usage struct {
			Input  int `json:"input_tokens"` // cached ones included
			Cached int `json:"cached_input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(line, &event) != nil || event.Type != "turn.completed" {
		return engine.ProposalCost{}, false
	}
	u := event.Usage
	return engine.ProposalCost{Calls: 1, Unpriced: 1, Input: max(0, u.Input), Cached: max(0, u.Cached), Output: max(0, u.Output)}, true
}
