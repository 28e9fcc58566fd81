package builtin

import (
	"fmt"
	"strconv"
	"strings"
)

// nudgeOperator asks again, with a reminder of the markup, when a reply can't be read.
// The unreadable reply and the reminder stay in the context of the next try only, so
// the caller's conversation goes on as if the model had written well at once.
type nudgeOperator struct{}

func (nudgeOperator) moves(c *source, d *diagnosis) []move {
	sites := c.generateSites()
	if len(sites) == 0 || len(d.marks.reply) == 0 || c.nudges(d) {
		return nil
	}
	limit, tags := c.fresh("reminders"), c.fresh("replyTags")
	ask, readable, reminder := c.fresh("askAgain"), c.fresh("readable"), c.fresh("reminder")
	generate := sites[0].inner("s", "messages", "options")
	code := `
// ` + limit + ` is how often one turn is asked again when its reply can't be read.
const ` + limit + ` = 1

const ` + reminder + ` = ` + strconv.Quote(d.reminder()) + `

var ` + tags + ` = []string{` + quoted(d.marks.reply) + `}

// ` + ask + ` asks again with a reminder while a reply has no complete pair of tags.
func ` + ask + `(s *kit.Session, messages []kit.Message, options kit.Options) (kit.Reply, error) {
	reply, err := ` + generate + `
	if err != nil {
		return reply, err
	}
	var longer []kit.Message
	longer = append(longer, messages...)
	for n := 0; n < ` + limit + ` && !` + readable + `(reply.Text); n++ {
		longer = append(longer, reply.Message())
		longer = append(longer, kit.Message{Role: kit.User, Content: ` + reminder + `})
		next, err := ` + strings.Replace(generate, "messages", "longer", 1) + `
		if err != nil {
			return reply, err
		}
		reply = next
	}
	return reply, nil
}

// ` + readable + ` reports whether a text has a complete pair of tags.
func ` + readable + `(text string) bool {
	for i := 0; i < len(` + tags + `); i++ {
		from := strings.Index(text, "<"+` + tags + `[i]+">")
		if from >= 0 && strings.Contains(text[from:], "</"+` + tags + `[i]+">") {
			return true
		}
	}
	return false
}
`
	edits := append(c.imports("strings"), c.rewired(sites, ask)...)
	return []move{{
		name: "nudge", step: "once", axis: onRecovery, cures: unreadable | brokenCall, share: .5, trust: .3,
		why: because(d.evidence(unreadable|brokenCall, "ended with a reply that could not be read"),
			fmt.Sprintf("answer it with %q and ask again", d.reminder())),
		edits: append(edits, c.atEnd(code)),
	}}
}

// nudges tells whether a harness has a reminder of its own.
func (c *source) nudges(d *diagnosis) bool {
	for _, text := range c.strings() {
		if text == d.reminder() || strings.HasPrefix(text, "Reply with") {
			return true
		}
	}
	return false
}

// quoted lists strings as Go literals.
func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(s))
	}
	return b.String()
}

// insistOperator draws a fresh reply when the first one answers without having used a
// tool: the reply that did not look anything up is a guess.
type insistOperator struct{}

func (insistOperator) moves(c *source, d *diagnosis) []move {
	sites := c.generateSites()
	if len(sites) == 0 || len(d.marks.tool) == 0 || len(d.marks.tool) == len(d.marks.reply) ||
		c.function("lookFirst") != nil {
		return nil
	}
	first, guesses, wants := c.fresh("lookFirst"), c.fresh("redraws"), c.fresh("asksForTool")
	generate := sites[0].inner("s", "messages", "options")
	code := `
// ` + guesses + ` is how often a first reply that uses no tool is drawn again.
const ` + guesses + ` = 2

// ` + first + ` draws the first reply of a conversation again while it asks for no tool.
func ` + first + `(s *kit.Session, messages []kit.Message, options kit.Options) (kit.Reply, error) {
	reply, err := ` + generate + `
	if err != nil {
		return reply, err
	}
	for i := 0; i < len(messages); i++ {
		if messages[i].Role == kit.Assistant {
			return reply, nil
		}
	}
	for n := 0; n < ` + guesses + ` && !` + wants + `(reply.Text); n++ {
		next, err := ` + generate + `
		if err != nil {
			return reply, err
		}
		reply = next
	}
	return reply, nil
}

// ` + wants + ` reports whether a text holds a tool's opening tag.
func ` + wants + `(text string) bool {
	tags := []string{` + quoted(d.marks.tool) + `}
	for i := 0; i < len(tags); i++ {
		if strings.Contains(text, "<"+tags[i]+">") {
			return true
		}
	}
	return false
}
`
	edits := append(c.imports("strings"), c.rewired(sites, first)...)
	return []move{{
		name: "look first", step: "2 redraws", axis: onTools, cures: noTool, share: .6, trust: .15,
		why: because(d.evidence(noTool, "answered without using a tool"),
			"draw the first reply again when it asks for no tool"),
		edits: append(edits, c.atEnd(code)),
	}}
}
