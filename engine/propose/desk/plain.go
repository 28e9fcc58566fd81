package desk

import (
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Plain words a brief for a model that can only reply: everything that it may know is in
// the text, the most important first, and the reply is the candidate for one slot. Of what
// does not fit into most bytes the end is left out.
func Plain(b engine.Brief, slot, most int) string {
	var p strings.Builder
	fmt.Fprintf(&p, "# Improve the harness of the domain %s\n\n", b.Domain)
	p.WriteString("A harness is the Go program around a language model: it builds the context, offers tools, reads replies and " +
		"decides when to stop. Reply with one sentence about what gets better and why, then with one complete Go file between ```go and ```: " +
		"`package harness` with `func Run(s *kit.Session) error`. It is scored on the same tasks as the one in use. " +
		"A file that holds an answer, a question or an id of a task, or the name of a data set, is refused.\n\n")
	if b.PromptsOnly {
		p.WriteString("Only the values of string constants at package level may differ from the seed harness.\n\n")
	}
	if b.Slots > 1 {
		fmt.Fprintf(&p, "This is idea %d of %d: make it another one than the others would be.\n\n", slot, b.Slots)
	}
	if back := b.Rejected[len(b.Rejected)-min(b.Repair, len(b.Rejected)):]; slot <= len(back) {
		r := back[slot-1]
		fmt.Fprintf(&p, "## Refused just now: mend this\n\n%s\n\n```go\n%s\n```\n\n", r.Err.Error(), strings.TrimSpace(r.Harness.Source))
	}
	for _, e := range b.Entries {
		if e.Harness.ID == b.Incumbent {
			fmt.Fprintf(&p, "## The harness in use\n\n```go\n%s\n```\n\n", strings.TrimSpace(e.Harness.Source))
		}
	}
	fmt.Fprintf(&p, "## Advice for this domain\n\n%s\n\n", strings.TrimSpace(b.Skill))
	for i, t := range transcripts(b.Failures) {
		fmt.Fprintf(&p, "## Failed rollout %d: %s %s\n\n", i+1, t.Verdict, t.Failure)
		for _, l := range t.Lines {
			fmt.Fprintf(&p, "%s: %s\n", strings.TrimSpace(l.Role+" "+l.Tool), l.Text)
		}
		p.WriteString("\n")
	}
	text := p.String()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "\n"
	}
	return text
}

// Drafted takes a candidate out of a reply to Plain: the first fenced block that begins a
// package, else the first block, else all of it; and the words before it as hypothesis. A
// reply that was cut may leave its block open.
func Drafted(reply string) (source string, n Note) {
	before, rest, fenced := strings.Cut(reply, "```")
	if !fenced {
		return strings.TrimSpace(reply) + "\n", Note{}
	}
	n.Hypothesis = oneLine(before)
	for fenced {
		block, after, _ := strings.Cut(rest, "```")
		if head, body, ok := strings.Cut(block, "\n"); ok && !strings.Contains(strings.TrimSpace(head), " ") {
			block = body
		}
		if source == "" || strings.Contains(block, "package ") {
			source = strings.TrimSpace(block) + "\n"
		}
		if strings.Contains(block, "package ") {
			break
		}
		_, rest, fenced = strings.Cut(after, "```")
	}
	return source, n
}
