package builtin

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// replies is a model that writes given texts in turn, the last one for ever.
func replies(texts ...string) func(int, []kit.Message) string {
	return func(turn int, _ []kit.Message) string { return texts[min(turn, len(texts)-1)] }
}

// passage is a tool that always finds the same 30 words.
func passage(string, string) (string, error) { return wordsOf(30), nil }

func apply(t testing.TB, c *source, d *diagnosis, starts ...string) *source {
	t.Helper()
	for _, start := range starts {
		found := false
		for _, m := range movesOf(c, d) {
			if strings.HasPrefix(m.label(), start) {
				next, err := c.apply(m.edits)
				if err != nil {
					t.Fatalf("%s: %v", start, err)
				}
				c, found = next, true
				break
			}
		}
		if !found {
			t.Fatalf("no move %q", start)
		}
	}
	return c
}

// Ensure that each edit does what its hypothesis says, on harnesses of two styles, run
// by the interpreter.
func TestMoves_Behave(t *testing.T) {
	seedLookup, plainLookup := seed(t, "lookup"), mustRead(t, plain)
	tests := []struct {
		name  string
		base  *source
		moves []string
		model func(int, []kit.Message) string
		tool  func(string, string) (string, error)
		check func(h *script, err error) bool
		// holds: true of the unchanged harness, too, and must stay so.
		holds bool
	}{
		{"turns of the seed", seedLookup, []string{"turns (maxTurns): 2 -> 6"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return err == nil && len(h.calls) == 6 }, false},
		{"turns of the plain one", plainLookup, []string{"turns (turns in Run): 2 -> 6"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return err == nil && len(h.calls) == 6 }, false},
		{"whole passages in the seed", seedLookup, []string{"length kept (passageWords): 16 -> all"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.Contains(h.said[len(h.said)-1], "w30") }, false},
		{"whole passages in the plain one", plainLookup, []string{"length kept (length kept in Run): 16 -> all"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.Contains(h.said[len(h.said)-1], "w30") }, false},
		{"twice the words", plainLookup, []string{"length kept (length kept in Run): 16 -> 32"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.Contains(h.said[len(h.said)-1], "w30") }, false},
		{"more passages", seedLookup, []string{"tool argument (passages): 1 -> 2"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.Contains(h.used[0], `"k":"2"`) }, false},
		{"more passages, bare number", plainLookup, []string{"tool argument (tool argument in Run): 1 -> 2"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.Contains(h.used[0], `"k":"2"`) }, false},
		{"nudge in the seed", seedLookup, []string{"turns (maxTurns): 2 -> 4", "retries (maxNudges): 0 -> 1"}, replies("garbage", "<answer>B</answer>"), passage,
			func(h *script, err error) bool {
				return len(h.calls) == 2 && h.said[len(h.said)-1] == "user: Reply with <search> or <answer>."
			}, false},
		{"nudge in the plain one", plainLookup, []string{"nudge"}, replies("garbage", "<answer>B</answer>"), passage,
			func(h *script, err error) bool {
				return len(h.calls) == 2 && h.said[len(h.said)-1] == "user: Reply with <search> or <answer>."
			}, false},
		{"nudging ends", plainLookup, []string{"nudge"}, replies("garbage"), passage,
			func(h *script, err error) bool { return err == nil && len(h.calls) == 2 }, false},
		{"nudging twice", plainLookup, []string{"nudge", "retries (reminders): 1 -> 2"}, replies("garbage"), passage,
			func(h *script, err error) bool { return err == nil && len(h.calls) == 3 }, false},
		{"nudge leaves no trace", plainLookup, []string{"nudge"}, replies("garbage", "<search>A</search>", "<answer>B</answer>"), passage,
			func(h *script, err error) bool {
				return len(h.said) == 3 && !strings.Contains(strings.Join(h.said, ""), "garbage")
			}, false},
		{"missing closing tag", seedLookup, []string{"tolerate"}, replies("<search>A"), passage,
			func(h *script, err error) bool { return len(h.used) == 1 && strings.Contains(h.used[0], `"A"`) }, false},
		{"missing opening tag and case", plainLookup, []string{"tolerate"}, replies("A</SEARCH>"), passage,
			func(h *script, err error) bool { return len(h.used) == 2 && strings.Contains(h.used[0], `"A"`) }, false},
		{"complete answers are left alone", plainLookup, []string{"tolerate"}, replies("<search>A <answer>B</answer>"), passage,
			func(h *script, err error) bool { return len(h.used) == 0 && len(h.calls) == 1 }, true},
		{"hint in the seed", seedLookup, []string{"text (hintText)"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return strings.HasSuffix(h.said[len(h.said)-1], "Answer now.") }, false},
		{"hint in the plain one", plainLookup, []string{"hint on the last turn"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool {
				return len(h.calls) == 2 && len(h.said) == 4 && h.said[3] == "user: Answer now."
			}, false},
		{"hint only on the last turn", plainLookup, []string{"hint on the last turn", "turns (turnLimit): 2 -> 4"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool {
				return len(h.calls) == 4 && strings.Count(strings.Join(h.said, "\n"), "Answer now.") == 1
			}, false},
		{"repeated query in the seed", seedLookup, []string{"turns (maxTurns): 2 -> 6", "text (repeatText)"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return len(h.used) == 1 && len(h.calls) == 6 }, false},
		{"repeated query in the plain one", plainLookup, []string{"turns (turns in Run): 2 -> 6", "drop repeated calls"}, replies("<search>A</search>"), passage,
			func(h *script, err error) bool {
				return len(h.used) == 1 && len(h.calls) == 6 && strings.Contains(h.said[4], "Already searched.")
			}, false},
		{"refused call", seedLookup, []string{"survive refused calls"}, replies("<search>A</search>"),
			func(string, string) (string, error) { return "", kit.ErrTool },
			func(h *script, err error) bool {
				return err == nil && len(h.calls) == 2 && strings.Contains(h.said[2], "refused")
			}, false},
		{"look first", seedLookup, []string{"look first"}, replies("<answer>B</answer>", "<search>A</search>", "<answer>C</answer>"), passage,
			func(h *script, err error) bool { return len(h.calls) == 3 && len(h.used) == 1 && len(h.said) == 3 }, false},
		{"vote", plainLookup, []string{"vote"}, replies("<answer>B</answer>", "<answer>C</answer>", "<answer>C</answer>"), passage,
			func(h *script, err error) bool { return len(h.calls) == 3 && h.submitted == 2 }, false},
		{"everything at once", plainLookup,
			[]string{"vote", "nudge", "look first", "tolerate", "drop repeated calls", "hint on the last turn", "turns (turnLimit): 2 -> 6", "length kept (length kept in Run): 16 -> all"},
			replies("<search>A</search>"), passage,
			func(h *script, err error) bool { return err == nil && len(h.used) == 1 && len(h.calls) == 18 }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made := apply(t, test.base, lookupDiagnosis(), test.moves...)
			compiles(t, made.text)
			h := &script{model: test.model, tool: test.tool}
			err := interpret(t, made.text, "Where was A born?", h)
			if !test.check(h, err) {
				t.Errorf("error %v, calls %q, tools %q, submitted %d, context %q\n%s", err, h.calls, h.used, h.submitted, h.said, made.text)
			}
			old := &script{model: test.model, tool: test.tool}
			if !test.holds && test.check(old, interpret(t, test.base.text, "Where was A born?", old)) {
				t.Error("the unchanged harness passes, too: the check can't fail")
			}
		})
	}
}

// Ensure that functions and constants move between candidates with what they need.
func TestCrossovers(t *testing.T) {
	d := lookupDiagnosis()
	base := seed(t, "lookup")
	donor := apply(t, base, d, "tolerate", "turns (maxTurns): 2 -> 6")
	var steps []string
	for _, m := range crossovers(base, donor, "hdonor", .1) {
		made, err := base.apply(m.edits)
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		compiles(t, made.text)
		steps = append(steps, m.name)
		if m.name == "take function Run" {
			h := &script{model: replies("<search>A"), tool: passage}
			if err := interpret(t, made.text, "q", h); err != nil || len(h.used) != 1 {
				t.Errorf("Run without its helpers: %v, tools %q\n%s", err, h.used, made.text)
			}
		}
	}
	if want := []string{"take constant maxTurns", "take function Run"}; !slices.Equal(steps, want) {
		t.Errorf("crossovers %q, want %q", steps, want)
	}
	if n := len(crossovers(base, base, "hself", 0)); n != 0 {
		t.Errorf("%d crossovers with itself", n)
	}
}

func TestDiagnose(t *testing.T) {
	c := seed(t, "lookup")
	call := func(text string) engine.Event {
		return engine.Event{Call: &engine.Call{Text: text, Stop: engine.StopEnd}}
	}
	tool := func(query, result string) engine.Event {
		return engine.Event{Tool: &engine.ToolUse{Name: "search", Args: kit.Args("query", query), Result: result}}
	}
	said := func(text string) engine.Event { return engine.Event{Said: &engine.Turn{Role: kit.Tool, Content: text}} }
	question := engine.Event{Said: &engine.Turn{Role: kit.User, Content: "Where was Gervan born?"}}
	full := wordsOf(30)
	tests := []struct {
		name   string
		kind   engine.VerdictKind
		events []engine.Event
		want   symptom
	}{
		{"asks in the last turn", engine.Unparsed, []engine.Event{question, call("<search>A</search>"), tool("A", full), said(full), call("<search>B</search>")}, endedAsking},
		{"the tool ran last", engine.Unparsed, []engine.Event{question, call("<search>A</search>"), tool("A", full)}, endedAsking},
		{"cut passage, guessed", engine.Different, []engine.Event{question, call("<search>A</search>"), tool("A", full), said(wordsOf(16)), call("<answer>B</answer>")}, cutResult | wrongAnswer},
		{"cut inside written tags", engine.Different, []engine.Event{question, call("<search>A</search>"), tool("A", full), said("<tool_response>\n" + wordsOf(16) + "\n</tool_response>\nAnswer now."), call("<answer>B</answer>")}, cutResult | wrongAnswer},
		{"both", engine.Unparsed, []engine.Event{question, call("<search>A</search>"), tool("A", full), said(wordsOf(16)), call("<search>B</search>")}, endedAsking | cutResult},
		{"no markup", engine.Unparsed, []engine.Event{question, call("Posram")}, unreadable},
		{"half a search", engine.Unparsed, []engine.Event{question, call("<search>A")}, unreadable | brokenCall},
		{"half an answer", engine.Unparsed, []engine.Event{question, call("<answer>A</search>")}, unreadable | brokenCall},
		{"repeated", engine.Unparsed, []engine.Event{question, call("<search>A</search>"), tool("A", full), said(full), call("<search>a</search>"), tool("a", full)}, endedAsking | repeatedCall},
		{"found nothing", engine.Different, []engine.Event{question, call("<search>A</search>"), tool("A", "No results."), said("No results."), call("<answer>B</answer>")}, nothingFound | wrongAnswer},
		{"guessed", engine.Different, []engine.Event{question, call("<answer>B</answer>")}, noTool | wrongAnswer},
	}
	b := briefOf(t, "lookup", c)
	for _, test := range tests {
		b.Failures = append(b.Failures, &engine.Trajectory{Outcome: engine.Scored, Verdict: engine.Verdict{Kind: test.kind}, Events: test.events})
	}
	d := diagnose(b, c)
	if !slices.Equal(d.marks.tool, []string{"search"}) || !slices.Equal(d.marks.reply, []string{"search", "answer"}) {
		t.Errorf("markup %+v", d.marks)
	}
	for i, test := range tests {
		if d.failures[i] != test.want {
			t.Errorf("%s: symptoms %010b, want %010b", test.name, d.failures[i], test.want)
		}
	}
}
