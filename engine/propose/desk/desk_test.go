package desk

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
)

const source = "package harness\n\nfunc Run(s *kit.Session) error { return nil }\n"

// run is a small run folder and the brief that goes with it.
func run(t *testing.T) engine.Brief {
	t.Helper()
	h := engine.NewHarness(source, engine.Meta{})
	folder := t.TempDir()
	for name, text := range map[string]string{
		"journal.jsonl": "{}\n", "harnesses/" + string(h.ID) + "/harness.go": source, "weights/w1/model": "w",
		"accepted.json": "{}", "cycles/01/iteration-01/results.jsonl": "{}\n", "trajectories/t.jsonl.zst": "t",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return engine.Brief{
		Domain: "lookup", Skill: "advice", Cycle: 2, Iteration: 3, Slots: 2, Folder: folder, Incumbent: h.ID,
		Entries: []engine.Entry{{Harness: h, Accepted: true}},
		Failures: []*engine.Trajectory{{Task: "secret-task-id", Verdict: engine.Verdict{Kind: engine.Unparsed}, Events: []engine.Event{
			{Said: &engine.Turn{Role: "user", Content: "Where was Gervan born?"}},
			{Call: &engine.Call{Text: "<search>Gervan</search>", Prompt: []int32{1, 2}}},
			{Tool: &engine.ToolUse{Name: "search", Args: `{"query":"Gervan"}`, Result: "a passage"}},
		}}},
		Rejected: []engine.Rejection{{Harness: engine.NewHarness("bad", engine.Meta{}), Err: engine.LoadError{Line: 3, Column: 4, Rule: "type", Reason: "no such name"}}},
	}
}

func open(t *testing.T, b engine.Brief) *Desk {
	t.Helper()
	d, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBrief(t *testing.T) {
	text := read(t, open(t, run(t)).Brief())
	if strings.Contains(text, "secret-task-id") {
		t.Error("the brief names a task")
	}
	var got Brief
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	lines := []Line{{Role: "user", Text: "Where was Gervan born?"}, {Role: "assistant", Text: "<search>Gervan</search>"},
		{Role: "call", Text: "a passage", Tool: `search {"query":"Gervan"}`}}
	if got.Skill != "advice" || got.Slots != 2 || got.Entries[0].Source != source || !slices.Equal(got.Failures[0].Lines, lines) ||
		got.Rejected[0].Reason != "no such name" || got.Rejected[0].Line != 3 {
		t.Errorf("brief %+v", got)
	}
}

// The instructions tell slots, the one in use, what came back, and the domain's advice.
func TestPrompt(t *testing.T) {
	b := run(t)
	b.Rejected = append(b.Rejected, engine.Rejection{Err: engine.LoadError{Line: 9, Rule: "vet", Reason: "no goroutines"}})
	b.Repair, b.PromptsOnly = 1, true
	text := read(t, open(t, b).Prompt())
	for _, want := range []string{filepath.Join("out", "S", "harness.go"), b.Folder, "2 slots", string(b.Incumbent), "string constants", "advice", "mend these", "no goroutines", "rejected[1]", "no such name", "data set"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing about %q in\n%s", want, text)
		}
	}
	if old := strings.Index(text, "no such name"); old < strings.Index(text, "no goroutines") {
		t.Error("old refusals stand before what came back")
	}
	b.Rejected, b.Repair, b.PromptsOnly = nil, 0, false
	if text := read(t, open(t, b).Prompt()); strings.Contains(text, "efused just now") || strings.Contains(text, "evolution.md") || strings.Contains(text, "secret-task-id") {
		t.Errorf("too much in\n%s", text)
	}
}

// A desk that is opened again keeps the first; a copy has what is laid out and no more.
func TestDesk(t *testing.T) {
	b := run(t)
	first, second := open(t, b), open(t, b)
	if first.Folder == second.Folder || filepath.Base(second.Folder) != "cycle-02-iteration-03-try-2" {
		t.Errorf("%s, %s", first.Folder, second.Folder)
	}
	to := filepath.Join(first.Folder, "work")
	if err := first.Copy(to); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"accepted.json": true, "brief.json": true, "cycles/01/iteration-01/results.jsonl": true,
		"harnesses/" + string(b.Incumbent) + "/harness.go": true, "journal.jsonl": false, "weights": false, "trajectories": false, "proposals": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBudget(t *testing.T) {
	b := run(t)
	costs := []engine.ProposalCost{{Calls: 2, Input: 100, Output: 20, Dollars: .5}, {Calls: 1, Input: 10, Output: 0, Dollars: .25}}
	for _, cost := range costs {
		if err := open(t, b).PutUsage(cost); err != nil {
			t.Fatal(err)
		}
	}
	spent, err := Spent(b.Folder)
	if want := (engine.ProposalCost{Calls: 3, Input: 110, Output: 20, Dollars: .75}); err != nil || spent != want {
		t.Errorf("%+v, %v", spent, err)
	}
	for _, c := range []struct {
		budget Budget
		over   bool
	}{{Budget{}, false}, {Budget{Tokens: 131}, false}, {Budget{Tokens: 130}, true}, {Budget{Dollars: .76}, false}, {Budget{Tokens: 1000, Dollars: .75}, true}} {
		if err := c.budget.Check(spent); errors.Is(err, engine.ErrSpent) != c.over {
			t.Errorf("%+v: %v", c.budget, err)
		}
	}
	if err := os.WriteFile(filepath.Join(open(t, b).Folder, usageFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Spent(b.Folder); err == nil {
		t.Error("a broken account counts as nothing")
	}
}

// A log keeps what fits and no secret, wherever writes are cut.
func TestLog(t *testing.T) {
	const secret = "sk-0123456789"
	text := "begin " + secret + " middle sk-01 " + secret + secret + " end"
	want := strings.ReplaceAll(text, secret, hidden)
	for cut := range text {
		path := filepath.Join(t.TempDir(), "log")
		l, err := NewLog(path, 1000, secret, "", "short")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
				t.Error(n, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := read(t, path); got != want {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	l, err := NewLog(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := l.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); !strings.HasPrefix(got, "abcabcabca\n") || len(got) > 60 {
		t.Errorf("%q", got)
	}
}

// A model that can only reply is told the most important first, and what it was refused.
func TestPlain(t *testing.T) {
	b := run(t)
	b.Repair, b.PromptsOnly = 1, true
	text := Plain(b, 1, 1<<20)
	at := -1
	for _, want := range []string{"package harness", "string constants", "idea 1 of 2", "mend this", "no such name", "The harness in use", source[:20], "advice", "Failed rollout 1", "Where was Gervan born?"} {
		next := strings.Index(text[at+1:], want)
		if next < 0 {
			t.Fatalf("%q does not come after %d in\n%s", want, at, text)
		}
		at += 1 + next
	}
	if strings.Contains(text, "secret-task-id") {
		t.Error("it names a task")
	}
	if second := Plain(b, 2, 1<<20); strings.Contains(second, "mend this") {
		t.Error("slot 2 has nothing to mend")
	}
	if short := Plain(b, 1, 100); len(short) > 101 || short[:90] != text[:90] {
		t.Errorf("%q", short)
	}
}

func TestDrafted(t *testing.T) {
	for reply, want := range map[string][2]string{
		"More turns.\n\n```go\npackage harness\n\nvar x = 1\n```\nThat is all.": {"package harness\n\nvar x = 1\n", "More turns."},
		"First this:\n```\nls\n```\nthen\n```go\npackage harness // y\n```":     {"package harness // y\n", "First this:"},
		"```go\npackage harness // cut":                                         {"package harness // cut\n", ""},
		"```package harness```":                                                 {"package harness\n", ""},
		"package harness // bare":                                               {"package harness // bare\n", ""},
		"a\n```\none\n```\nb\n```\ntwo\n```":                                    {"one\n", "a"},
		"Dromriee cn</search>":                                                  {"Dromriee cn</search>\n", ""},
	} {
		if source, n := Drafted(reply); source != want[0] || n.Hypothesis != want[1] {
			t.Errorf("%q: %q, %q", reply, source, n.Hypothesis)
		}
	}
}

func FuzzDrafted(f *testing.F) {
	f.Add("a```go\nb```c```")
	f.Add("``````")
	f.Fuzz(func(t *testing.T, reply string) {
		source, n := Drafted(reply)
		if len(source) > len(reply)+1 || len(n.Hypothesis) > maxText || strings.ContainsAny(n.Hypothesis, "\n\r") {
			t.Errorf("%q, %q", source, n.Hypothesis)
		}
	})
}

func FuzzParseNote(f *testing.F) {
	f.Add([]byte(`{"hypothesis":"a","axis":"b","parents":["h1"]}`))
	f.Add([]byte(`{"parents":3}`))
	f.Add([]byte(`[`))
	b := engine.Brief{Incumbent: "h1", Entries: []engine.Entry{{Harness: engine.Harness{ID: "h1"}}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := meta(parseNote(text), b, "p")
		if len(m.Hypothesis) > maxText || strings.ContainsAny(m.Hypothesis, "\n\r") || len(m.Parents) != 1 || m.Parents[0] != "h1" {
			t.Errorf("meta %+v", m)
		}
	})
}
