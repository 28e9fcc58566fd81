package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/chat/jinja"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Thinking says what a template is told about enable_thinking.
type Thinking int

// Without a word the template does what it does by itself.
const (
	ThinkingAsTemplate Thinking = iota
	ThinkingOn
	ThinkingOff
)

// Source is a chat template and the variables that come with the model.
type Source struct {
	Template string // Jinja
	BOS, EOS string // texts of these tokens, "" for none
	Thinking Thinking
}

// Template renders conversations with a model's own Jinja template. Immutable,
// safe for concurrent use.
//
// A template renders text from text, but what was sampled must stay as it is,
// so a conversation is cut at its replies: the messages before the first are
// rendered as they are, those after a reply behind a stand-in for the
// conversation so far, of which only what follows the stand-in's reply is
// kept. New checks on the template that this is sound.
type Template struct {
	tokens   *tokenizer.Tokenizer
	source   Source
	compiled *jinja.Template
	tools    jinja.Value            // list of schemas, nil for none
	foreign  string                 // every text in tools
	mayJoin  bool                   // mayForge of it
	control  []tokenizer.AddedToken // longest first
	begins   [256]bool              // bytes that control tokens begin with
	end      int32                  // ends a turn
	glue     []int32
	prefix   string // what the template puts between generation prompt and a reply
	thinking bool   // the generation prompt ends inside of thoughts
	stops    []int32
}

// NewTemplate compiles a template and checks that it fits the tokenizer and
// can go on append-only; ErrNoTemplate says why not. eos are the model's
// further stop ids.
func NewTemplate(tokens *tokenizer.Tokenizer, source Source, eos []int32) (*Template, error) {
	t := &Template{tokens: tokens, source: source}
	for _, a := range tokens.Added() {
		if a.Special {
			t.control = append(t.control, a)
			t.begins[a.Content[0]] = true
		}
	}
	slices.SortStableFunc(t.control, func(a, b tokenizer.AddedToken) int { return len(b.Content) - len(a.Content) })
	var err error
	if t.compiled, err = jinja.Compile(source.Template); err == nil {
		err = t.probe()
	}
	if err != nil {
		return nil, fmt.Errorf("chat template: %w: %w", err, ErrNoTemplate)
	}
	if t.stops, err = stopIDs(tokens, eos, t.end); err != nil {
		return nil, err
	}
	return t, nil
}

// WithTools returns the template with tool schemas, JSON objects in the form
// {"type": "function", "function": {...}}, which every conversation is told.
func (t *Template) WithTools(schemas [][]byte) (*Template, error) {
	list, err := parseSchemas(schemas)
	if err != nil {
		return nil, err
	}
	with := *t
	with.tools, with.foreign, with.mayJoin = nil, "", false
	if len(schemas) > 0 {
		var b strings.Builder
		eachText(list, func(text string) string { b.WriteString(text + "\n"); return text })
		with.tools, with.foreign = list, b.String()
		with.mayJoin = with.mayForge(with.foreign)
	}
	return &with, nil
}

// Stops returns the ids that end a reply, in rising order.
func (t *Template) Stops() []int32 { return slices.Clone(t.stops) }

