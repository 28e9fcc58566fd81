package kittest

import "github.com/seed-7c27e6b8/whale/harnesses/kit"

// Scripts are conversations for the seed harness of a domain; nil for other domains.
func Scripts(domain string) []Script {
	switch domain {
	case "lookup":
		return lookupScripts()
	case "sums":
		return sumsScripts()
	case "chess":
		return chessScripts()
	case "math":
		return mathScripts()
	case "searchqa":
		return searchqaScripts()
	case "own":
		return ownScripts()
	}
	return nil
}

func user(content string) kit.Message { return kit.Message{Role: kit.User, Content: content} }

func tool(content string) kit.Message { return kit.Message{Role: kit.Tool, Content: content} }

func reply(handle int, content string) kit.Message {
	return kit.Message{Role: kit.Assistant, Content: content, Handle: handle}
}

// search is one search of h0.
func search(query, result string) ToolStep {
	return ToolStep{Name: "search", Args: kit.Args("query", query, "k", "1"), Result: result}
}

func lookupScripts() []Script {
	const (
		input   = "Where was Gervan born?"
		passage = "Gervan: Gervan works as a baker. Gervan was born in Posram. Gervan was taught by Lusto. Gervan is married to Kimsel."
		short   = "Gervan: Gervan works as a baker. Gervan was born in Posram. Gervan was taught by Lusto."
		query   = "<search>Gervan</search>"
	)
	opening := []kit.Message{user(input)}
	seen := []kit.Message{user(input), reply(1, query), tool(short)}
	scripts := []Script{
		{Name: "search and answer", Replies: []string{query, "<answer>Posram</answer>"},
			Tools: []ToolStep{search("Gervan", passage)}, WantContext: seen},
		{Name: "answer at once", Replies: []string{"<answer>Posram</answer>", "unused"},
			WantContext: opening, WantReplies: 1},
		{Name: "the second search is not made", Replies: []string{query, "<search>Posram</search>", "unused"},
			Tools: []ToolStep{search("Gervan", passage)}, WantContext: seen, WantReplies: 2},
		{Name: "unreadable reply ends it", Replies: []string{"<search>Gervan", "unused"},
			WantContext: opening, WantReplies: 1},
		{Name: "wrong closing tag ends it", Replies: []string{"<search>Gervan</answer>", "unused"},
			WantContext: opening, WantReplies: 1},
		{Name: "empty reply ends it", Replies: []string{"", "unused"},
			WantContext: opening, WantReplies: 1},
		{Name: "spaces around the query", Replies: []string{"well <search> Gervan </search> then", "<answer>?</answer>"},
			Tools:       []ToolStep{search("Gervan", "No results.")},
			WantContext: []kit.Message{user(input), reply(1, "well <search> Gervan </search> then"), tool("No results.")}},
		{Name: "quotes in the query", Replies: []string{"<search>\"a\\b\n</search>", "<answer>?</answer>"},
			Tools:       []ToolStep{{Name: "search", Args: `{"query":"\"a\\b","k":"1"}`, Result: "a\nb"}},
			WantContext: []kit.Message{user(input), reply(1, "<search>\"a\\b\n</search>"), tool("a\nb")}},
		{Name: "no budget for a second turn", Replies: []string{query},
			Tools: []ToolStep{search("Gervan", passage)}, WantContext: seen, WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "lookup", input
	}
	return scripts
}

func sumsScripts() []Script {
	const input = "What is 7+5?"
	opening := []kit.Message{user(input)}
	scripts := []Script{
		{Name: "right", Replies: []string{"7+5=12\n<answer>12</answer>", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "unreadable", Replies: []string{"7+5=12\n12", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "no budget", WantContext: opening, WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "sums", input
	}
	return scripts
}

func ownScripts() []Script {
	const input = "Which of these is a fruit: pear, spoon?"
	opening := []kit.Message{user(input + "\nPut the final answer between <answer> and </answer>.")}
	scripts := []Script{
		{Name: "right", Replies: []string{"One can eat it.\n<answer>pear</answer>", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "without tags", Replies: []string{"pear", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "no budget", WantContext: opening, WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "own", input
	}
	return scripts
}

func chessScripts() []Script {
	const (
		input  = "6k1/5ppp/8/8/8/8/8/R3R1K1 w - - 0 1"
		first  = "- [a1a8] SAN=Ra8#\n- [e1e8] SAN=Re8#"
		second = "- [a1a7] SAN=Ra7\n- [e1e8] SAN=Re8#"
		good   = "<move>a1a8</move>"
	)
	question := func(list string) kit.Message { return user("Find the mate.\n" + list) }
	moves := ToolStep{Name: "moves", Args: "{}", Result: first}
	move := func(uci, result string) ToolStep {
		return ToolStep{Name: "move", Args: kit.Args("move", uci), Result: result}
	}
	scripts := []Script{
		{Name: "solved", Replies: []string{good, "unused"},
			Tools:       []ToolStep{moves, move("a1a8", "solved")},
			WantContext: []kit.Message{question(first)}, WantReplies: 1},
		{Name: "wrong is final", Replies: []string{good, "unused"},
			Tools:       []ToolStep{moves, move("a1a8", "wrong")},
			WantContext: []kit.Message{question(first)}, WantReplies: 1},
		{Name: "two moves, the second in a fresh context", Replies: []string{good, "<move>e1e8</move>"},
			Tools:       []ToolStep{moves, move("a1a8", "reply g8h8\n"+second), move("e1e8", "solved")},
			WantContext: []kit.Message{question(second)}},
		{Name: "one more try after an unreadable reply", Replies: []string{"a1a8", "<move>a1a8", "unused"},
			Tools:       []ToolStep{moves},
			WantContext: []kit.Message{question(first)}, WantReplies: 2},
		{Name: "one more try after an illegal move", Replies: []string{"<move>a1b8</move>", "<move>e1e9</move>", "unused"},
			Tools:       []ToolStep{moves, move("a1b8", "illegal a1b8: not a legal move here"), move("e1e9", "illegal e1e9: not a legal move here")},
			WantContext: []kit.Message{question(first)}, WantReplies: 2},
		{Name: "tries of both kinds", Replies: []string{"hm", "<move>a1b8</move>", good},
			Tools:       []ToolStep{moves, move("a1b8", "illegal a1b8: not a legal move here"), move("a1a8", "solved")},
			WantContext: []kit.Message{question(first)}},
		{Name: "no budget", Replies: []string{"hm"}, Tools: []ToolStep{moves},
			WantContext: []kit.Message{question(first)}, WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "chess", input
	}
	return scripts
}
