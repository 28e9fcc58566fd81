package math

import (
	"strings"
	"unicode"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
)

// problem is one row.
type problem struct {
	id        engine.TaskID // of the question alone
	question  string
	reference string // never leaves the world
	given     string // the row's own id, "" when it has none
	key       string // the question by letters and digits, to find it in other files
	set       string // name of the data set
	labels    []string
	row       int
}

func newProblem(question, reference string) *problem {
	return &problem{
		// The reference is no part of the id: from a question and an id one could try out
		// the thousand answers that an AIME problem can have.
		id:        bench.TaskID(Name, question),
		question:  question,
		reference: reference,
		key:       fold(question),
	}
}

// fold keeps what makes a question the same question: letters, digits and signs, no
// spaces, no capitals.
func fold(question string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune(`.,;:!?$"'`, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, question)
}

func (p *problem) task() engine.Task {
	return engine.Task{ID: p.id, Domain: Name, Input: p.question, Tags: append([]string{"set " + p.set}, p.labels...)}
}
