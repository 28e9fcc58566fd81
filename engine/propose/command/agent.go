package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Agent is what the ready settings for a coding agent may be told; all may be empty.
type Agent struct {
	Model string
	URL   string // base URL of a compatible service instead of the agent's own
	Key   string // variable that holds the key, instead of those that the agent knows
}

// Agents are the coding agents with ready settings, by the name of their proposer. Both
// work in a copy of what is laid out for proposers, write their candidates to the slots,
// and get their instructions on standard input. The flags are those that their makers
// document for use without a terminal (claude -p 2.1, codex exec 0.171).
var Agents = map[string]func(a Agent, p *Proposer){"claude-code": claudeCode, "codex": codex}

// fileTools are the tools of Claude Code that a proposer needs.
const fileTools = "Read,Glob,Grep,Write,Edit"

// claudeCode sets a Proposer up to run Claude Code. It may use file tools only: no shell,
// no network, no further agents.
func claudeCode(a Agent, p *Proposer) {
	p.Name, p.Copy, p.Usage, p.Words = "claude-code", true, claudeUsage, claudeWords
	p.Argv = []string{"claude", "-p", "--output-format", "stream-json", "--verbose",
		"--permission-mode", "acceptEdits", "--add-dir", "{out}",
		"--tools", fileTools, "--allowedTools", fileTools,
		"--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"}
	p.Most = func(dollars float64) []string {
		return []string{"--max-budget-usd", strconv.FormatFloat(dollars, 'f', 2, 64)}
	}
	if a.Model != "" {
		p.Argv = append(p.Argv, "--model", a.Model)
	}
	p.keys("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
	p.Pass = append(p.Pass, "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS")
	if a.URL != "" {
		p.Set = append(p.Set, "ANTHROPIC_BASE_URL="+strings.TrimSuffix(strings.TrimSuffix(a.URL, "/"), "/v1"))
	}
	if a.Key != "" {
		p.Set = append(p.Set, "ANTHROPIC_API_KEY="+os.Getenv(a.Key))
	}
}

// codex sets a Proposer up to run Codex. Its own sandbox lets commands write to the
// copy and to the slots, and to no network. Another service is a provider of its own, since
// the variable for the base URL is not read any more.
func codex(a Agent, p *Proposer) {
	p.Name, p.Copy, p.Usage, p.Words = "codex", true, codexUsage, codexWords
	p.Argv = []string{"codex", "exec", "--json", "--sandbox", "workspace-write", "--skip-git-repo-check", "--ephemeral", "--add-dir", "{out}"}
	if a.Model != "" {
		p.Argv = append(p.Argv, "--model", a.Model)
	}
	p.keys("CODEX_API_KEY", "OPENAI_API_KEY")
	p.Pass = append(p.Pass, "CODEX_HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
	key := "CODEX_API_KEY"
	switch {
	case a.Key != "":
		p.Set = append(p.Set, key+"="+os.Getenv(a.Key))
	case os.Getenv(key) != "":
	case os.Getenv("OPENAI_API_KEY") != "":
		key = "OPENAI_API_KEY"
	default:
		key = ""
	}
	if url := cmp.Or(a.URL, os.Getenv("OPENAI_BASE_URL")); url != "" {
		provider := fmt.Sprintf(`name="whale",base_url=%s,wire_api="responses"`, strconv.Quote(url))
		if key != "" {
			provider += `,env_key="` + key + `"`
		}
		p.Argv = append(p.Argv, "-c", "model_providers.whale={"+provider+"}", "-c", `model_provider="whale"`)
	}
	p.Argv = append(p.Argv, "-")
}

// keys passes variables that hold keys, and hides what they hold from transcripts.
func (p *Proposer) keys(names ...string) {
	p.Pass = append(p.Pass, names...)
	for _, name := range names {
		p.Hide = append(p.Hide, os.Getenv(name))
	}
}

// NewAgent is a Proposer with ready settings for an agent of Agents.
func NewAgent(name string, a Agent) (*Proposer, error) {
	set, ok := Agents[name]
	if !ok {
		return nil, fmt.Errorf("no ready settings for the agent %q", name)
	}
	p := &Proposer{}
	set(a, p)
	return p, nil
}

// claudeWords reads the stream's last line: the answer, or why the session failed.
func claudeWords(line []byte) string {
	var result struct {
		Type   string   `json:"type"`
		Result string   `json:"result"`
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(line, &result) != nil || result.Type != "result" {
		return ""
	}
	return cmp.Or(result.Result, strings.Join(result.Errors, "; "))
}

// codexWords reads the events that tell of a failure, or hold the model's words.
func codexWords(line []byte) string {
	type said struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Message string `json:"message"`
	}
	var event struct {
		said
		Item  said `json:"item"`
		Error said `json:"error"`
	}
	switch {
	case json.Unmarshal(line, &event) != nil:
		return ""
	case event.Type == "error" || event.Type == "turn.failed":
		return cmp.Or(event.Message, event.Error.Message)
	case event.Item.Type == "agent_message":
		return event.Item.Text
	}
	return ""
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
