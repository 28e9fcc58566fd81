package math

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/bench/math/answer"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of a row.
var (
	ErrJSON      = errors.New("broken JSON")
	ErrLong      = errors.New("longer than 1 MB")
	ErrText      = errors.New("not UTF-8")
	ErrQuestion  = errors.New("no question, problem or prompt")
	ErrAnswer    = errors.New("no answer")
	ErrDuplicate = errors.New("same id or question as an earlier row")
)

// maxRow bounds one line.
const maxRow = 1 << 20

// RowError says what is wrong with one row. The other rows are used.
type RowError struct {
	File string
	Row  int // line number in the file, from 1
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("task %s:%d: %v", e.File, e.Row, e.Err) }

// Unwrap gives errors.Is the cause.
func (e *RowError) Unwrap() error { return e.Err }

// Report counts the rows of one file.
type Report struct {
	File string
	Good int
	Bad  []*RowError
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
	r.Bad = append(r.Bad, &RowError{File: r.File, Row: row, Err: why})
}

// readFile reads all rows of a file, unpacked when its name ends in .gz.
func readFile(path, name string) ([]*problem, Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, name, err)
	}
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return nil, Report{}, engine.Fail(engine.AtTask, name, errors.Join(err, file.Close()))
		}
	}
	problems, report, err := read(from, name)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, report, engine.Fail(engine.AtTask, name, err)
	}
	return problems, report, nil
}

// read takes JSONL. Bad rows are in the report, in order; an error is one of reading.
func read(from io.Reader, name string) ([]*problem, Report, error) {
	report := Report{File: name}
	lines := bufio.NewReaderSize(from, 64<<10)
	ids, questions := map[string]bool{}, map[string]bool{}
	var good []*problem
	for number := 1; ; number++ {
		line, long, err := readLine(lines)
		if err == io.EOF {
			return good, report, nil
		}
		if err != nil {
			return nil, report, err
		}
		if !long && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p, err := parseRow(line, long)
		if err == nil && (questions[p.key] || p.given != "" && ids[p.given]) {
			err = ErrDuplicate
		}
		if err != nil {
			report.Bad = append(report.Bad, &RowError{File: name, Row: number, Err: err})
			continue
		}
		questions[p.key], ids[p.given] = true, true
		p.row = number
		if answer.Readable(p.reference) != nil {
			report.Opaque++
		}
		good = append(good, p)
		report.Good++
	}
}

// readLine returns the next line; of one above maxRow only that it was long.
func readLine(from *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > maxRow {
			line, long = nil, true
		} else if !long {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			return line, long, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && (len(line) > 0 || long):
			return line, long, nil
		default:
			return nil, false, err
		}
	}
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

func parseRow(line []byte, long bool) (*problem, error) {
	if long {
		return nil, ErrLong
	}
	if !utf8.Valid(line) {
		return nil, ErrText
	}
	var r row
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrJSON, err)
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
