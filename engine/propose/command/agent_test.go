package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// standIn puts an executable of this name before all others.
func standIn(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// What an agent does here: it looks at its instructions, where it is, its arguments and
// keys, and writes a candidate without meta.json.
const diligent = `
test ! -e journal.jsonl && ls harnesses/*/harness.go > /dev/null || exit 9
grep -q "$WHALE_OUT/S/harness.go" || exit 8
grep -q incumbent brief.json || exit 7
printf 'args: %s\nkey: %s\n' "$*" "$MY_KEY$ANTHROPIC_API_KEY$CODEX_API_KEY"
echo changed > harnesses/new.go
printf 'package harness // by an agent' > "$WHALE_OUT/1/harness.go"
`

const key = "sk-secret-0123456789"

func TestAgents(t *testing.T) {
	for name, c := range map[string]struct {
		program string
		prints  string
		args    []string
		cost    engine.ProposalCost
	}{
		"claude-code": {"claude",
			`{"type":"assistant","message":{}}
{"type":"result","subtype":"success","num_turns":7,"total_cost_usd":0.25,"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":40}}`,
			[]string{"-p --output-format stream-json", "--tools Read,Glob,Grep,Write,Edit ", "--model big", "--max-budget-usd 0.50"},
			engine.ProposalCost{Calls: 7, Input: 420, Cached: 300, Output: 40, Dollars: .25}},
		"codex": {"codex",
			`{"type":"turn.started"}
{"type":"turn.completed","usage":{"input_tokens":500,"cached_input_tokens":200,"output_tokens":30}}`,
			[]string{"exec --json", "--sandbox workspace-write", "--model big", " -\n"},
			engine.ProposalCost{Calls: 1, Unpriced: 1, Input: 500, Cached: 200, Output: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			standIn(t, c.program, diligent+"cat <<'END'\n"+c.prints+"\nEND\n")
			t.Setenv(map[string]string{"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}[c.program], key)
			b := archive(t)
			p, err := NewAgent(name, Agent{Model: "big"})
			if err != nil {
				t.Fatal(err)
			}
			p.Budget = desk.Budget{Tokens: 400, Dollars: .5}
			made, err := p.Propose(context.Background(), b)
			if err != nil || len(made) != 1 || made[0].Meta.Proposer != name || made[0].Meta.Parents[0] != b.Incumbent {
				t.Fatalf("%+v, %v", made, err)
			}
			stdout := printed(t, b, "stdout.txt")
			for _, arg := range append(c.args, "--add-dir "+filepath.Join(b.Folder, desk.Proposals), "key: (key)") {
				if !strings.Contains(stdout, arg) {
					t.Errorf("no %q in %s", arg, stdout)
				}
			}
			if strings.Contains(stdout, key) {
				t.Error("the transcript has the key")
			}
			cost := p.Spent()
			cost.Seconds = 0
			if cost != c.cost {
				t.Errorf("spent %+v, want %+v", cost, c.cost)
			}
			// Another process knows what was spent.
			again, err := NewAgent(name, Agent{})
			if err != nil {
				t.Fatal(err)
			}
			again.Budget.Tokens = 400
			if _, err := again.Propose(context.Background(), b); !errors.Is(err, engine.ErrSpent) {
				t.Errorf("over budget: %v", err)
			}
		})
	}
	if _, err := NewAgent("nobody", Agent{}); err == nil {
		t.Error("an agent without settings")
	}
}

// An agent that is not there, that dies, loops or finds nothing is a typed failure.
func TestAgents_fail(t *testing.T) {
	for _, c := range []struct {
		script string
		want   error
	}{{"exit 1", ErrExit}, {"kill -9 $$", ErrExit}, {"true", ErrNothing}, {"while :; do sleep 1000; done", ErrTime}} {
		standIn(t, "claude", c.script)
		p, err := NewAgent("claude-code", Agent{})
		if err != nil {
			t.Fatal(err)
		}
		p.Limit, p.Grace = 300*time.Millisecond, 50*time.Millisecond
		if c.want != ErrTime {
			p.Limit = time.Minute
		}
		if _, err := p.Propose(context.Background(), archive(t)); !errors.Is(err, c.want) {
			t.Errorf("%q: %v", c.script, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	p, err := NewAgent("codex", Agent{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Propose(context.Background(), archive(t)); !errors.Is(err, ErrStart) {
		t.Error(err)
	}
}

// A program of a search without archive must not write into the run above its folder.
func TestPropose_OutsideOfItsFolder(t *testing.T) {
	b := archive(t)
	if err := os.WriteFile(filepath.Join(b.Folder, "run.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b.Folder = filepath.Join(b.Folder, "climb")
	if err := os.Mkdir(b.Folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if made, err := shell(`printf x > $WHALE_OUT/1/harness.go`).Propose(context.Background(), b); err != nil || len(made) != 1 {
		t.Errorf("%d candidates, %v", len(made), err)
	}
	if _, err := shell(`printf x > $WHALE_OUT/1/harness.go; echo > ../summary.json`).Propose(context.Background(), b); !errors.Is(err, ErrOutside) {
		t.Error(err)
	}
}

// The words of an agent that wrote nothing are told, and what it left but can't be taken.
func TestAgents_words(t *testing.T) {
	for name, c := range map[string]struct{ program, prints string }{
		"claude-code": {"claude", `{"type":"result","is_error":true,"result":"Invalid API key"}`},
		"codex": {"codex", `{"type":"error","message":"once more"}
{"type":"turn.failed","error":{"message":"Invalid API key"}}`},
	} {
		standIn(t, c.program, "echo a warning >&2; cat harnesses/*/harness.go > $WHALE_OUT/1/harness.go; cat <<'END'\n"+c.prints+"\nEND\n")
		p, err := NewAgent(name, Agent{})
		if err != nil {
			t.Fatal(err)
		}
		b := archive(t)
		_, err = p.Propose(context.Background(), b)
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), `it said last: "Invalid API key"`) ||
			!strings.Contains(err.Error(), "known already, as "+string(b.Incumbent)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if said := codexWords([]byte(`{"type":"item.completed","item":{"type":"agent_message","text":"I have no idea."}}`)); said != "I have no idea." {
		t.Error(said)
	}
}

func FuzzUsage(f *testing.F) {
	f.Add([]byte(`{"type":"result","num_turns":-3,"total_cost_usd":-1,"usage":{"input_tokens":-5,"output_tokens":4}}`))
	f.Add([]byte(`{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":-1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, read := range []func([]byte) (engine.ProposalCost, bool){claudeUsage, codexUsage} {
			if c, ok := read(line); ok && (c.Calls < 1 || c.Input < 0 || c.Output < 0 || c.Cached < 0 || c.Dollars < 0) {
				t.Errorf("%+v", c)
			}
		}
		for _, words := range []func([]byte) string{claudeWords, codexWords} {
			words(line)
		}
		r := &eventReader{p: &Proposer{Usage: codexUsage, Words: codexWords}}
		if n, err := (&lines{each: r.read}).Write(line); n != len(line) || err != nil {
			t.Error(n, err)
		}
	})
}
