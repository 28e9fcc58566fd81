package engine

import (
	"fmt"
	"go/scanner"
	"go/token"
	"strconv"
	"strings"
	"unicode"
)

// Keeper is what a World may be besides: it tells the reference answers of a task, so
// that the engine can refuse candidates that hold one. They go nowhere else.
type Keeper interface {
	References(task Task) []string
}

// mentionRule is the LoadError.Rule of a candidate that holds something of the tasks.
const mentionRule = "mention"

// longestMention is how many words of a phrase are compared; a longer one counts as
// mentioned when its beginning is.
const longestMention = 12

// shortestAnswer is how many letters an answer has at least that a candidate must not
// hold. Shorter ones (yes, no, 12) are in many sources by chance.
const shortestAnswer = 4

// taboo is what no candidate may hold: ids, questions and reference answers of the tasks
// of all splits, and names of data sets. Phrases are in lower case, their words separated
// by single spaces.
type taboo struct {
	names  map[string]bool // of data sets, anywhere in a source
	ids    map[string]bool // anywhere in a source
	texts  map[string]bool // questions, and answers of several words: in texts and comments
	proper map[string]bool // answers of one word, in their own case: in texts and comments
	whole  map[string]bool // answers that count only when a text is nothing else
}

// fewAnswers is how many different answers a domain has at most that are labels rather
// than facts: harnesses have to name them.
const fewAnswers = 20

// newTaboo collects it. What the seed harness, its advice or the tools say themselves is
// no secret; names of data sets stay taboo where only the advice has them.
func newTaboo(d *Domain) *taboo {
	t := &taboo{names: map[string]bool{}, ids: map[string]bool{}, texts: map[string]bool{}, proper: map[string]bool{}, whole: map[string]bool{}}
	for _, name := range d.Names {
		t.names[phrase(words(name))] = true
	}
	keeper, _ := d.World.(Keeper)
	answers := map[string]bool{}
	for _, split := range []Split{Train, Select, Test} {
		for _, task := range d.Tasks(split) {
			t.ids[phrase(words(string(task.ID)))] = true
			if w := words(task.Input); len(w) >= 4 {
				t.texts[phrase(w)] = true
			}
			if keeper == nil {
				continue
			}
			for _, answer := range keeper.References(task) {
				answers[answer] = true
			}
		}
	}
	if len(answers) > fewAnswers {
		for answer := range answers {
			t.addAnswer(answer)
		}
	}
	known := d.Seed + "\n" + d.Skill
	for _, tool := range d.Tools {
		known += "\n" + tool.Description + "\n" + tool.Schema
	}
	each(words(known), func(exact, folded string) bool {
		delete(t.texts, folded)
		delete(t.whole, folded)
		delete(t.proper, exact)
		return false
	})
	each(words(d.Seed), func(_, folded string) bool {
		delete(t.names, folded)
		return false
	})
	return t
}

func (t *taboo) addAnswer(answer string) {
	w := words(answer)
	letters := 0
	for _, r := range answer {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	if letters < shortestAnswer {
		return
	}
	t.whole[phrase(w)] = true
	switch {
	case len(w) > 1:
		t.texts[phrase(w)] = true
	case unicode.IsUpper([]rune(w[0])[0]):
		t.proper[w[0]] = true
	}
}

// refuse says what a candidate mentions; nil when it is nothing. Which of the tasks'
// texts it is stays untold, so that a refusal teaches nothing about the tasks.
func (t *taboo) refuse(source string) *LoadError {
	found := func(line int, what string) *LoadError {
		return &LoadError{Line: line, Rule: mentionRule, Reason: what,
			Hint: "write what helps with any task; invent the names of examples"}
	}
	for i, line := range strings.Split(source, "\n") {
		var refused *LoadError
		each(words(line), func(_, folded string) bool {
			switch {
			case t.names[folded]:
				refused = found(i+1, fmt.Sprintf("names the data set %q", folded))
			case t.ids[folded]:
				refused = found(i+1, "holds the id of a task")
			}
			return refused != nil
		})
		if refused != nil {
			return refused
		}
	}
	for _, text := range textsOf(source) {
		w := words(text.text)
		if t.whole[phrase(w)] || each(w, func(exact, folded string) bool { return t.texts[folded] || t.proper[exact] }) {
			return found(text.at.Line, "holds a question or an answer of the tasks")
		}
	}
	return nil
}

// textsOf lists the values of string literals, joined where + joins them, and comments.
func textsOf(source string) []lexeme {
	files := token.NewFileSet()
	file := files.AddFile("harness.go", -1, len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), func(token.Position, string) {}, scanner.ScanComments)
	var out []lexeme
	joins := false
	before := token.ILLEGAL
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return out
		case token.STRING:
			value, err := strconv.Unquote(lit)
			if err != nil {
				value = lit
			}
			if joins && before == token.ADD {
				out[len(out)-1].text += value
			} else {
				out = append(out, lexeme{value, files.Position(pos)})
			}
			joins = true
		case token.COMMENT:
			out = append(out, lexeme{lit, files.Position(pos)})
			joins = false
		case token.ADD, token.LPAREN, token.RPAREN:
		default:
			joins = false
		}
		before = tok
	}
}

// words splits a text at everything but letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func phrase(w []string) string {
	return strings.ToLower(strings.Join(w[:min(len(w), longestMention)], " "))
}

// each calls f with every run of words until it says true, and tells whether it did.
func each(w []string, f func(exact, folded string) bool) bool {
	for i := range w {
		exact := ""
		for n := i; n < min(len(w), i+longestMention); n++ {
			if exact != "" {
				exact += " "
			}
			exact += w[n]
			if f(exact, strings.ToLower(exact)) {
				return true
			}
		}
	}
	return false
}
