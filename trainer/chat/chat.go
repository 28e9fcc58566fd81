// Package chat renders a conversation to the ids that a model is conditioned
// on, and finds the text in the ids that it sampled. The format is the model's
// own template (Template, over package jinja), or ChatML when it has none
// (spec/models.md section 6, spec/nano.md 3.3):
//
//	<|im_start|>role⏎content<|im_end|>⏎   per message
//	<|im_start|>assistant⏎                the generation prompt
//
// Control ids come from the format alone: content is encoded with
// tokenizer.Encode, which knows no control tokens. What the model sampled goes
// back in as exactly the ids it sampled, so a conversation that goes on is an
// extension of what came before:
//
//	Render(messages + reply + more) starts with Render(messages) + reply.Sampled
//
// Tool calls are text in a reply; ParseCalls and FormatCalls know the formats
// of Qwen3 and Qwen3.5.
//
// The package may not know devices, harnesses or tasks.
//
// Not covered: dropping the reasoning of earlier turns as some templates do
// (what was sampled stays visible), images, documents, a template that renders
// replies of its own out of tool_calls (replies are what was sampled).
package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

var (
	// ErrNoTemplate marks a tokenizer without the control tokens of ChatML.
	ErrNoTemplate = errors.New("no chat format fits the tokenizer")
	// ErrMessage marks a conversation that cannot be rendered.
	ErrMessage = errors.New("bad message")
)

// Roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one turn of a conversation, or one tool result.
type Message struct {
	Role    string // System, User, Assistant or Tool
	Content string // ignored when Sampled is not nil
	// Sampled are the ids that the model sampled for exactly this assistant
	// message, used verbatim: with the stop token when it stopped by itself,
	// without one when it was cut off.
	Sampled []int32
}

// ChatML renders conversations. Immutable, safe for concurrent use.
type ChatML struct {
	tokens     *tokenizer.Tokenizer
	start, end int32
	newline    []int32
	prompt     []int32 // the generation prompt
	stops      []int32
	style      CallStyle // of the tools that are offered, NoCalls for none
	offer      string    // what the system turn says of them
}

// New makes the format for a tokenizer; eos are the model's further stop ids.
// ErrNoTemplate when the tokenizer lacks <|im_start|> or <|im_end|>.
func New(tokens *tokenizer.Tokenizer, eos []int32) (*ChatML, error) {
	c := &ChatML{tokens: tokens, newline: tokens.Encode("\n")}
	for _, control := range []struct {
		name string
		id   *int32
	}{{"<|im_start|>", &c.start}, {"<|im_end|>", &c.end}} {
		id, ok := tokens.ID(control.name)
		if !ok || !tokens.Special(id) {
			return nil, fmt.Errorf("ChatML needs the special token %s: %w", control.name, ErrNoTemplate)
		}
		*control.id = id
	}
	c.prompt = append([]int32{c.start}, tokens.Encode(Assistant+"\n")...)
	var err error
	c.stops, err = stopIDs(tokens, eos, c.end)
	return c, err
}

// stopIDs joins the end of turn and the model's own stop ids, in rising order.
func stopIDs(tokens *tokenizer.Tokenizer, eos []int32, end int32) ([]int32, error) {
	for _, id := range eos {
		if id < 0 || int(id) >= tokens.Size() {
			return nil, fmt.Errorf("eos id %d of a vocabulary of %d: %w", id, tokens.Size(), ErrNoTemplate)
		}
	}
	stops := append(slices.Clone(eos), end)
	slices.Sort(stops)
	return slices.Compact(stops), nil
}

// Stops returns the ids that end a reply, in rising order.
func (c *ChatML) Stops() []int32 { return slices.Clone(c.stops) }

// Render returns the ids of messages, generation prompt included. Consecutive
// tool results share one user turn.
func (c *ChatML) Render(messages []Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, fmt.Errorf("no messages: %w", ErrMessage)
	}
	var ids []int32
	if c.style != NoCalls && messages[0].Role != System {
		ids = c.turn(ids, System+"\n"+c.offer)
	}
	for i, m := range messages {
		if err := check(c.tokens, m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		switch m.Role {
		case System, User:
			content := m.Content
			if i == 0 && m.Role == System {
				content = c.system(content)
			}
			ids = c.turn(ids, m.Role+"\n"+content)
		case Tool:
			if i == 0 || messages[i-1].Role != Tool {
				ids = c.turn(ids, User+results(messages[i:]))
			}
		case Assistant:
			reply := m.Sampled
			if reply == nil {
				reply = c.Reply(m.Content)
			}
			ids = append(append(ids, c.prompt...), reply...)
			ids = append(ids, c.Glue(reply)...)
		}
	}
	return append(ids, c.prompt...), nil
}

// results wraps the tool results that messages begin with.
func results(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		if m.Role != Tool {
			break
		}
		b.WriteString("\n<tool_response>\n" + m.Content + "\n</tool_response>")
	}
	return b.String()
}

// turn appends one whole turn; text is role, newline and content.
func (c *ChatML) turn(ids []int32, text string) []int32 {
	ids = append(ids, c.start)
	ids = append(ids, c.tokens.Encode(text)...)
	ids = append(ids, c.end)
	return append(ids, c.newline...)
}

// Reply returns the ids of an assistant message that a person or program
// wrote, as if the model had sampled them after the generation prompt, end of
// turn included. Render uses the same ids for a message without Sampled.
func (c *ChatML) Reply(content string) []int32 {
	return append(c.tokens.Encode(content), c.end)
}

// Glue returns the ids that the format puts between a sampled reply and the
// next turn: nobody sampled them, so nobody is trained on them.
func (c *ChatML) Glue(sampled []int32) []int32 {
	if n := len(sampled); n > 0 && sampled[n-1] == c.end {
		return slices.Clone(c.newline)
	}
	return append([]int32{c.end}, c.newline...)
}

// Text returns what a reply says: the text of the sampled ids without control tokens.
func (c *ChatML) Text(sampled []int32) string { return replyText(c.tokens, c.stops, sampled) }

func replyText(tokens *tokenizer.Tokenizer, stops, sampled []int32) string {
	if n := len(sampled); n > 0 && slices.Contains(stops, sampled[n-1]) {
		sampled = sampled[:n-1]
	}
	return tokens.DecodeContent(sampled)
}

// check refuses an unknown role, sampled ids where none can be, and ids that
// the tokenizer does not have.
func check(tokens *tokenizer.Tokenizer, m Message) error {
	switch m.Role {
	case System, User, Assistant, Tool:
	default:
		return fmt.Errorf("unknown role %q: %w", m.Role, ErrMessage)
	}
	if m.Sampled != nil && m.Role != Assistant {
		return fmt.Errorf("role %q with sampled ids: %w", m.Role, ErrMessage)
	}
	for _, id := range m.Sampled {
		if id < 0 || int(id) >= tokens.Size() {
			return fmt.Errorf("sampled id %d of a vocabulary of %d: %w", id, tokens.Size(), ErrMessage)
		}
	}
	return nil
}
