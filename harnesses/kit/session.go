package kit

import (
	"errors"
	"strconv"
	"strings"
)

// Errors that a harness may meet and act on. After ErrBudget no call succeeds any more.
var (
	// ErrBudget: tokens, turns or tool calls of the rollout are used up. What the model
	// wrote until then is kept and verified.
	ErrBudget = errors.New("harness: budget used up")
	// ErrTool: the tool does not exist or can't read its arguments.
	ErrTool = errors.New("harness: bad tool call")
	// ErrContext: the conversation can't be rendered or is longer than the model's context.
	ErrContext = errors.New("harness: bad context")
)

// Session is what a harness holds while it works on one task. It is not safe for use
// from several goroutines, which a harness may not start anyway.
type Session struct {
	host   Host
	start  Start
	budget Budget
}

// NewSession joins a start and a host. Harnesses never call it.
func NewSession(start Start, host Host) *Session {
	return &Session{host: host, start: start, budget: start.Budget}
}

// Task returns the public part of the task.
func (s *Session) Task() Task { return s.start.Task }

// Tools returns the domain's tools.
func (s *Session) Tools() []ToolSpec { return s.start.Tools }

// Remaining returns what is left of the budget.
func (s *Session) Remaining() Budget { return s.budget }

// Generate lets the model write the next assistant message to a conversation. The first
// sample is the reply; further samples are in Reply.Others. It returns ErrBudget when
// the rollout's tokens or turns are used up and ErrContext when the conversation is not
// usable.
func (s *Session) Generate(messages []Message, options Options) (Reply, error) {
	replies, err := s.host.Generate(messages, options)
	if err != nil {
		return Reply{}, err
	}
	s.budget.Turns--
	for _, r := range replies {
		s.budget.Tokens -= r.Tokens
	}
	first := replies[0]
	first.Others = replies[1:]
	return first, nil
}

// Tool calls a tool with a JSON object of arguments (see Args) and returns its text.
func (s *Session) Tool(name, args string) (string, error) {
	result, err := s.host.Tool(name, args)
	if err == nil || errors.Is(err, ErrTool) { // a call that can't be read is one too
		s.budget.Tools--
	}
	if err != nil {
		return "", err
	}
	return result, nil
}

// Submit names the reply that counts as the answer. Without it the last reply counts.
func (s *Session) Submit(r Reply) error { return s.host.Note(Note{Submit: r.Handle}) }

// Log writes a line into the rollout's trajectory, for the reader of the archive.
func (s *Session) Log(text string) error { return s.host.Note(Note{Log: text}) }

// Args builds the JSON object of a tool call from names and values, all values strings:
// Args("query", "Gervan", "k", "1").
func Args(pairs ...string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(pairs[i]))
		b.WriteByte(':')
		b.WriteString(quote(pairs[i+1]))
	}
	b.WriteByte('}')
	return b.String()
}

// quote writes a JSON string; invalid UTF-8 becomes U+FFFD.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < 0x20:
			b.WriteString(`\u00`)
			if r < 0x10 {
				b.WriteByte('0')
			}
			b.WriteString(strconv.FormatInt(int64(r), 16))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
