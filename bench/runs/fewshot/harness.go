// Package harness is a seed for searchqa and small models, which do not find the answer
// tags by being told of them: the harness searches with the question itself and shows, as
// earlier turns of the conversation, what answers look like. The examples are made up.
package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

const passageWords = 120

// examples: passage, question, answer.
var examples = [][3]string{
	{"Ornath is a walled town on the Mirel. Its tower was built in 1312 by the mason Gervan.", "Who built the tower of Ornath?", "Gervan"},
	{"The Mirel rises in the Ulm hills and ends in Vell Bay, 212 km to the west.", "Where does the Mirel end?", "Vell Bay"},
	{"Tarn Harbour opened in 1874, two years after that of Vell.", "Which harbour is older, Tarn or Vell?", "Vell"},
}

// Run asks once, with what a search for the question brings.
func Run(s *kit.Session) error {
	question := s.Task().Input
	found, err := s.Tool("search", kit.Args("query", question, "k", "1"))
	if err != nil {
		return err
	}
	var messages []kit.Message
	for _, e := range examples {
		messages = append(messages, ask(e[0], e[1]), kit.Message{Role: kit.Assistant, Content: "<answer>" + e[2] + "</answer>"})
	}
	_, err = s.Generate(append(messages, ask(found, question)), kit.Options{})
	return err
}

func ask(passage, question string) kit.Message {
	words := strings.Fields(passage)
	if len(words) > passageWords {
		words = words[:passageWords]
	}
	return kit.Message{Role: kit.User, Content: strings.Join(words, " ") + "\n\nQuestion: " + question}
}
