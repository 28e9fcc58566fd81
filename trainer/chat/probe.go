package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

const openThoughts = "<think>\n"

// probe learns from renderings of small conversations how the template ends a
// turn, and checks what append-only rendering rests on: the generation prompt
// begins what a reply is rendered as, a turn ends with a control token, and
// what follows a reply depends neither on what was before it nor on its place.
func (t *Template) probe() error {
	stand := freeRune(nil, markerBase, t.source.Template)
	reply := string(stand)
	ask := Message{Role: User, Content: "."}
	answer := Message{Role: Assistant, Content: reply}
	plain := func(content string) string { return content }
	var texts [4]string
	for i, messages := range [4][]Message{{ask}, {ask, answer}, {ask, answer, ask}, {ask, answer, ask, answer, ask}} {
		var err error
		if texts[i], err = t.text(messages, plain); err != nil {
			return err
		}
	}
	before, after, found := strings.Cut(texts[1], reply)
	if !found || strings.Contains(after, reply) {
		return errors.New("it does not render a reply exactly once")
	}
	prompt := texts[0]
	if !strings.HasPrefix(before, prompt) {
		return fmt.Errorf("its generation prompt %q does not begin the rendering of a reply", tail(prompt))
	}
	t.prefix = before[len(prompt):]
	t.thinking = strings.HasSuffix(prompt, openThoughts)
	end, glue, ok := t.turnEnd(after)
	if !ok {
		return fmt.Errorf("it ends a turn with %q, which is no control token", tail(after))
	}
	t.end, t.glue = end, t.tokens.Encode(glue)
	_, next, _ := strings.Cut(texts[2], reply)
	if end, again, _ := t.turnEnd(next); end != t.end || again != glue {
		return errors.New("it ends a turn otherwise when the conversation goes on")
	}
	if at := strings.LastIndex(texts[3], reply); at < 0 || texts[3][at+len(reply):] != next {
		return errors.New("what it renders after a reply depends on the place in the conversation")
	}
	return nil
}

// turnEnd reads the control token that a text begins with, and the plain text
// up to the next one.
func (t *Template) turnEnd(text string) (end int32, glue string, ok bool) {
	token, ok := t.controlAt(text)
	if !ok {
		return 0, "", false
	}
	text = text[len(token.Content):]
	for at := range len(text) {
		if _, next := t.controlAt(text[at:]); next {
			return token.ID, text[:at], true
		}
	}
	return token.ID, text, true
}

// tail cuts a text to its end, for an error line.
func tail(s string) string { return s[max(0, len(s)-40):] }

// controlAt returns the longest control token that text begins with.
func (t *Template) controlAt(text string) (tokenizer.AddedToken, bool) {
	if text == "" || !t.begins[text[0]] {
		return tokenizer.AddedToken{}, false
	}
	for _, c := range t.control { // longest first
		if strings.HasPrefix(text, c.Content) {
			return c, true
		}
	}
	return tokenizer.AddedToken{}, false
}

// controlOf returns the control tokens among ids, in order.
func (t *Template) controlOf(ids []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !t.tokens.Special(id) })
}

// encode turns rendered text into ids: control tokens where they stand, the
// stretches between them as plain text without marks.
func (t *Template) encode(text string, mark rune) []int32 {
	var ids []int32
	from := 0
	plain := func(to int) {
		ids = append(ids, t.tokens.Encode(strings.ReplaceAll(text[from:to], string(mark), ""))...)
	}
	for at := 0; at < len(text); {
		token, ok := t.controlAt(text[at:])
		if !ok {
			at++
			continue
		}
		plain(at)
		ids = append(ids, token.ID)
		at += len(token.Content)
		from = at
	}
	plain(len(text))
	return ids
}

// markerBase is where the runes begin that mark places in a text; which of
// them is used depends on what the text has. They are private: no text of a
// person holds them.
const markerBase = '\U000F1000'

// freeRune returns the first rune from base on, in steps of 2, that neither
// the template nor a message holds.
func freeRune(messages []Message, base rune, template string) rune {
	for r := base; ; r += 2 {
		if !strings.ContainsRune(template, r) && !slices.ContainsFunc(messages, func(m Message) bool { return strings.ContainsRune(m.Content, r) }) {
			return r
		}
	}
}

// guard puts a mark into every control token that a content spells, so that
// encode does not find it, and at an edge where the content could be the
// beginning or end of one. With apart, a mark goes behind every character that
// can begin a control token.
func (t *Template) guard(content string, mark rune, apart bool) string {
	if apart {
		for _, first := range t.firsts() {
			content = strings.ReplaceAll(content, first, first+string(mark))
		}
		return content
	}
	for _, c := range t.control {
		if strings.Contains(content, c.Content) {
			first := firstRune(c.Content)
			content = strings.ReplaceAll(content, c.Content, first+string(mark)+c.Content[len(first):])
		}
	}
	var before, behind string
	for _, c := range t.control {
		for n := 1; n < len(c.Content); n++ {
			if strings.HasSuffix(content, c.Content[:n]) {
				behind = string(mark)
			}
			if strings.HasPrefix(content, c.Content[n:]) {
				before = string(mark)
			}
		}
	}
	return before + content + behind
}

func firstRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[:i]
		}
	}
	return s
}

// firsts returns the characters that control tokens begin with, once each.
func (t *Template) firsts() []string {
	var list []string
	for _, c := range t.control {
		if first := firstRune(c.Content); !slices.Contains(list, first) {
			list = append(list, first)
		}
	}
	return list
}

// mayForge reports whether all bytes of some control token are in content, in
// order: only then can a template that cuts pieces out leave one.
func (t *Template) mayForge(content string) bool {
	return slices.ContainsFunc(t.control, func(c tokenizer.AddedToken) bool {
		rest := c.Content
		for i := 0; i < len(content) && rest != ""; i++ {
			if content[i] == rest[0] {
				rest = rest[1:]
			}
		}
		return rest == ""
	})
}
