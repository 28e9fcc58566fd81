// Package answer judges mathematical answers: it reads the boxed answer of a message,
// parses LaTeX or plain text into a tree and compares it with a reference.
//
// Rationals are compared exactly, everything else (roots, pi, logarithms, formulas with
// letters) by its value with 256 bits at fixed points. Every step is counted and every
// size bounded, so no input costs more than some milliseconds; the functions are pure
// and may be called from many goroutines.
//
// What it may not know: tasks, models, runs.
// What it does not cover: calculus (integrals, limits, sums as such), congruences,
// set-builder notation, matrices with dots. These are equal only when they are written the
// same way. Two different constants that agree to 100 bits would pass as equal.
package answer

import (
	"errors"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Limits of one answer. Above them it is unparsed.
const (
	maxBytes  = 4096    // of one boxed answer
	maxTokens = 1500    // of one answer
	maxDepth  = 240     // of the grammar's rules, about four a bracket
	maxItems  = 100     // of a list, a set, a matrix
	maxBits   = 1 << 14 // of an exact number
	maxWork   = 20000   // arithmetic operations of one comparison, functions count more
	maxBoxes  = 32      // in one message; more of them is no answer
)

// Why an answer could not be read.
var (
	ErrNoBox  = errors.New("no complete \\boxed{}")
	ErrEmpty  = errors.New("empty answer")
	ErrSyntax = errors.New("not understood")
	ErrLarge  = errors.New("too large")
	ErrDomain = errors.New("no value") // division by zero and its like
)

// Judge compares the boxed answer of a message with a reference, and returns it for
// votes and reports. Several boxes have to be equal to the reference one by one. A
// box that never closes makes the message unparsed: the reply was cut.
func Judge(message, reference string) (engine.VerdictKind, string) {
	boxes, err := Boxed(message)
	if err != nil {
		return engine.Unparsed, ""
	}
	last := Form(boxes[len(boxes)-1])
	if len(boxes) > maxBoxes {
		return engine.Different, last
	}
	verdict := engine.Equal
	judged := map[string]bool{}
	for _, box := range boxes {
		if judged[box] {
			continue
		}
		judged[box] = true
		switch Compare(box, reference) {
		case engine.Different:
			return engine.Different, last
		case engine.Unparsed:
			verdict = engine.Unparsed
		}
	}
	return verdict, last
}

// Compare says whether an answer means the same as a reference. It is unparsed when the
// answer can't be read, or when the reference can't be and is not written the same way.
func Compare(text, reference string) engine.VerdictKind {
	if len(text) > maxBytes || len(reference) > maxBytes {
		return sameText(text, reference)
	}
	if plain := squash(text); plain != "" && plain == squash(reference) {
		return engine.Equal
	}
	same, grouped, err := attempt(text, reference, true)
	if err == nil && same {
		return engine.Equal
	}
	// `100,200` is a number or a list; the two have to agree on one reading.
	if grouped {
		if again, _, second := attempt(text, reference, false); second == nil {
			same, err = again, nil
		}
	}
	switch {
	case err != nil:
		return engine.Unparsed
	case same:
		return engine.Equal
	}
	return engine.Different
}

// Form is one spelling for answers that are the same number, so that votes over many
// replies count them together. Others are only freed of spaces.
func Form(text string) string {
	n, _, err := parse(text, true)
	if err == nil && n.op != opText && n.constant() && n.expression() && measure(n).dimension == "" {
		c := &comparison{}
		if v, err := c.at(n, 0); err == nil && v.rat != nil && v.rat.Num().BitLen()+v.rat.Denom().BitLen() < 1024 {
			return v.rat.RatString()
		}
	}
	if len(text) > maxBytes {
		return text
	}
	return squash(text)
}

// sameText is the verdict on an answer too long to be parsed.
func sameText(text, reference string) engine.VerdictKind {
	if text = strings.TrimSpace(text); text != "" && text == strings.TrimSpace(reference) {
		return engine.Equal
	}
	return engine.Unparsed
}

// attempt compares under one reading of commas; grouped tells that a comma or space was
// taken as a separator of thousands.
func attempt(text, reference string, thousands bool) (same, grouped bool, err error) {
	got, first, err := parse(text, thousands)
	if err != nil {
		return false, first, err
	}
	want, second, err := parse(reference, thousands)
	if err != nil {
		return false, first || second, err
	}
	if got.op == opText || want.op == opText { // words are the same when they read the same
		same = canonical(text) == canonical(reference)
		if !same && got.op != want.op && strings.ContainsAny(got.name+want.name, "0123456789") {
			err = ErrSyntax // `5 hours 30 minutes`: words that may well hold the number
		}
		return same, first || second, err
	}
	c := &comparison{}
	same, err = c.equal(got, want)
	return same, first || second, err
}

// Readable tells whether a reference can be parsed, so that a reader of task files can
// count those that only their own spelling will match.
func Readable(reference string) error {
	_, _, err := parse(reference, true)
	return err
}

// squash drops what never changes the meaning: spaces, sizes of brackets, dollar signs
// around, kinds of fractions.
func squash(text string) string {
	text = strings.TrimSpace(text)
	text = strings.TrimSuffix(text, ".")
	return squashing.Replace(text)
}

var squashing = strings.NewReplacer(`\left`, "", `\right`, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`,
	`\!`, "", `\,`, "", `\;`, "", `\:`, "", `\ `, "", "$", "", " ", "", "\n", "", "\t", "", "~", "")
