package searchqa

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Benchmarks are the seven question sets, by the names that rows have for them.
var Benchmarks = []string{"nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"}

// Errors of a row of questions, beside those of lines (package jsonl).
var (
	ErrID        = errors.New("no id")
	ErrQuestion  = errors.New("no question, or one longer than 4,096 bytes")
	ErrGolden    = errors.New("no golden answer, or one that nothing is left of after normalising")
	ErrBenchmark = errors.New("not one of the seven benchmarks")
	ErrDuplicate = errors.New("same as an earlier row")
	// ErrTest: a training row whose question is a test question too. It is left out of
	// training.
	ErrTest = errors.New("also a test question")
)

const maxQuestion = 4096

// Report counts the rows of one file.
type Report struct {
	File     string
	Good     int
	Repaired int               // of these, passages in which bad UTF-8 became U+FFFD
	Bad      []*bench.RowError // in order; of a corpus only the first ones
	More     int               // further bad rows
	Note     string            // what else there is to say: where an index lies
}

// String is the line for the person at the terminal, with the first bad row.
func (r Report) String() string {
	text := fmt.Sprintf("%s: %d rows", r.File, r.Good)
	if r.Repaired > 0 {
		text += fmt.Sprintf(", %d of them with bad UTF-8 that was replaced", r.Repaired)
	}
	if len(r.Bad) > 0 {
		text += fmt.Sprintf(", %d left out, the first: %v", len(r.Bad)+r.More, r.Bad[0])
	}
	if r.Note != "" {
		text += "; " + r.Note
	}
	return text
}

// Row is one question in Search-R1 form, whatever file it comes from.
type Row struct {
	ID            string   `json:"id"`
	DataSource    string   `json:"data_source"`
	Question      string   `json:"question"`
	GoldenAnswers []string `json:"golden_answers"`
	// RewardModel holds the answers in files made for training.
	RewardModel struct {
		GroundTruth struct {
			Target Texts `json:"target"`
		} `json:"ground_truth"`
	} `json:"reward_model"`
}

// Texts is a list of texts that may stand as a single text in JSON.
type Texts []string

// UnmarshalJSON reads a list, a text or null.
func (t *Texts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var one string
		err := json.Unmarshal(data, &one)
		*t = Texts{one}
		return err
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// question is one checked row.
type question struct {
	id        engine.TaskID
	from      *Report
	row       int
	key       string // benchmark and the row's own id
	letters   string // of the question: what makes two questions the same
	text      string
	benchmark string
	golden    []string            // as written
	accepted  map[string]struct{} // their normalised forms
}

// newQuestion checks a row. The benchmark of a row that names none is the one that its
// file is named after; the stem is the name without what says how the file is written.
func newQuestion(r Row, row int, stem string) (*question, error) {
	q := &question{row: row, text: strings.TrimSpace(r.Question), benchmark: r.DataSource, accepted: map[string]struct{}{}}
	if q.benchmark == "" {
		q.benchmark = stem[:max(0, strings.LastIndexByte(stem, '_'))]
	}
	golden := r.GoldenAnswers
	if len(golden) == 0 {
		golden = r.RewardModel.GroundTruth.Target
	}
	for _, answer := range golden {
		q.accepted[Normalise(answer)] = struct{}{}
	}
	q.letters = letters(q.text)
	_, empty := q.accepted[""]
	switch {
	case r.ID == "":
		return nil, ErrID
	case !known(q.benchmark):
		return nil, fmt.Errorf("%w: %q", ErrBenchmark, clip(q.benchmark, 40))
	case q.letters == "", len(q.text) > maxQuestion:
		return nil, ErrQuestion
	case len(golden) == 0, empty:
		return nil, ErrGolden
	}
	q.golden = golden
	q.key = q.benchmark + "/" + r.ID
	// Not the golden answers: proposers see ids and could try answers out on the hash.
	q.id = bench.TaskID(Name, q.benchmark, q.text)
	return q, nil
}

func known(benchmark string) bool {
	return slices.Contains(Benchmarks, benchmark)
}

// letters are the letters and digits of a text in lower case.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func (q *question) task() engine.Task {
	return engine.Task{ID: q.id, Domain: Name, Input: q.text, Tags: []string{q.benchmark}}
}

// reader collects the questions of the files of one split.
type reader struct {
	questions []*question
	keys      map[string]bool // of rows read
	letters   map[string]bool // of questions read
}

func newReader() *reader { return &reader{keys: map[string]bool{}, letters: map[string]bool{}} }

// take checks one row, keeps it or writes it into the report. An id may come once in a
// benchmark, a question once in a split.
func (rd *reader) take(r Row, err error, row int, stem string, report *Report) {
	var q *question
	if err == nil {
		q, err = newQuestion(r, row, stem)
	}
	if err == nil && (rd.keys[q.key] || rd.letters[q.letters]) {
		err = ErrDuplicate
	}
	if err != nil {
		report.Bad = append(report.Bad, &bench.RowError{File: report.File, Row: row, Err: err})
		return
	}
	q.from = report
	rd.keys[q.key], rd.letters[q.letters] = true, true
	rd.questions = append(rd.questions, q)
	report.Good++
}

// apart drops training questions that are test questions and reports them.
func (rd *reader) apart(test *reader) {
	var kept []*question
	for _, q := range rd.questions {
		if !test.letters[q.letters] {
			kept = append(kept, q)
			continue
		}
		q.from.Good--
		q.from.Bad = append(q.from.Bad, &bench.RowError{File: q.from.File, Row: q.row, Err: ErrTest})
		slices.SortStableFunc(q.from.Bad, func(a, b *bench.RowError) int { return a.Row - b.Row })
	}
	rd.questions = kept
}
