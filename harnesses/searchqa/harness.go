// Package harness is the seed harness h0 of the searchqa domain: the model may search once,
// with the query as it wrote it, reads one passage cut to 200 words, and answers.
package harness

import (
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Limits.
const (
	maxTurns     = 2   // replies of the model in all
	maxNudges    = 0   // unreadable replies that are answered with nudgeText
	passages     = 1   // passages that one search brings
	passageWords = 200 // words of each passage that enter the context; 0 = all
)

// Texts. An empty text switches its use off.
const (
	systemText = "Answer the question with a name, a date or a few words. To look something up in an encyclopedia, reply with <search>what to look for</search>; a passage comes back. When you know the answer, reply with <answer>the answer</answer> and nothing else."
	nudgeText  = "Reply with <search> or <answer>."
	hintText   = "" // added to what the model reads before its last turn
	repeatText = "" // takes the place of a result when a query comes again
)

// Run lets the model search and answer until it answers, writes something unreadable or
// has no turn left.
func Run(s *kit.Session) error {
	messages := opening(s.Task().Input)
	nudges := 0
	var asked []string
	for turn := 1; turn <= maxTurns; turn++ {
		reply, err := s.Generate(messages, kit.Options{})
		if err != nil {
			return err
		}
		messages = append(messages, reply.Message())
		action, text := readReply(reply.Text)
		if action == "answer" || turn == maxTurns {
			return nil
		}
		hint := hintBefore(turn + 1)
		if action == "" {
			if nudges >= maxNudges {
				return nil
			}
			nudges++
			messages = append(messages, nudge(hint))
			continue
		}
		found, err := search(s, text, asked)
		if err != nil {
			return err
		}
		asked = append(asked, text)
		messages = append(messages, observation(found, hint))
	}
	return nil
}

// opening is the context of the first turn.
func opening(question string) []kit.Message {
	var messages []kit.Message
	if systemText != "" {
		messages = append(messages, kit.Message{Role: kit.System, Content: systemText})
	}
	messages = append(messages, kit.Message{Role: kit.User, Content: question})
	return messages
}

// readReply reads what the model wants: "answer" or "search" with the text between the
// tags, or "" when neither pair of tags is complete.
func readReply(text string) (string, string) {
	answer := between(text, "<answer>", "</answer>")
	if answer != "" {
		return "answer", answer
	}
	query := between(text, "<search>", "</search>")
	if query != "" {
		return "search", query
	}
	return "", ""
}

// between returns the trimmed text between the first open tag and the end tag after it.
func between(text, open, end string) string {
	from := strings.Index(text, open)
	if from < 0 {
		return ""
	}
	rest := text[from+len(open):]
	to := strings.Index(rest, end)
	if to < 0 {
		return ""
	}
	return strings.TrimSpace(rest[:to])
}

// search asks the tool and cuts what it found; a repeated query may get repeatText.
func search(s *kit.Session, query string, asked []string) (string, error) {
	if repeatText != "" && contains(asked, query) {
		return repeatText, nil
	}
	found, err := s.Tool("search", kit.Args("query", query, "k", strconv.Itoa(passages)))
	if err != nil {
		return "", err
	}
	return cut(found, passageWords), nil
}

// contains reports whether a text is in the list.
func contains(list []string, text string) bool {
	for i := 0; i < len(list); i++ {
		if list[i] == text {
			return true
		}
	}
	return false
}

// cut keeps the first words of each line; 0 words = all.
func cut(text string, words int) string {
	if words == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		fields := strings.Fields(lines[i])
		if len(fields) > words {
			lines[i] = strings.Join(fields[:words], " ")
		}
	}
	return strings.Join(lines, "\n")
}

// hintBefore is the hint for a turn: hintText when it is the last one.
func hintBefore(turn int) string {
	if turn == maxTurns {
		return hintText
	}
	return ""
}

// nudge asks for the markup after a reply that could not be read.
func nudge(hint string) kit.Message {
	if hint == "" {
		return kit.Message{Role: kit.User, Content: nudgeText}
	}
	return kit.Message{Role: kit.User, Content: nudgeText + "\n" + hint}
}

// observation is a search result as the model reads it. A hint belongs into the same
// turn, behind the tags that the tool role would write.
func observation(found, hint string) kit.Message {
	if hint == "" {
		return kit.Message{Role: kit.Tool, Content: found}
	}
	return kit.Message{Role: kit.User, Content: "<tool_response>\n" + found + "\n</tool_response>\n" + hint}
}
