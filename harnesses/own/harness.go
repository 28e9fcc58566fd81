// Package harness is the seed harness h0 of own tasks: one question, one reply, no
// tool.
package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Limits.
const (
	maxTurns  = 1 // replies of the model in all
	maxNudges = 0 // unreadable replies that are answered with nudgeText
	samples   = 1 // replies to the same question, of which the most frequent answer counts
)

// Texts. An empty text switches its use off.
const (
	systemText = ""
	taskText   = "Put the final answer between <answer> and </answer>."
	nudgeText  = "Reply with <answer>."
)

// Run asks the question and submits the reply whose answer is the most frequent one.
func Run(s *kit.Session) error {
	messages := opening(s.Task().Input)
	nudges := 0
	for turn := 1; turn <= maxTurns; turn++ {
		reply, err := s.Generate(messages, kit.Options{Samples: samples})
		if err != nil {
			return err
		}
		best := vote(reply)
		if readAnswer(best.Text) != "" || nudges >= maxNudges {
			return s.Submit(best)
		}
		nudges++
		messages = append(messages, best.Message())
		messages = append(messages, kit.Message{Role: kit.User, Content: nudgeText})
	}
	return nil
}

// opening is the context of the first turn.
func opening(question string) []kit.Message {
	var messages []kit.Message
	if systemText != "" {
		messages = append(messages, kit.Message{Role: kit.System, Content: systemText})
	}
	content := question
	if taskText != "" {
		content = question + "\n" + taskText
	}
	messages = append(messages, kit.Message{Role: kit.User, Content: content})
	return messages
}

// vote returns the first reply among the samples with the most frequent readable answer,
// the first sample when none can be read.
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

// count is how many samples give this answer; an unreadable answer has no votes.
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

// readAnswer returns the text of the last complete pair of answer tags, "" when there is
// none.
func readAnswer(text string) string {
	from := strings.LastIndex(text, "<answer>")
	if from < 0 {
		return ""
	}
	rest := text[from+len("<answer>"):]
	to := strings.Index(rest, "</answer>")
	if to < 0 {
		return ""
	}
	return strings.TrimSpace(rest[:to])
}
