// Package parquet reads the question rows of parquet files in Search-R1 form for
// bench/searchqa. It stands by itself because its library takes long to compile.
//
// Only the columns of a searchqa.Row are read: `id`, `data_source`, `question`,
// `golden_answers` and `reward_model.ground_truth.target`, whatever layout their lists
// have. What it does not cover: encrypted files.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
)

const (
	maxColumn = 1 << 30 // bytes of one column in one row group, unpacked
	maxCell   = 1 << 20 // bytes of one text
)

// Errors of a file.
var (
	ErrFile    = errors.New("not a readable parquet file")
	ErrColumns = errors.New("no column question, or neither golden_answers nor reward_model.ground_truth.target")
	ErrSize    = errors.New("a column unpacks to too many bytes")
)

// ErrCell: a text of a row that is too long.
var ErrCell = fmt.Errorf("a text of more than %d bytes", maxCell)

// fields of a row and the path of their columns; lists have more elements below.
var fields = []string{"id", "data_source", "question", "golden_answers", "reward_model.ground_truth.target"}

const (
	fieldID = iota
	fieldSource
	fieldQuestion
	fieldGolden
	fieldTarget
)

// Rows reads all rows of a file; it is a searchqa.RowFile.
func Rows(path string, use func(row int, r searchqa.Row, err error)) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return read(file, info.Size(), use)
}

// read reads a file; a panic of the library on damaged bytes is an error of the file.
func read(file io.ReaderAt, size int64, use func(row int, r searchqa.Row, err error)) (err error) {
	opened, columns, err := open(file, size)
	if err != nil {
		return err
	}
	row := 0
	for _, group := range opened.RowGroups() {
		table, err := readGroup(group, columns)
		if err != nil {
			return err
		}
		for i := range int(group.NumRows()) {
			row++
			r, err := table.row(i)
			use(row, r, err)
		}
	}
	return nil
}

// open opens a file and finds the column of each field, -1 for none.
func open(file io.ReaderAt, size int64) (opened *parquet.File, columns []int, err error) {
	defer caught(&err)
	opened, err = parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrFile, err)
	}
	columns = slices.Repeat([]int{-1}, len(fields))
	for i, path := range opened.Schema().Columns() {
		name := strings.Join(path, ".")
		for field, want := range fields {
			if name == want || field >= fieldGolden && strings.HasPrefix(name, want+".") {
				columns[field] = i
			}
		}
	}
	if columns[fieldQuestion] < 0 || columns[fieldGolden] < 0 && columns[fieldTarget] < 0 {
		return nil, nil, ErrColumns
	}
	for _, group := range opened.Metadata().RowGroups {
		for _, i := range columns {
			if i >= 0 && i < len(group.Columns) && group.Columns[i].MetaData.TotalUncompressedSize > maxColumn {
				return nil, nil, ErrSize
			}
		}
	}
	return opened, columns, nil
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v", ErrFile, p)
	}
}

// table holds the texts of a row group: [field][row][text].
type table [][][]string

func readGroup(group parquet.RowGroup, columns []int) (t table, err error) {
	defer caught(&err)
	chunks := group.ColumnChunks()
	t = make(table, len(fields))
	for field, i := range columns {
		if i < 0 {
			continue
		}
		if i >= len(chunks) {
			return nil, fmt.Errorf("%w: row group without column %s", ErrFile, fields[field])
		}
		if t[field], err = readColumn(chunks[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", fields[field], err)
		}
		if int64(len(t[field])) != group.NumRows() {
			return nil, fmt.Errorf("%w: column %s has %d of %d rows", ErrFile, fields[field], len(t[field]), group.NumRows())
		}
	}
	return t, nil
}

// readColumn reads the texts of each row; nulls are left out.
func readColumn(chunk parquet.ColumnChunk) (rows [][]string, err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	left := maxColumn
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrFile, err)
		}
		values := page.Values()
		rows, left, err = readPage(values, rows, left)
		parquet.Release(page)
		if err != nil {
			return nil, err
		}
	}
}

// readPage adds the values of a page; a row may go on from the page before.
func readPage(values parquet.ValueReader, rows [][]string, left int) ([][]string, int, error) {
	var buffer [256]parquet.Value
	for {
		n, err := values.ReadValues(buffer[:])
		for _, v := range buffer[:n] {
			if v.RepetitionLevel() == 0 || len(rows) == 0 {
				rows = append(rows, nil)
			}
			if v.IsNull() {
				continue
			}
			text := cell(v)
			if left -= len(text); left < 0 {
				return nil, left, ErrSize
			}
			last := len(rows) - 1
			rows[last] = append(rows[last], text)
		}
		switch {
		case errors.Is(err, io.EOF):
			return rows, left, nil
		case err != nil:
			return nil, left, fmt.Errorf("%w: %v", ErrFile, err)
		case n == 0:
			return nil, left, fmt.Errorf("%w: a page ends early", ErrFile)
		}
	}
}

// cell is a value as text; numbers may stand for ids.
func cell(v parquet.Value) string {
	if v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray {
		return string(v.ByteArray())
	}
	return v.String()
}

// row makes a row of the texts at i.
func (t table) row(i int) (searchqa.Row, error) {
	for _, column := range t {
		if column == nil {
			continue
		}
		for _, text := range column[i] {
			switch {
			case len(text) > maxCell:
				return searchqa.Row{}, ErrCell
			case !utf8.ValidString(text):
				return searchqa.Row{}, jsonl.ErrText
			}
		}
	}
	one := func(field int) string {
		if t[field] == nil || len(t[field][i]) == 0 {
			return ""
		}
		return t[field][i][0]
	}
	r := searchqa.Row{ID: one(fieldID), DataSource: one(fieldSource), Question: one(fieldQuestion)}
	if t[fieldGolden] != nil {
		r.GoldenAnswers = t[fieldGolden][i]
	}
	if t[fieldTarget] != nil {
		r.RewardModel.GroundTruth.Target = t[fieldTarget][i]
	}
	return r, nil
}
