package math

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/math/answer"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of a row, beside those of lines (package jsonl).
var (
	ErrQuestion  = errors.New("no question, problem or prompt")
	ErrAnswer    = errors.New("no answer")
	ErrDuplicate = errors.New("same id or question as an earlier row")
)

// maxRow bounds one line.
const maxRow = 1 << 20

// Report counts the rows of one file.
type Report struct {
	File string
	Good int
	Bad  []*bench.RowError
	// Opaque counts good rows whose reference the verifier can't parse: only the same
	// spelling is equal to them.
	Opaque int
}

// String is the line for the person at the terminal, with the first bad row.
func (r Report) String() string {
	text := fmt.Sprintf("%s: %d problems", r.File, r.Good)
	if r.Opaque > 0 {
		text += fmt.Sprintf(", %d with answers that only their own spelling matches", r.Opaque)
	}
	if len(r.Bad) > 0 {
		text += fmt.Sprintf(", %d rows left out, the first: %v", len(r.Bad), r.Bad[0])
	}
	return text
}

// drop takes back a row that was good by itself.
func (r *Report) drop(row int, why error) {
	r.Good--
	r.Bad = append(r.Bad, &bench.RowError{File: r.File, Row: row, Err: why})
}

// readFile reads all rows of a file, unpacked by the ending of its name.
func readFile(path, name string) ([]*problem, Report, error) {
	r := newReader(name)
	err := jsonl.File(path, maxRow, r.line)
	return r.good, r.report, engine.Fail(engine.AtTask, name, err)
}

// read takes JSONL. Bad rows are in the report, in order; an error is one of reading.
func read(from io.Reader, name string) ([]*problem, Report, error) {
	r := newReader(name)
	err := jsonl.Lines(from, maxRow, r.line)
	return r.good, r.report, err
}

// reader gathers the rows of one file.
type reader struct {
	report         Report
	ids, questions map[string]bool
	good           []*problem
}

func newReader(name string) *reader {
	return &reader{report: Report{File: name}, ids: map[string]bool{}, questions: map[string]bool{}}
}

// line takes a line; nil is a long one.
func (r *reader) line(number int, line []byte) {
	p, err := parseRow(line)
	if err == nil && (r.questions[p.key] || p.given != "" && r.ids[p.given]) {
		err = ErrDuplicate
	}
	if err != nil {
		r.report.Bad = append(r.report.Bad, &bench.RowError{File: r.report.File, Row: number, Err: err})
		return
	}
	r.questions[p.key], r.ids[p.given] = true, true
	p.row = number
	if answer.Readable(p.reference) != nil {
		r.report.Opaque++
	}
	r.good = append(r.good, p)
	r.report.Good++
}

// row is the union of the forms: GSM8K, MATH, DAPO and AIME.
type row struct {
	ID       json.RawMessage `json:"id"`
	UniqueID json.RawMessage `json:"unique_id"`
	Question string          `json:"question"`
	Problem  string          `json:"problem"`
	Prompt   json.RawMessage `json:"prompt"` // text, or a list of messages
	Answer   json.RawMessage `json:"answer"` // text or a number
	Solution string          `json:"solution"`
	Reward   struct {
		Truth json.RawMessage `json:"ground_truth"`
	} `json:"reward_model"`
	Level   json.RawMessage `json:"level"`
	Type    string          `json:"type"`
	Subject string          `json:"subject"`
}

func parseRow(line []byte) (*problem, error) {
	var r row
	if err := jsonl.Row(line, &r); err != nil {
		return nil, err
	}
	question := bareQuestion(strings.TrimSpace(firstOf(r.Question, r.Problem, promptText(r.Prompt))))
	if question == "" {
		return nil, ErrQuestion
	}
	reference := r.reference()
	if reference == "" {
		return nil, ErrAnswer
	}
	p := newProblem(question, reference)
	p.given = firstOf(scalar(r.ID), scalar(r.UniqueID))
	for _, label := range []string{r.Type, r.Subject, scalar(r.Level)} {
		if label != "" {
			p.labels = append(p.labels, label)
		}
	}
	return p, nil
}

// reference is the answer of a row: what follows the last `####` of a GSM8K answer, the
// answer as it is, or the last box of a solution.
func (r *row) reference() string {
	text := firstOf(scalar(r.Answer), scalar(r.Reward.Truth))
	if at := strings.LastIndex(text, "####"); at >= 0 {
		return strings.TrimSpace(text[at+len("####"):])
	}
	if text == "" && r.Solution != "" {
		if boxes, err := answer.Boxed(r.Solution); err == nil {
			return boxes[len(boxes)-1]
		}
	}
	if boxes, err := answer.Boxed(text); err == nil && len(boxes) == 1 {
		return boxes[0]
	}
	return text
}

// DAPO wraps each problem in paragraphs that ask for another form of answer than the box.
const (
	dapoBegin = "Solve the following math problem step by step."
	dapoEnd   = "Remember to put your answer on its own line"
)

// bareQuestion drops the paragraphs that DAPO puts around a problem.
func bareQuestion(text string) string {
	if strings.HasPrefix(text, dapoBegin) {
		if _, rest, ok := strings.Cut(text, "\n\n"); ok {
			text = rest
		}
	}
	if at := strings.LastIndex(text, "\n\n"+dapoEnd); at > 0 {
		text = text[:at]
	}
	return strings.TrimSpace(text)
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// scalar is a JSON string or number as trimmed text, "" for anything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strings.TrimSpace(text)
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// promptText is a prompt: text, or the last user message of a list.
func promptText(raw json.RawMessage) string {
	var messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &messages) != nil {
		return scalar(raw)
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			return messages[i].Content
		}
	}
	return ""
}
