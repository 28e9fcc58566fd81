package kittest

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// searchqaSystem is the system message of h0.
const searchqaSystem = "Answer the question with a name, a date or a few words. To look something up in an encyclopedia, reply with <search>what to look for</search>; a passage comes back. When you know the answer, reply with <answer>the answer</answer> and nothing else."

func searchqaScripts() []Script {
	const (
		input   = "Who wrote the opera that opened the Halle theatre?"
		query   = "<search>opera that opened the Halle theatre</search>"
		answer  = "<answer>Ida Brandt</answer>"
		passage = "Halle theatre: It opened in 1886 with an opera by Ida Brandt."
	)
	long := "Halle theatre: " + strings.Repeat("word ", 199)
	opening := []kit.Message{{Role: kit.System, Content: searchqaSystem}, user(input)}
	after := func(first string, result string) []kit.Message {
		return append(append([]kit.Message{}, opening...), reply(1, first), tool(result))
	}
	found := search("opera that opened the Halle theatre", passage)
	scripts := []Script{
		{Name: "search and answer", Replies: []string{query, answer}, Tools: []ToolStep{found}, WantContext: after(query, passage)},
		{Name: "answer at once", Replies: []string{answer, "unused"}, WantContext: opening, WantReplies: 1},
		{Name: "an answer counts more than a search", Replies: []string{query + answer, "unused"}, WantContext: opening, WantReplies: 1},
		{Name: "the query is passed on unchanged", Replies: []string{"First: <search>Who \"wrote\" it?\nHalle</search>", answer},
			Tools:       []ToolStep{search("Who \"wrote\" it?\nHalle", passage)},
			WantContext: after("First: <search>Who \"wrote\" it?\nHalle</search>", passage)},
		{Name: "a passage is cut to 200 words", Replies: []string{query, answer},
			Tools:       []ToolStep{search("opera that opened the Halle theatre", long)},
			WantContext: after(query, strings.TrimSpace("Halle theatre: "+strings.Repeat("word ", 198)))},
		{Name: "the second search is not made", Replies: []string{query, "<search>Brandt</search>", "unused"},
			Tools: []ToolStep{found}, WantContext: after(query, passage), WantReplies: 2},
		{Name: "unreadable reply ends it", Replies: []string{"It is Ida Brandt.", "unused"}, WantContext: opening, WantReplies: 1},
		{Name: "nothing found", Replies: []string{query, answer},
			Tools:       []ToolStep{search("opera that opened the Halle theatre", "No results.")},
			WantContext: after(query, "No results.")},
		{Name: "no budget for a second turn", Replies: []string{query}, Tools: []ToolStep{found},
			WantContext: after(query, passage), WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "searchqa", input
	}
	return scripts
}
