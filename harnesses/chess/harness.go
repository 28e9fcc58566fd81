// Package harness is the seed harness h0 of the chess domain: the model reads the list of
// legal moves and names one, a turn a move, with one more try after a reply without a
// move and one after an illegal move.
package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Limits.
const (
	maxMoves       = 9 // moves that the model is asked for
	formatRetries  = 1 // more tries a move after a reply without a readable move
	illegalRetries = 1 // more tries a move after an illegal move
	keptMessages   = 0 // messages of earlier moves that stay in the context
)

// Texts. An empty retry text asks the same question again, without the failed reply.
const (
	systemText  = ""
	taskText    = "Find the mate."
	formatText  = ""
	illegalText = ""
)

// Run plays until the puzzle is over, the tries of a move are used up or maxMoves moves
// are played.
func Run(s *kit.Session) error {
	listing, err := s.Tool("moves", "{}")
	if err != nil {
		return err
	}
	var history []kit.Message
	for move := 1; move <= maxMoves; move++ {
		messages := question(history, listing)
		reply, result, err := play(s, messages)
		if err != nil {
			return err
		}
		next := listingAfter(result)
		if next == "" {
			return nil
		}
		history = append(messages, reply.Message())
		listing = next
	}
	return nil
}

// play asks for one move, tries again within the limits and returns the reply that held
// the move with what the move tool said; "" when no move could be made.
func play(s *kit.Session, messages []kit.Message) (kit.Reply, string, error) {
	context := messages
	formats := 0
	illegals := 0
	for {
		reply, err := s.Generate(context, kit.Options{})
		if err != nil {
			return reply, "", err
		}
		move := readMove(reply.Text)
		if move == "" {
			if formats >= formatRetries {
				return reply, "", nil
			}
			formats++
			context = again(messages, reply, formatText)
			continue
		}
		result, err := s.Tool("move", kit.Args("move", move))
		if err != nil {
			return reply, "", err
		}
		if !strings.HasPrefix(result, "illegal") {
			return reply, result, nil
		}
		if illegals >= illegalRetries {
			return reply, "", nil
		}
		illegals++
		context = again(messages, reply, illegalText)
	}
}

// question is the context for a move: what is kept of earlier moves, then the list.
func question(history []kit.Message, listing string) []kit.Message {
	var messages []kit.Message
	if systemText != "" {
		messages = append(messages, kit.Message{Role: kit.System, Content: systemText})
	}
	from := len(history) - keptMessages
	if from < 0 {
		from = 0
	}
	for i := from; i < len(history); i++ {
		if history[i].Role != kit.System {
			messages = append(messages, history[i])
		}
	}
	messages = append(messages, kit.Message{Role: kit.User, Content: taskText + "\n" + listing})
	return messages
}

// again is the context of another try: the same question, and when there is a text also
// the failed reply and the text.
func again(messages []kit.Message, reply kit.Reply, text string) []kit.Message {
	if text == "" {
		return messages
	}
	var longer []kit.Message
	longer = append(longer, messages...)
	longer = append(longer, reply.Message())
	longer = append(longer, kit.Message{Role: kit.User, Content: text})
	return longer
}

// readMove returns the move between the last complete pair of move tags, "" when there is
// none.
func readMove(text string) string {
	from := strings.LastIndex(text, "<move>")
	if from < 0 {
		return ""
	}
	rest := text[from+len("<move>"):]
	to := strings.Index(rest, "</move>")
	if to < 0 {
		return ""
	}
	return strings.TrimSpace(rest[:to])
}

// listingAfter returns the new list of moves in what the move tool said: "" when the
// puzzle is over.
func listingAfter(result string) string {
	if !strings.HasPrefix(result, "reply ") {
		return ""
	}
	end := strings.Index(result, "\n")
	if end < 0 {
		return ""
	}
	return result[end+1:]
}
