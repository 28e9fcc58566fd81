package own

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of a row, beside those of lines (package jsonl).
var (
	ErrInput     = errors.New("no input")
	ErrAnswer    = errors.New("no answer")
	ErrSplit     = errors.New("split is not train, select or test")
	ErrDuplicate = errors.New("same input as an earlier row")
	// ErrSealed: the same input stands in a split that this row may not be in, too: of
	// test, select and train the first one keeps it.
	ErrSealed = errors.New("same input as a row of test or select")
)

// maxRow bounds one line.
const maxRow = 1 << 20

// Report says what became of the rows of a file.
type Report struct {
	File                string
	Train, Select, Test int
	Bad                 []*bench.RowError
}

// String is the line for the person at the terminal, with the first bad row.
func (r Report) String() string {
	text := fmt.Sprintf("%s: %d train, %d select, %d test tasks", r.File, r.Train, r.Select, r.Test)
	if len(r.Bad) > 0 {
		text += fmt.Sprintf(", %d rows left out, the first: %v", len(r.Bad), r.Bad[0])
	}
	return text
}

// row is one task with its reference.
type row struct {
	Input  string          `json:"input"`
	Answer json.RawMessage `json:"answer"`
	Tags   []string        `json:"tags"`
	Split  engine.Split    `json:"split"`

	id     engine.TaskID
	number int
	texts  []string // of the reference, as far as it is text
}

// split is the one that the row names, or by hash: a fifth select, a fifth test. The
// digits are others than those that the order of the ids begins with.
func (r *row) split() engine.Split {
	if r.Split != "" {
		return r.Split
	}
	switch tail := r.id[len(r.id)-2:]; {
	case tail < "33": // 51 of 256
		return engine.Test
	case tail < "66":
		return engine.Select
	}
	return engine.Train
}

func readFile(path string, verifier Verifier) ([]*row, Report, error) {
	r := newReader(filepath.Base(path), verifier)
	err := jsonl.File(path, maxRow, r.line)
	rows, report := r.rows()
	return rows, report, err
}

// readRows takes JSONL. Bad rows are in the report, in order; an error is one of reading.
func readRows(from io.Reader, name string, verifier Verifier) ([]*row, Report, error) {
	r := newReader(name, verifier)
	err := jsonl.Lines(from, maxRow, r.line)
	rows, report := r.rows()
	return rows, report, err
}

// reader gathers the rows of one file.
type reader struct {
	report   Report
	verifier Verifier
	owner    map[engine.TaskID]*row
}

func newReader(name string, verifier Verifier) *reader {
	return &reader{report: Report{File: name}, verifier: verifier, owner: map[engine.TaskID]*row{}}
}

func (r *reader) bad(number int, err error) {
	r.report.Bad = append(r.report.Bad, &bench.RowError{File: r.report.File, Row: number, Err: err})
}

// line takes a line; nil is a long one.
func (r *reader) line(number int, line []byte) {
	one, err := parseRow(line, r.verifier)
	if err != nil {
		r.bad(number, err)
		return
	}
	one.number = number
	other := r.owner[one.id]
	switch {
	case other == nil:
		r.owner[one.id] = one
	case other.split() == one.split():
		r.bad(number, ErrDuplicate)
	case sealed(one.split()) > sealed(other.split()):
		r.owner[one.id] = one
		r.bad(other.number, ErrSealed)
	default:
		r.bad(number, ErrSealed)
	}
}

// rows are those that stay, in no order: the caller sorts them by id.
func (r *reader) rows() ([]*row, Report) {
	var rows []*row
	for _, one := range r.owner {
		rows = append(rows, one)
		switch one.split() {
		case engine.Train:
			r.report.Train++
		case engine.Select:
			r.report.Select++
		case engine.Test:
			r.report.Test++
		}
	}
	return rows, r.report
}

// sealed orders the splits by how little a run may learn from them.
func sealed(s engine.Split) int {
	return map[engine.Split]int{engine.Train: 0, engine.Select: 1, engine.Test: 2}[s]
}

func parseRow(line []byte, verifier Verifier) (*row, error) {
	r := &row{}
	if err := jsonl.Row(line, r); err != nil {
		return nil, err
	}
	r.Input = strings.TrimSpace(r.Input)
	switch r.Split {
	case "", engine.Train, engine.Select, engine.Test:
	default:
		return nil, ErrSplit
	}
	if r.Input == "" {
		return nil, ErrInput
	}
	if len(r.Answer) == 0 || string(r.Answer) == "null" {
		return nil, ErrAnswer
	}
	texts, err := references(r.Answer)
	if _, exact := verifier.(Exact); err != nil && (exact || !errors.Is(err, ErrReference)) {
		return nil, err
	}
	r.texts = texts
	r.id = bench.TaskID(Name, fold(r.Input))
	return r, nil
}
