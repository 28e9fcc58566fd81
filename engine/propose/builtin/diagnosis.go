package builtin

import (
	"regexp"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// symptom is something that a failed rollout shows; one rollout may show several.
type symptom uint16

const (
	endedAsking  symptom = 1 << iota // no answer: the last reply asked for a tool and no turn was left
	unreadable                       // no answer: the last reply has no complete pair of tags
	brokenCall                       // a reply with half of a tool's tags, and no tool ran after it
	cutResult                        // the context holds less of a tool result than the tool returned
	repeatedCall                     // the same tool call with the same result twice
	nothingFound                     // a tool found nothing
	noTool                           // answered without a tool although there are tools
	ranOut                           // the limit on tokens cut a reply
	wrongAnswer                      // readable and wrong
	toolFault                        // ended by a tool call that the tool refused
)

// markup are the pairs of tags that replies are written in.
type markup struct {
	reply []string // all, the tools' first
	tool  []string // those that lead to a tool call
}

// diagnosis is what the traces say, once per brief.
type diagnosis struct {
	failures []symptom // one entry per failed rollout
	marks    markup
	skill    string
	// promptsOnly: nothing but texts may change.
	promptsOnly bool
}

// count returns how many failed rollouts show at least one of the symptoms.
func (d *diagnosis) count(any symptom) int {
	n := 0
	for _, f := range d.failures {
		if f&any != 0 {
			n++
		}
	}
	return n
}

func diagnose(b engine.Brief, base *source) *diagnosis {
	d := &diagnosis{skill: b.Skill, promptsOnly: b.PromptsOnly}
	d.marks = readMarkup(b, base)
	tools := false
	for _, list := range [][]*engine.Trajectory{b.Failures, b.Successes} {
		for _, t := range list {
			for i := range t.Events {
				tools = tools || t.Events[i].Tool != nil
			}
		}
	}
	for _, t := range b.Failures {
		d.failures = append(d.failures, symptoms(t, d.marks, tools))
	}
	return d
}

var (
	tagPattern  = regexp.MustCompile(`<(/?)([A-Za-z][A-Za-z0-9_]*)>`)
	codePattern = regexp.MustCompile("`([^`\n]+)`")
)

// foreignTag: markup of chat templates and of tool results, which no reply should hold.
func foreignTag(name string) bool {
	return strings.Contains(name, "response") || strings.Contains(name, "result") ||
		strings.Contains(name, "think") || strings.HasPrefix(name, "im_")
}

// readMarkup collects the tags that the harness's own strings and SKILL.md name, tags
// that precede tool calls in the traces first.
func readMarkup(b engine.Brief, base *source) markup {
	var named []string
	known := map[string]bool{}
	collect := func(text string) {
		for _, m := range tagPattern.FindAllStringSubmatch(text, -1) {
			name := strings.ToLower(m[2])
			if !known[name] && !foreignTag(name) {
				known[name] = true
				named = append(named, name)
			}
		}
	}
	for _, value := range base.strings() {
		collect(value)
	}
	for _, m := range codePattern.FindAllStringSubmatch(b.Skill, -1) {
		collect(m[1])
	}
	calls := map[string]bool{}
	for _, list := range [][]*engine.Trajectory{b.Failures, b.Successes} {
		for _, t := range list {
			for i := 1; i < len(t.Events); i++ {
				if c := t.Events[i-1].Call; c != nil && t.Events[i].Tool != nil {
					for _, name := range named {
						if complete(c.Text, name) {
							calls[name] = true
						}
					}
				}
			}
		}
	}
	var m markup
	for _, name := range named {
		if calls[name] {
			m.tool = append(m.tool, name)
		}
	}
	m.reply = append(m.reply, m.tool...)
	for _, name := range named {
		if !calls[name] {
			m.reply = append(m.reply, name)
		}
	}
	return m
}

// complete tells whether a text has a pair of tags with something between them.
func complete(text, name string) bool {
	_, rest, ok := strings.Cut(text, "<"+name+">")
	if !ok {
		return false
	}
	inside, _, ok := strings.Cut(rest, "</"+name+">")
	return ok && strings.TrimSpace(inside) != ""
}

func anyComplete(text string, names []string) bool {
	for _, name := range names {
		if complete(text, name) {
			return true
		}
	}
	return false
}

// half tells whether a text has a trace of a pair of tags, in any case, that is not
// complete.
func half(text, name string) bool {
	lower := strings.ToLower(text)
	return !complete(text, name) && (strings.Contains(lower, "<"+name) || strings.Contains(lower, "/"+name+">"))
}

// symptoms reads one failed rollout.
func symptoms(t *engine.Trajectory, marks markup, domainHasTools bool) symptom {
	var s symptom
	var last *engine.Call
	var result *engine.ToolUse
	seen := map[string]string{}
	toolAfterLast := false
	for i := range t.Events {
		e := t.Events[i]
		switch {
		case e.Call != nil:
			last, toolAfterLast = e.Call, false
			if e.Call.Stop == engine.StopLength {
				s |= ranOut
			}
		case e.Tool != nil:
			result, toolAfterLast = e.Tool, true
			key := e.Tool.Name + " " + strings.ToLower(e.Tool.Args)
			if before, ok := seen[key]; ok && before == e.Tool.Result {
				s |= repeatedCall
			}
			seen[key] = e.Tool.Result
			if e.Tool.Failed || empty(e.Tool.Result) {
				s |= nothingFound
			}
		case e.Said != nil && result != nil:
			if shortened(result.Result, e.Said.Content) {
				s |= cutResult
			}
			result = nil
		}
	}
	return s | ending(t, marks, last, toolAfterLast, domainHasTools && len(seen) == 0)
}

// ending reads how a failed rollout ended.
func ending(t *engine.Trajectory, marks markup, last *engine.Call, toolAfterLast, toolless bool) symptom {
	var s symptom
	if t.Outcome == engine.Invalid && strings.Contains(t.Failure, "tool call") {
		s |= toolFault
	}
	if last == nil {
		return s
	}
	switch {
	case t.Verdict.Kind == engine.Different:
		s |= wrongAnswer
		if toolless {
			s |= noTool
		}
	case toolAfterLast || anyComplete(last.Text, marks.tool):
		s |= endedAsking
	case !anyComplete(last.Text, marks.reply):
		s |= unreadable
	}
	for i := range t.Events {
		c := t.Events[i].Call
		if c == nil || i+1 < len(t.Events) && t.Events[i+1].Tool != nil {
			continue
		}
		for _, name := range marks.tool {
			if half(c.Text, name) {
				s |= brokenCall
			}
		}
	}
	return s
}

// empty tells whether a tool result says that there is nothing: `No results.`, `none`.
func empty(result string) bool {
	words := strings.Fields(strings.ToLower(result))
	return len(words) == 0 || len(words) <= 5 && (words[0] == "no" || words[0] == "none" || words[0] == "nothing")
}

// shortened tells whether a message holds a beginning of a tool result, but not all of
// its words.
func shortened(result, said string) bool {
	said = tagPattern.ReplaceAllString(said, " ")
	all, kept := strings.Fields(result), strings.Fields(said)
	if len(kept) < 2 || len(kept) >= len(all) {
		return false
	}
	return all[0] == kept[0] && all[1] == kept[1]
}

// phrase returns the first wording in backticks in SKILL.md that starts with one of the
// given words, otherwise fallback: what a model was trained on beats what reads well.
func (d *diagnosis) phrase(fallback string, starts ...string) string {
	for _, m := range codePattern.FindAllStringSubmatch(d.skill, -1) {
		for _, start := range starts {
			if strings.HasPrefix(m[1], start) && strings.Contains(m[1], " ") {
				return m[1]
			}
		}
	}
	return fallback
}

// reminder is the sentence that asks for the markup: `Reply with <search> or <answer>.`
func (d *diagnosis) reminder() string {
	var tags []string
	for _, name := range d.marks.reply {
		tags = append(tags, "<"+name+">")
	}
	return d.phrase("Reply with "+strings.Join(tags, " or ")+".", "Reply with")
}
