package chess

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/engine"
)

// Errors of a row's form.
var (
	ErrColumns   = errors.New("wrong column count")
	ErrCSV       = errors.New("broken CSV")
	ErrRating    = errors.New("bad rating")
	ErrDuplicate = errors.New("same position as an earlier row")
)

// Report counts the rows of one file.
type Report struct {
	File string
	Good int
	Bad  []*bench.RowError
}

// String is the line for the person at the terminal, with the first bad row.
func (r Report) String() string {
	text := fmt.Sprintf("%s: %d puzzles", r.File, r.Good)
	if len(r.Bad) > 0 {
		text += fmt.Sprintf(", %d rows left out, the first: %v", len(r.Bad), r.Bad[0])
	}
	return text
}

// columns of the Lichess database; a file without a header has them in this order, the
// last two may be missing.
var columns = []string{"PuzzleId", "FEN", "Moves", "Rating", "RatingDeviation", "Popularity",
	"NbPlays", "Themes", "GameUrl", "OpeningTags"}

// record is one row before it is replayed.
type record struct {
	row                        int
	fen, moves, rating, themes string
	err                        error // already known to be bad
}

// readFile reads and replays all rows of a file.
func readFile(path, name string) ([]*puzzle, Report, error) {
	file, err := jsonl.Open(path)
	if err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, name, err)
	}
	puzzles, report, err := read(file, name)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, report, engine.Fail(engine.AtTask, name, err)
	}
	return puzzles, report, nil
}

// read replays all rows of a CSV. Bad rows are in the report, in order; an error is one
// of reading the file.
func read(from io.Reader, name string) ([]*puzzle, Report, error) {
	records, err := readRecords(from)
	if err != nil {
		return nil, Report{}, err
	}
	puzzles, errs := replay(records)
	report := Report{File: name}
	seen := map[engine.TaskID]bool{}
	var good []*puzzle
	for i, p := range puzzles {
		if errs[i] == nil && seen[p.id] {
			errs[i] = ErrDuplicate
		}
		if errs[i] != nil {
			report.Bad = append(report.Bad, &bench.RowError{File: name, Row: records[i].row, Err: errs[i]})
			continue
		}
		seen[p.id] = true
		p.row = records[i].row
		good = append(good, p)
	}
	report.Good = len(good)
	return good, report, nil
}

// readRecords splits the file into rows and finds the columns.
func readRecords(from io.Reader) ([]record, error) {
	reader := csv.NewReader(from)
	reader.FieldsPerRecord = -1
	reader.ReuseRecord = true
	var records []record
	at := map[string]int{} // column -> position, from the header
	for i, column := range columns {
		at[column] = i
	}
	most, least := len(columns), len(columns)-2
	for first := true; ; first = false {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			records = append(records, record{row: parse.StartLine, err: fmt.Errorf("%w: %v", ErrCSV, parse.Err)})
			continue
		}
		if err != nil {
			return nil, err
		}
		row, _ := reader.FieldPos(0)
		if first && isHeader(fields) {
			at, most, least = header(fields), len(fields), len(fields)
			for _, column := range []string{"FEN", "Moves"} {
				if _, ok := at[column]; !ok {
					return nil, fmt.Errorf("the header has no column %s", column)
				}
			}
			continue
		}
		if len(fields) < least || len(fields) > most {
			records = append(records, record{row: row, err: fmt.Errorf("%w: %d, want %d", ErrColumns, len(fields), most)})
			continue
		}
		cell := func(column string) string {
			if i, ok := at[column]; ok && i < len(fields) {
				return strings.Clone(fields[i])
			}
			return ""
		}
		records = append(records, record{row: row, fen: cell("FEN"), moves: cell("Moves"), rating: cell("Rating"), themes: cell("Themes")})
	}
}

// isHeader tells a header from a row: it names the position instead of giving it.
func isHeader(fields []string) bool {
	for _, field := range fields {
		if field == "FEN" {
			return true
		}
	}
	return false
}

func header(fields []string) map[string]int {
	at := map[string]int{}
	for i, field := range fields {
		at[strings.Clone(field)] = i
	}
	return at
}

// replay makes puzzles of records on all cores; the result at i belongs to record i.
func replay(records []record) ([]*puzzle, []error) {
	puzzles := make([]*puzzle, len(records))
	errs := make([]error, len(records))
	workers := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < len(records); i += workers {
				puzzles[i], errs[i] = records[i].puzzle()
			}
		})
	}
	wait.Wait()
	return puzzles, errs
}

// puzzle replays a record.
func (r record) puzzle() (*puzzle, error) {
	if r.err != nil {
		return nil, r.err
	}
	rating := 0
	if r.rating != "" {
		n, err := strconv.Atoi(r.rating)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%w: %s", ErrRating, clip(r.rating))
		}
		rating = n
	}
	return newPuzzle(r.fen, r.moves, rating, strings.Fields(r.themes))
}
