package lookup

import (
	"math/rand/v2"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Shape is a harness as far as a demonstration sees it. Demonstrations are played under
// random shapes, else the weights would work under one harness only.
type Shape struct {
	K      int    // passages of a search
	Words  int    // words of a passage that enter the context; 0 = all
	Turns  int    // replies in all
	System string // system message, "" = none
	Nudge  string // answer to an unreadable reply, "" = the episode ends
	Hint   string // added to what is read before the last turn, "" = none
	Repeat string // answer to a repeated query, "" = it is searched again
}

// H0 is the shape of the seed harness; a test holds them together.
var H0 = Shape{K: 1, Words: 16, Turns: 2}

// Rich is the shape of the rich harness of spec/nano.md section 3.1.
var Rich = Shape{K: 1, Turns: 6, Nudge: nudges[0], Hint: hints[0]}

// The wordings that a harness may use; a model knows no others.
var (
	nudges = []string{"Reply with <search> or <answer>.", "Write <search> or <answer>.",
		"Use <search> or <answer>.", "Please reply with <search> or <answer>."}
	hints   = []string{"Answer now.", "Last turn: answer now.", "Give your answer now."}
	repeats = "Already searched. Search another name."
)

// randomShape draws a shape as in spec/nano.md section 4.
func randomShape(rng *rand.Rand) Shape {
	s := Shape{K: 1}
	if rng.Float64() >= 0.6 {
		s.K = 2 + rng.IntN(2)
	}
	s.Words = []int{8, 11, 14, 14, 18, 99, 99, 99}[rng.IntN(8)]
	s.Turns = []int{2, 2, 3, 4, 4, 6}[rng.IntN(6)]
	s.System = bench.RandomSystem(rng)
	if rng.Float64() < 0.6 {
		s.Nudge = pick(rng, nudges)
	}
	if rng.Float64() < 0.5 {
		s.Hint = pick(rng, hints)
	}
	if rng.Float64() < 0.4 {
		s.Repeat = repeats
	}
	return s
}

// opening is the context of the first turn.
func (s Shape) opening(question string) []bench.Message {
	var messages []bench.Message
	if s.System != "" {
		messages = append(messages, bench.Message{Role: kit.System, Content: s.System})
	}
	return append(messages, bench.Message{Role: kit.User, Content: question})
}

// hintBefore is the hint for a turn, counted from 1.
func (s Shape) hintBefore(turn int) string {
	if turn == s.Turns {
		return s.Hint
	}
	return ""
}

// observation is a search result before a turn; the bytes are those of the harnesses.
func (s Shape) observation(found string, turn int) bench.Message {
	hint := s.hintBefore(turn)
	if hint == "" {
		return bench.Message{Role: kit.Tool, Content: found}
	}
	return bench.Message{Role: kit.User, Content: "<tool_response>\n" + found + "\n</tool_response>\n" + hint}
}

// nudgeBefore answers an unreadable reply before a turn.
func (s Shape) nudgeBefore(turn int) bench.Message {
	text := s.Nudge
	if hint := s.hintBefore(turn); hint != "" {
		text += "\n" + hint
	}
	return bench.Message{Role: kit.User, Content: text}
}

// cut keeps the first words of each line.
func (s Shape) cut(text string) string {
	if s.Words == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > s.Words {
			lines[i] = strings.Join(fields[:s.Words], " ")
		}
	}
	return strings.Join(lines, "\n")
}
