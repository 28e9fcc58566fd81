package harness_test

import (
	"os"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
	rich "github.com/seed-7c27e6b8/whale/harnesses/lookup/testdata/rich"
)

// The rich harness walks two hops, nudges and hints.
func TestRich(t *testing.T) {
	const (
		input = "Who is the mayor of the birthplace of Gervan?"
		one   = "Gervan: Gervan works as a baker. Gervan was taught by Lusto. Gervan is married to Kimsel. Gervan was born in Posram."
		two   = "Posram: Posram is known for wine. Posram is part of Dalum. Posram lies on the river Tesk. The mayor of Posram is Hulor."
	)
	user := func(text string) kit.Message { return kit.Message{Role: kit.User, Content: text} }
	tool := func(text string) kit.Message { return kit.Message{Role: kit.Tool, Content: text} }
	said := func(handle int, text string) kit.Message {
		return kit.Message{Role: kit.Assistant, Content: text, Handle: handle}
	}
	step := func(query, result string) kittest.ToolStep {
		return kittest.ToolStep{Name: "search", Args: kit.Args("query", query, "k", "1"), Result: result}
	}
	const nudge = "Reply with <search> or <answer>."
	scripts := []kittest.Script{
		{Name: "two hops", Replies: []string{"<search>Gervan</search>", "<search>Posram</search>", "<answer>Hulor</answer>"},
			Tools:       []kittest.ToolStep{step("Gervan", one), step("Posram", two)},
			WantContext: []kit.Message{user(input), said(1, "<search>Gervan</search>"), tool(one), said(2, "<search>Posram</search>"), tool(two)}},
		{Name: "hint before the sixth turn", Replies: []string{"a", "b", "c", "d", "<search>Gervan</search>", "e"},
			Tools: []kittest.ToolStep{step("Gervan", one)},
			WantContext: []kit.Message{user(input), said(1, "a"), user(nudge), said(2, "b"), user(nudge), said(3, "c"), user(nudge), said(4, "d"), user(nudge),
				said(5, "<search>Gervan</search>"), user("<tool_response>\n" + one + "\n</tool_response>\nAnswer now.")}},
		{Name: "hint behind a nudge", Replies: []string{"a", "b", "c", "d", "e", "f", "unused"},
			WantReplies: 6,
			WantContext: []kit.Message{user(input), said(1, "a"), user(nudge), said(2, "b"), user(nudge), said(3, "c"), user(nudge), said(4, "d"), user(nudge),
				said(5, "e"), user(nudge + "\nAnswer now.")}},
	}
	for _, script := range scripts {
		script.Domain, script.Input = "lookup", input
		t.Run(script.Name, func(t *testing.T) {
			if err := script.Play(rich.Run); err != nil {
				t.Error(err)
			}
		})
	}
}

// The rich harness is the seed with other constants, nothing else: all that lies between
// them is within reach of a search that turns constants.
func TestRichDiffersInConstantsOnly(t *testing.T) {
	body := func(path string) string {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(source), "// Run lets")
		if !ok {
			t.Fatalf("%s has no Run", path)
		}
		return rest
	}
	if body("harness.go") != body("testdata/rich/harness.go") {
		t.Error("harness.go and testdata/rich/harness.go differ after their constants")
	}
}
