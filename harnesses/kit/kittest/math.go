package kittest

import "github.com/seed-7c27e6b8/whale/harnesses/kit"

func mathScripts() []Script {
	const (
		input   = "What is 12 times 12?"
		task    = "Solve the problem. You may first write one Python program in a ```python block, its output is shown to you. Put the final answer in \\boxed{}."
		program = "Let me compute.\n```python\nprint(12*12)\n```"
		boxed   = "It is \\boxed{144}."
	)
	opening := []kit.Message{user(input + "\n" + task)}
	run := func(output string) ToolStep {
		return ToolStep{Name: "python", Args: kit.Args("code", "print(12*12)"), Result: output}
	}
	after := func(shown string) []kit.Message {
		return []kit.Message{opening[0], reply(1, program), tool(shown)}
	}
	long := make([]byte, 1200)
	for i := range long {
		long[i] = '7'
	}
	scripts := []Script{
		{Name: "answer at once", Replies: []string{boxed, "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "a program and then the answer", Replies: []string{program, boxed},
			Tools: []ToolStep{run("144\n")}, WantContext: after("144"), WantSubmit: 2},
		{Name: "a box beside a program ends it", Replies: []string{program + boxed, "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "the second program is not run", Replies: []string{program, program, "unused"},
			Tools: []ToolStep{run("")}, WantContext: after("(no output)"), WantReplies: 2, WantSubmit: 2},
		{Name: "long output is cut", Replies: []string{program, boxed},
			Tools: []ToolStep{run(string(long))}, WantContext: after(string(long[:1000])), WantSubmit: 2},
		{Name: "neither box nor program ends it", Replies: []string{"It is 144.", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "a box that never closes ends it", Replies: []string{"\\boxed{\\frac{288}{2}", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "a block that never closes ends it", Replies: []string{"```python\nprint(1)", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "an empty reply ends it", Replies: []string{"", "unused"},
			WantContext: opening, WantReplies: 1, WantSubmit: 1},
		{Name: "no budget for a second turn", Replies: []string{program},
			Tools: []ToolStep{run("144")}, WantContext: after("144"), WantError: kit.ErrBudget},
	}
	for i := range scripts {
		scripts[i].Domain, scripts[i].Input = "math", input
	}
	return scripts
}
