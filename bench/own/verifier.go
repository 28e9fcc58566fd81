package own

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Verifier judges answers. It is used from many goroutines at once and gives the same
// verdict for the same case. An error is a fault of the host: the rollout is made again
// and left out if that does not help. It must not quote the reference.
type Verifier interface {
	Verify(c Case) (engine.Verdict, error)
}

// Case is what a verifier sees, and as JSON what a command gets.
type Case struct {
	Input     string          `json:"input"`
	Reference json.RawMessage `json:"reference"` // the row's answer as it stands there
	Text      string          `json:"text"`      // the reply that counts, as the model wrote it
	Tags      []string        `json:"tags,omitempty"`
}

// ErrReference: a row's answer that Exact can't compare with.
var ErrReference = errors.New("the answer is no text, number or list of texts; a verifier command is needed")

// Exact compares the answer that Read finds with the reference, or with each of a list,
// without regard to case and spaces.
type Exact struct{}

// Verify compares.
func (Exact) Verify(c Case) (engine.Verdict, error) {
	accepted, err := references(c.Reference)
	if err != nil {
		return engine.Verdict{}, err
	}
	got, ok := Read(c.Text)
	if !ok {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	if slices.ContainsFunc(accepted, func(a string) bool { return fold(a) == got }) {
		return engine.Verdict{Kind: engine.Equal, Reward: 1, Answer: got}, nil
	}
	return engine.Verdict{Kind: engine.Different, Answer: got}, nil
}

// Read finds the answer in a reply, folded: what stands in the last pair of answer tags,
// the inner one of nested pairs; without any tag the last line that is not blank. A tag
// without its partner, or nothing in between, can't be read.
func Read(text string) (string, bool) {
	const opening, closing = "<answer>", "</answer>"
	end := strings.LastIndex(text, closing)
	if end < 0 {
		if strings.Contains(text, opening) {
			return "", false
		}
		text = strings.TrimRight(text, " \t\r\n")
		last := fold(text[strings.LastIndexByte(text, '\n')+1:])
		return last, last != ""
	}
	begin := strings.LastIndex(text[:end], opening)
	if begin < 0 {
		return "", false
	}
	answer := fold(text[begin+len(opening) : end])
	return answer, answer != ""
}

// fold is the form in which answers are compared.
func fold(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// references are the texts of a row's answer: a text, a number as it is spelled, or a
// list of these.
func references(raw json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []string
	for _, one := range list {
		var text string
		var number json.Number
		switch {
		case json.Unmarshal(one, &text) == nil && string(one) != "null":
		case json.Unmarshal(one, &number) == nil && string(one) != "null":
			text = number.String()
		default:
			return nil, ErrReference
		}
		if fold(text) == "" {
			return nil, fmt.Errorf("%w: it is empty", ErrAnswer)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: an empty list", ErrAnswer)
	}
	return out, nil
}
