package chess

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/chess"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// lichess is the folder with the real puzzles: $WHALE_DATA/chess, or shared/data/chess
// beside the repository. The test is skipped without it.
func lichess(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("WHALE_DATA"), "chess")
	if os.Getenv("WHALE_DATA") == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data", "chess")
	}
	if _, err := os.Stat(filepath.Join(dir, "puzzles_train.csv")); err != nil {
		t.Skipf("no Lichess puzzles (set WHALE_DATA to the folder that holds chess/puzzles_train.csv): %v", err)
	}
	return dir
}

// All real rows replay; a player of the solution lines solves them all, the reader of
// mates solves the mates in one.
func TestLichess(t *testing.T) {
	d, reports, err := Open(lichess(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, rows := range []int{16319, 2000} {
		if reports[i].Good != rows || reports[i].Bad != nil {
			t.Errorf("%v, want %d puzzles and nothing left out", reports[i], rows)
		}
	}
	if len(d.Test) != 256 || len(d.Select) != 64 || len(d.Train) != 16319-64 {
		t.Errorf("%d test, %d select, %d train", len(d.Test), len(d.Select), len(d.Train))
	}
	w := d.World.(world)
	mates := 0
	for _, task := range append(d.Test, d.Select...) {
		next := -2
		played, err := benchtest.Play(d, task, h0.Run, func([]kit.Message) string {
			next += 2
			return "<move>" + w[task.ID].line[next] + "</move>"
		})
		// The longest lines have ten moves, h0 asks for nine.
		if long := len(w[task.ID].line) > 2*9-1; err != nil || played.Err != nil || (played.Verdict.Reward == 1) == long {
			t.Errorf("%s %v: %+v, %v, %v", task.ID, w[task.ID].line, played.Verdict, err, played.Err)
		}
		played, err = benchtest.Play(d, task, h0.Run, mateReader)
		if err != nil {
			t.Fatal(err)
		}
		if task.Tags[0] == "mateIn1" {
			mates++
			if played.Verdict.Kind != engine.Equal {
				t.Errorf("%s: the mate is not found: %+v", task.Input, played.Verdict)
			}
		}
	}
	if mates == 0 {
		t.Error("no mate in one among the puzzles")
	}
}

// A single file is split by hash, the splits share nothing; themes choose.
func TestLichessFile(t *testing.T) {
	path := filepath.Join(lichess(t), "puzzles_test.csv")
	d, _, err := Open(path, Options{Themes: []string{"mateIn1", "mateIn2"}, Train: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Train) != 100 || len(d.Select) != 64 || len(d.Test) < 10 || len(d.Test) > 60 {
		t.Errorf("%d train, %d select, %d test", len(d.Train), len(d.Select), len(d.Test))
	}
	seen := map[engine.TaskID]bool{}
	for _, task := range append(append(d.Test, d.Select...), d.Train...) {
		if seen[task.ID] || task.Tags[0] != "mateIn1" && task.Tags[0] != "mateIn2" {
			t.Errorf("%s %v", task.ID, task.Tags)
		}
		seen[task.ID] = true
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "chess")
	for b.Loop() {
		if _, _, err := Open(dir, Options{}); err != nil {
			b.Skip(err)
		}
	}
}
