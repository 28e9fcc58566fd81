package kittest

// FourTurns is the harness whose speed is measured everywhere: up to four replies, in each a
// call found by a regular expression and answered with a formatted text.
const FourTurns = `package harness

import (
	"fmt"
	"regexp"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

var call = regexp.MustCompile("search\\((\\d+)\\)")

func Run(s *kit.Session) error {
	messages := []kit.Message{{Role: kit.User, Content: s.Task().Input}}
	for turn := 0; turn < 4; turn++ {
		reply, err := s.Generate(messages, kit.Options{})
		if err != nil {
			return err
		}
		found := call.FindStringSubmatch(reply.Text)
		if found == nil {
			return nil
		}
		text := fmt.Sprintf("turn %d: found %s", turn, found[1])
		messages = append(messages, reply.Message(), kit.Message{Role: kit.Tool, Content: text})
	}
	return nil
}
`
