package parquet

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	library "github.com/parquet-go/parquet-go"
	"github.com/seed-7c27e6b8/whale/bench/jsonl"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
)

// record is a row as Search-R1 writes it; its lists have the three levels of the format.
type record struct {
	ID      string   `parquet:"id"`
	Text    string   `parquet:"question"`
	Golden  []string `parquet:"golden_answers,list"`
	Source  string   `parquet:"data_source"`
	Prompt  []turn   `parquet:"prompt,list"`
	Rewards reward   `parquet:"reward_model"`
}

type turn struct {
	Content string `parquet:"content"`
	Role    string `parquet:"role"`
}

type reward struct {
	Truth struct {
		Target []string `parquet:"target,list"`
	} `parquet:"ground_truth"`
	Style string `parquet:"style"`
}

// bare is a row of another writer: optional columns, a list of the old layout, ids that
// are numbers.
type bare struct {
	ID     int64    `parquet:"id"`
	Text   *string  `parquet:"question,optional,zstd"`
	Golden []string `parquet:"golden_answers"`
	Source *string  `parquet:"data_source,optional"`
}

type other struct {
	Question string `parquet:"question"`
	Answer   string `parquet:"answer"`
}

func file[T any](t testing.TB, rows []T, options ...library.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := library.NewGenericWriter[T](&b, options...)
	for i, r := range rows {
		if _, err := w.Write([]T{r}); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // rows come in more than one group
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type line struct {
	row int
	r   searchqa.Row
	err error
}

func readAll(data []byte) (lines []line, err error) {
	err = read(bytes.NewReader(data), int64(len(data)), func(row int, r searchqa.Row, err error) {
		lines = append(lines, line{row, r, err})
	})
	return lines, err
}

func records() []record {
	rows := []record{
		{ID: "test_0", Text: "Who?", Golden: []string{"A", "B"}, Source: "nq", Prompt: []turn{{"Q: Who?", "user"}, {"x", "y"}}},
		{ID: "test_1", Text: "Where?", Source: "popqa"},
		{ID: "test_2", Text: "bad \xff", Golden: []string{"C"}, Source: "nq"},
		{ID: "test_3", Text: strings.Repeat("x", maxCell+1), Golden: []string{"C"}, Source: "nq"},
		{},
	}
	rows[1].Rewards.Truth.Target = []string{"D"}
	return rows
}

func TestRows(t *testing.T) {
	for _, options := range [][]library.WriterOption{
		nil,
		{library.Compression(&library.Snappy)},
		{library.Compression(&library.Zstd), library.DataPageVersion(1)},
		{library.Compression(&library.Gzip), library.PageBufferSize(1)},
	} {
		lines, err := readAll(file(t, records(), options...))
		if err != nil || len(lines) != 5 {
			t.Fatalf("%d rows, %v", len(lines), err)
		}
		if r := lines[0].r; lines[0].row != 1 || r.ID != "test_0" || r.DataSource != "nq" || r.Question != "Who?" || !slices.Equal(r.GoldenAnswers, []string{"A", "B"}) {
			t.Errorf("row 1 is %+v", lines[0])
		}
		if r := lines[1].r; lines[1].err != nil || len(r.GoldenAnswers) != 0 || !slices.Equal(r.RewardModel.GroundTruth.Target, []string{"D"}) {
			t.Errorf("row 2 is %+v", lines[1])
		}
		if !errors.Is(lines[2].err, jsonl.ErrText) || !errors.Is(lines[3].err, ErrCell) || lines[3].row != 4 {
			t.Errorf("rows 3 and 4: %v, %v", lines[2].err, lines[3].err)
		}
		if lines[4].err != nil || lines[4].r.Question != "" {
			t.Errorf("row 5 is %+v", lines[4])
		}
	}
}

func TestOtherLayouts(t *testing.T) {
	text := "Who?"
	lines, err := readAll(file(t, []bare{{ID: 7, Text: &text, Golden: []string{"A", "B"}}, {ID: 8, Golden: []string{"C"}}}))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d rows, %v", len(lines), err)
	}
	if r := lines[0].r; r.ID != "7" || r.Question != text || !slices.Equal(r.GoldenAnswers, []string{"A", "B"}) || r.DataSource != "" {
		t.Errorf("row 1 is %+v", r)
	}
	if r := lines[1].r; r.Question != "" || !slices.Equal(r.GoldenAnswers, []string{"C"}) {
		t.Errorf("row 2 is %+v", r)
	}
	if _, err := readAll(file(t, []other{{"Who?", "A"}})); !errors.Is(err, ErrColumns) {
		t.Errorf("other columns: %v", err)
	}
	if _, err := readAll([]byte("PAR1 nothing PAR1")); !errors.Is(err, ErrFile) {
		t.Errorf("no parquet: %v", err)
	}
}

// A folder of parquet files makes the same domain as one of JSON lines; without this
// package the files are refused.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	var train, test []record
	for i := range 8 {
		text := string(rune('A' + i))
		train = append(train, record{ID: text, Text: "Who is " + text + "?", Golden: []string{text + "lice"}, Source: "nq"})
		test = append(test, record{ID: text, Text: "Where is " + text + "?", Golden: []string{text + "ville"}, Source: "hotpotqa"})
	}
	put(t, dir, "train.parquet", file(t, train))
	put(t, dir, "test.parquet", file(t, append(test, test[0])))
	put(t, dir, "corpus.jsonl", []byte(`{"id":"0","contents":"\"A\"\nA is here."}`))
	o := searchqa.Options{Cache: dir, Parquet: Rows}
	d, reports, err := searchqa.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Train) != 4 || len(d.Select) != 4 || len(d.Test) != 8 {
		t.Errorf("%d train, %d select, %d test", len(d.Train), len(d.Select), len(d.Test))
	}
	if bad := reports[0].Bad; len(bad) != 1 || bad[0].Row != 9 || !errors.Is(bad[0], searchqa.ErrDuplicate) {
		t.Errorf("reports %v", reports)
	}
	o.Parquet = nil
	if _, _, err := searchqa.Open(dir, o); !errors.Is(err, searchqa.ErrParquet) {
		t.Errorf("without a reader: %v", err)
	}
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Damaged files end in an error or in rows, never in a panic.
func FuzzRead(f *testing.F) {
	good := file(f, records()[:3])
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(file(f, []other{{"Who?", "A"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := readAll(data)
		if err != nil && !errors.Is(err, ErrFile) && !errors.Is(err, ErrColumns) && !errors.Is(err, ErrSize) {
			t.Errorf("%v", err)
		}
		for i, l := range lines {
			if l.row != i+1 {
				t.Errorf("row %d has number %d", i+1, l.row)
			}
		}
	})
}
