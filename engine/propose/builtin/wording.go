package builtin

import (
	"fmt"
	"go/ast"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// wordingOperator rewords the prompts where nothing else may change. It lists what could
// help at once; what is composed at random when that is tried out is in compose.
type wordingOperator struct{}

// prompted is a text constant of a harness with what it is for.
type prompted struct {
	name string
	lit  *ast.BasicLit
	text string
	use  purpose
}

// blocks are the sentences that a text of some purpose can be made of. Those of SKILL.md
// come first: the model may have been trained on them.
func (d *diagnosis) blocks(what string) []string {
	remind := d.reminder()
	own := map[string][]string{
		"repeated call": {"Already searched. Search another name.", "You have that result already.", "Ask for something else.", "Try other words.",
			"That was asked before: use its result."},
		"refused call": {"That was refused.", remind, "Read what was refused, and choose another.", "Choose one of the listed.", "Try again."},
		"nudge": {remind, "Your reply could not be read.", "Close every tag.", "Write one pair of tags and nothing else.", "Please use the tags.",
			"Go on from your last reply."},
		"hint on the last turn": {"Answer now.", "This is your last reply.", "No more calls: answer.", "Answer with what you know.",
			"Give the most likely answer.", "Keep it short."},
		"instructions": {remind, "Do one step at a time.", "If the question has two parts, solve the first part first.", "Use the tool before you answer.",
			"Ask for one thing at a time.", "Read the result to its end.", "Do not guess: look it up.", "Do not repeat a call.",
			"Copy the answer from what you have read.", "Answer in as few words as possible.", "Write nothing but the tags.",
			"Check your answer before you give it.", "Stop when you know the answer."},
	}
	starts := map[string][]string{"repeated call": {"Already"}, "refused call": {"Illegal", "That"}, "nudge": {"Reply with", "Write <", "Use <", "Please reply"},
		"hint on the last turn": {"Answer now", "Last turn", "Give your answer"}}
	var all []string
	for _, m := range codePattern.FindAllStringSubmatch(d.skill, -1) {
		for _, start := range starts[what] {
			if strings.HasPrefix(m[1], start) && strings.Contains(m[1], " ") && !slices.Contains(all, m[1]) {
				all = append(all, m[1])
			}
		}
	}
	for _, text := range own[what] {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// instructions is the purpose of texts at the start of a conversation.
var instructions = purpose{words: []string{"system", "task", "prompt", "instruct", "opening"}, what: "instructions", axis: onContext,
	cures: unreadable | brokenCall | noTool | wrongAnswer, sign: "ended without a right answer", share: .15, trust: .15}

// prompts lists the text constants whose purpose is known, in the order of the source.
func (c *source) prompts(d *diagnosis) []prompted {
	var all []prompted
	for _, d0 := range c.file.Decls {
		g, ok := d0.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Names) != 1 || len(spec.Values) != 1 || !c.used(spec.Names[0]) {
				continue
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				continue
			}
			if use, ok := purposeOf(d, spec.Names[0].Name, spec.Doc.Text()+spec.Comment.Text()); ok {
				all = append(all, prompted{spec.Names[0].Name, lit, text, use})
			}
		}
	}
	return all
}

// purposeOf reads what a text is for from its name, then from its comment.
func purposeOf(d *diagnosis, name, comment string) (purpose, bool) {
	for _, where := range []string{name, comment} {
		where = strings.ToLower(where)
		for _, p := range append(purposes(d), instructions) {
			for _, word := range p.words {
				if strings.Contains(where, word) {
					return p, true
				}
			}
		}
	}
	return purpose{}, false
}

func (wordingOperator) moves(c *source, d *diagnosis) []move {
	if !d.promptsOnly {
		return nil
	}
	var all []move
	for _, p := range c.prompts(d) {
		for i, text := range p.rewordings(d.blocks(p.use.what)) {
			m := p.move(c, d, text)
			m.share, m.trust = m.share/float64(i+1), m.trust/float64(i+1)
			all = append(all, m)
		}
	}
	return all
}

// rewordings are single changes of a text: another sentence in its place or behind it,
// one sentence less, two in the other order.
func (p prompted) rewordings(blocks []string) []string {
	var all []string
	add := func(text string) {
		if text != p.text && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	keeps := p.use.what == instructions.what && p.text != "" // a task's own text is not lost
	if !keeps {
		for _, b := range blocks {
			add(b)
		}
	}
	parts := sentences(p.text)
	if len(parts) > 0 {
		for _, b := range blocks {
			if !slices.Contains(parts, b) {
				add(strings.TrimSpace(p.text) + " " + b)
			}
		}
	}
	for i := range parts {
		if len(parts) > 1 {
			add(strings.Join(slices.Delete(slices.Clone(parts), i, i+1), " "))
		}
		if i > 0 {
			turned := slices.Clone(parts)
			turned[i-1], turned[i] = turned[i], turned[i-1]
			add(strings.Join(turned, " "))
		}
	}
	return all
}

// sentences splits a text after full stops, question and exclamation marks.
func sentences(text string) []string {
	var all []string
	from := 0
	for i := 0; i < len(text); i++ {
		if strings.IndexByte(".!?", text[i]) >= 0 && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n') {
			all = append(all, strings.TrimSpace(text[from:i+1]))
			from = i + 1
		}
	}
	if rest := strings.TrimSpace(text[from:]); rest != "" {
		all = append(all, rest)
	}
	return all
}

// move sets a text. Its name is that of textOperator's, so that both exclude each other
// and what is learned about a text counts for either.
func (p prompted) move(c *source, d *diagnosis, text string) move {
	before := "empty"
	if p.text != "" {
		before = strconv.Quote(p.text)
	}
	return move{
		name: "text (" + p.name + ")", step: fmt.Sprintf("%s -> %q", before, text), axis: p.use.axis,
		cures: p.use.cures, share: p.use.share, trust: p.use.trust,
		why:   because(d.evidence(p.use.cures, p.use.sign), fmt.Sprintf("say %q (%s)", text, p.use.what)),
		edits: []edit{c.replace(p.lit, strconv.Quote(text))},
	}
}

// Limits of compose.
const (
	mostTexts     = 3   // constants that one composition sets
	mostSentences = 4   // of one text
	mostAttempts  = 200 // at a new composition
)

// compose makes a candidate of texts put together at random from all sentences: there are
// more of these than any run has slots, so a search over prompts does not run dry.
func (s *searcher) compose(base *source) bool {
	texts := base.prompts(s.d)
	if len(texts) == 0 {
		return false
	}
	for range mostAttempts {
		var moves []move
		order := s.random.Perm(len(texts))
		for _, i := range order[:1+s.random.IntN(min(mostTexts, len(texts)))] {
			p := texts[i]
			if text := p.composed(s.random, s.d.blocks(p.use.what)); text != p.text {
				moves = append(moves, p.move(base, s.d, text))
			}
		}
		if len(moves) == 0 {
			continue
		}
		if _, ok := s.fill([]plan{{base: base, parent: s.brief.Incumbent, moves: moves, atOnce: true}}, 1); ok {
			return true
		}
	}
	return false
}

// composed is a text of one to four different sentences in any order. Instructions that a
// harness has are kept at the start.
func (p prompted) composed(random *rand.Rand, blocks []string) string {
	var parts []string
	if p.use.what == instructions.what && p.text != "" {
		parts = append(parts, strings.TrimSpace(p.text))
	}
	for _, i := range random.Perm(len(blocks))[:1+random.IntN(min(mostSentences, len(blocks)))] {
		if !slices.Contains(parts, blocks[i]) {
			parts = append(parts, blocks[i])
		}
	}
	return strings.Join(parts, " ")
}