// Render returns the ids of messages, generation prompt included.
func (t *Template) Render(messages []Message) ([]int32, error) {
	if len(messages) == 0 {
		return nil, fmt.Errorf("no messages: %w", ErrMessage)
	}
	for i, m := range messages {
		if err := check(t.tokens, m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	part, rest := untilReply(messages)
	if len(part) == 0 {
		return nil, fmt.Errorf("message 0: a template needs a message before the first reply: %w", ErrMessage)
	}
	ids, err := t.ids(part, part)
	for err == nil && len(rest) > 0 {
		reply := rest[0].Sampled
		if reply == nil {
			reply = t.Reply(rest[0].Content)
		}
		part, rest = untilReply(rest[1:])
		var more []int32
		more, err = t.after(part)
		if n := len(reply); n > 0 && reply[n-1] == t.end && err == nil {
			more = more[1:]
		}
		ids = slices.Concat(ids, reply, more)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrMessage)
	}
	return ids, nil
}

// untilReply cuts messages before the first of the assistant's.
func untilReply(messages []Message) (part, rest []Message) {
	for i, m := range messages {
		if m.Role == Assistant {
			return messages[:i], messages[i:]
		}
	}
	return messages, nil
}

// after returns the ids that follow a reply, its end of turn included, when
// part and a generation prompt come next.
func (t *Template) after(part []Message) ([]int32, error) {
	stand := freeRune(part, markerBase, t.source.Template+t.foreign)
	all := append([]Message{{Role: User, Content: "."}, {Role: Assistant, Content: string(stand)}}, part...)
	return t.ids(all, part, stand)
}

// ids renders messages with a generation prompt and encodes the text, or what
// follows the last of the runes cut. guarded are the messages whose contents
// are foreign.
func (t *Template) ids(messages, guarded []Message, cut ...rune) ([]int32, error) {
	mark := freeRune(guarded, markerBase+1, t.source.Template+t.foreign)
	ids, err := t.rendered(messages, cut, mark, false)
	if err != nil || !t.mayJoin && !slices.ContainsFunc(guarded, func(m Message) bool { return t.mayForge(m.Content) }) {
		return ids, err
	}
	// Contents or schemas hold pieces that the template might join to a control token:
	// rendered with all pieces apart, there must be the same ones.
	apart, err := t.rendered(messages, cut, mark, true)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(t.controlOf(ids), t.controlOf(apart)) {
		return nil, errors.New("a message becomes a control token in this template")
	}
	return ids, nil
}

// rendered renders and encodes once; apart breaks up all that could be part of
// a control token.
func (t *Template) rendered(messages []Message, cut []rune, mark rune, apart bool) ([]int32, error) {
	text, err := t.text(messages, func(content string) string { return t.guard(content, mark, apart) })
	if err != nil {
		return nil, err
	}
	for _, r := range cut {
		_, after, found := strings.Cut(text, string(r))
		if !found || strings.ContainsRune(after, r) {
			return nil, errors.New("the template does not render a reply exactly once")
		}
		text = after
	}
	return t.encode(text, mark), nil
}

// text renders messages and a generation prompt; shown prepares a content.
func (t *Template) text(messages []Message, shown func(string) string) (string, error) {
	list := jinja.NewList()
	for i, m := range messages {
		role, content := m.Role, shown(m.Content)
		if role == Tool && !strings.Contains(t.source.Template, "tool") {
			// The template knows no tools: their results are a user's turn, as in ChatML.
			if i > 0 && messages[i-1].Role == Tool {
				continue
			}
			role, content = User, shown(strings.TrimPrefix(results(messages[i:]), "\n"))
		}
		list.Items = append(list.Items, jinja.NewDict().Set("role", role).Set("content", content))
	}
	variables := jinja.NewDict().Set("messages", list).Set("tools", eachText(t.tools, shown)).Set("documents", nil).Set("add_generation_prompt", true)
	if t.source.BOS != "" {
		variables.Set("bos_token", t.source.BOS)
	}
	if t.source.EOS != "" {
		variables.Set("eos_token", t.source.EOS)
	}
	if t.source.Thinking != ThinkingAsTemplate {
		variables.Set("enable_thinking", t.source.Thinking == ThinkingOn)
	}
	return t.compiled.Render(variables)
}

// Reply returns the ids of an assistant message that a person or program
// wrote, as if the model had sampled them after the generation prompt: with
// the empty thoughts that the template gives a reply without any, and with the
// end of turn.
func (t *Template) Reply(content string) []int32 {
	text := t.prefix + content
	if strings.Contains(content, "</think>") {
		text = content
		if t.thinking {
			text = strings.TrimPrefix(content, openThoughts)
		}
	}
	return append(t.tokens.Encode(text), t.end)
}

// Glue returns the ids that the format puts between a sampled reply and the
// next turn: nobody sampled them, so nobody is trained on them.
func (t *Template) Glue(sampled []int32) []int32 {
	if n := len(sampled); n > 0 && sampled[n-1] == t.end {
		return slices.Clone(t.glue)
	}
	return append([]int32{t.end}, t.glue...)
}

// Text returns what a reply says: the text of the sampled ids without control tokens.
func (t *Template) Text(sampled []int32) string { return replyText(t.tokens, t.stops, sampled) }
