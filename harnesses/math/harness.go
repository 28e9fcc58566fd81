// Package harness is the seed harness h0 of the math domain: the model answers in a box,
// or writes one program, reads what it printed and then answers.
package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Limits.
const (
	maxTurns    = 2    // replies of the model in all
	maxNudges   = 0    // replies without box and program that are answered with nudgeText
	samples     = 1    // replies to the same context in the last turn, of which the most frequent answer counts
	replyTokens = 0    // most tokens of one reply; 0 = the rest of the budget
	outputBytes = 1000 // of a program's output that enter the context; 0 = all
)

// Texts. An empty text switches its use off.
const (
	systemText = ""
	taskText   = "Solve the problem. You may first write one Python program in a ```python block, its output is shown to you. Put the final answer in \\boxed{}."
	nudgeText  = "Put the final answer in \\boxed{}."
	hintText   = "" // added to what the model reads before its last turn
	silentText = "(no output)"
)

// Run asks, runs the program that the model writes and asks again, until there is a boxed
// answer, nothing readable or no turn left.
func Run(s *kit.Session) error {
	messages := opening(s)
	nudges := 0
	for turn := 1; turn <= maxTurns; turn++ {
		reply, err := ask(s, messages, turn)
		if err != nil {
			return err
		}
		if readAnswer(reply.Text) != "" || turn == maxTurns {
			return s.Submit(reply)
		}
		messages = append(messages, reply.Message())
		program := readProgram(reply.Text)
		hint := hintBefore(turn + 1)
		if program == "" {
			if nudges >= maxNudges {
				return s.Submit(reply)
			}
			nudges++
			messages = append(messages, kit.Message{Role: kit.User, Content: join(nudgeText, hint)})
			continue
		}
		output, err := s.Tool("python", kit.Args("code", program))
		if err != nil {
			return err
		}
		messages = append(messages, observation(output, hint))
	}
	return nil
}

// opening is the context of the first turn.
func opening(s *kit.Session) []kit.Message {
	var messages []kit.Message
	if systemText != "" {
		messages = append(messages, kit.Message{Role: kit.System, Content: systemText})
	}
	messages = append(messages, kit.Message{Role: kit.User, Content: join(s.Task().Input, taskText)})
	return messages
}

// ask lets the model write; in the last turn several samples may vote.
func ask(s *kit.Session, messages []kit.Message, turn int) (kit.Reply, error) {
	if turn < maxTurns || samples == 1 {
		return s.Generate(messages, kit.Options{MaxTokens: replyTokens})
	}
	reply, err := s.Generate(messages, kit.Options{Samples: samples, MaxTokens: replyTokens})
	if err != nil {
		return reply, err
	}
	return vote(reply), nil
}

// vote returns the first reply among the samples with the most frequent boxed answer, the
// first sample when none has one.
func vote(reply kit.Reply) kit.Reply {
	best := reply
	most := count(reply, readAnswer(reply.Text))
	for i := 0; i < len(reply.Others); i++ {
		votes := count(reply, readAnswer(reply.Others[i].Text))
		if votes > most {
			most = votes
			best = reply.Others[i]
		}
	}
	return best
}

// count is how many samples give this answer; no answer has no votes.
func count(reply kit.Reply, answer string) int {
	if answer == "" {
		return 0
	}
	votes := 0
	if readAnswer(reply.Text) == answer {
		votes++
	}
	for i := 0; i < len(reply.Others); i++ {
		if readAnswer(reply.Others[i].Text) == answer {
			votes++
		}
	}
	return votes
}

// readAnswer returns the content of the last complete box, "" when there is none.
func readAnswer(text string) string {
	from := strings.LastIndex(text, "\\boxed{")
	if from < 0 {
		return ""
	}
	rest := text[from+len("\\boxed{"):]
	depth := 1
	for i := 0; i < len(rest); i++ {
		letter := rest[i : i+1]
		if letter == "{" {
			depth++
		}
		if letter == "}" {
			depth--
		}
		if depth == 0 {
			return strings.TrimSpace(rest[:i])
		}
	}
	return ""
}

// readProgram returns the last complete block of Python, "" when there is none.
func readProgram(text string) string {
	from := strings.LastIndex(text, "```python")
	if from < 0 {
		return ""
	}
	rest := text[from+len("```python"):]
	to := strings.Index(rest, "```")
	if to < 0 {
		return ""
	}
	return strings.Trim(rest[:to], "\n")
}

// observation is a program's output as the model reads it. A hint belongs into the same
// turn, behind the tags that the tool role would write.
func observation(output string, hint string) kit.Message {
	text := strings.TrimSpace(output)
	if text == "" {
		text = silentText
	}
	if outputBytes > 0 && len(text) > outputBytes {
		text = text[:outputBytes]
	}
	if hint == "" {
		return kit.Message{Role: kit.Tool, Content: text}
	}
	return kit.Message{Role: kit.User, Content: "<tool_response>\n" + text + "\n</tool_response>\n" + hint}
}

// hintBefore is the hint for a turn: hintText when it is the last one.
func hintBefore(turn int) string {
	if turn == maxTurns {
		return hintText
	}
	return ""
}

// join puts two texts on lines of their own; an empty one is left out.
func join(first string, second string) string {
	if first == "" {
		return second
	}
	if second == "" {
		return first
	}
	return first + "\n" + second
}
