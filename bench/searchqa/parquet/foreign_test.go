package parquet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of testdata hold the same four rows, written by pyarrow, pandas and duckdb with
// their default and with other encodings, page formats, compressions and list layouts
// (testdata/make.py).
func TestForeignWriters(t *testing.T) {
	names, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(names) < 10 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := readAll(data)
		if strings.Contains(name, "flat") {
			if !errors.Is(err, ErrColumns) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(lines) != 4 {
			t.Errorf("%s: %d rows, %v", name, len(lines), err)
			continue
		}
		var got []string
		for _, l := range lines {
			r := l.r
			got = append(got, strings.Join([]string{r.ID, r.DataSource, r.Question, strings.Join(r.GoldenAnswers, "|"), strings.Join(r.RewardModel.GroundTruth.Target, "|")}, ";"))
			if l.err != nil {
				t.Errorf("%s: %v", name, l.err)
			}
		}
		const want = `test_0;nq;Who keeps the tower of Ornath?;Gervan|Gervan the Old;Gervan|Gervan the Old
test_1;popqa;Where does the Mirel end?;;Såle Bay
test_2;2wikimultihopqa;Which harbour is older, Tarn or Vell?;Tarn;
;nq;How many gates has Ornath?;7;`
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, want)
		}
	}
}
