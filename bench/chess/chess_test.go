package chess

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/chess"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

const head = "PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags\n"

// Rows made for these tests: back-rank positions, the opponent's move first.
const (
	// Two rooks, both mate in one on the eighth rank; the line plays a1a8.
	mateRow = `one,7k/5ppp/8/8/8/8/8/R3R1K1 b - - 0 1,h8g8 a1a8,800,80,90,10,mate mateIn1,,` + "\n"
	// Queen sacrifice: Qe8+ Rxe8 Rxe8#.
	twoRow = `two,3r3k/5ppp/8/8/8/8/4Q3/4R1K1 b - - 0 1,h8g8 e2e8 d8e8 e1e8,1200,80,90,10,mate mateIn2,,` + "\n"
	// Wins a rook by a promotion with capture, no mate.
	promoRow = `three,3r2k1/2P2p2/8/8/8/8/8/6K1 b - - 0 1,g8g7 c7d8q,900,80,90,10,crushing promotion,,` + "\n"
)

func readText(t *testing.T, text string) ([]*puzzle, Report) {
	t.Helper()
	puzzles, report, err := read(strings.NewReader(text), "test.csv")
	if err != nil {
		t.Fatal(err)
	}
	return puzzles, report
}

// Bad rows are counted with their line and reason, the good ones go on.
func TestReader(t *testing.T) {
	text := head + mateRow +
		"short,8/8/8/8/8/8/8/8 w - - 0 1,a1a2\n" +
		strings.Replace(mateRow, "7k/5ppp", "7k/5pppp", 1) +
		strings.Replace(mateRow, "h8g8 a1a8", "h8g8 a1b8", 1) + // no rook moves so
		strings.Replace(mateRow, "h8g8 a1a8", "h8g8 g1g8", 1) + // a UCI decoder would take it
		strings.Replace(mateRow, "h8g8 a1a8", "h8g8", 1) +
		strings.Replace(mateRow, "h8g8 a1a8", "", 1) +
		strings.Replace(mateRow, ",800,", ",high,", 1) +
		strings.Replace(mateRow, "a1a8", "a1a7", 1) +
		strings.Replace(mateRow, "R3R1K1", "R3R1P1", 1) + // no white king
		strings.Replace(mateRow, "R3R1K1 b -", "R3R1K1 b KQ", 1) + // king not at home
		strings.Replace(mateRow, "7k/5ppp/8/8", "R6k/6pp/8/8", 1) + // h8g8 stays in check
		strings.Replace(mateRow, " b - -", " w - -", 1) + // h8g8 is the other side's move
		"x\"y,z\n" +
		mateRow + // again
		twoRow
	puzzles, report := readText(t, text)
	want := []struct {
		row int
		err error
	}{{3, ErrColumns}, {4, ErrFEN}, {5, ErrIllegal}, {6, ErrIllegal}, {7, ErrOdd}, {8, ErrOdd}, {9, ErrRating}, {10, ErrMate},
		{11, ErrFEN}, {12, ErrFEN}, {13, ErrIllegal}, {14, ErrIllegal}, {15, ErrCSV}, {16, ErrDuplicate}}
	if len(puzzles) != 2 || report.Good != 2 || puzzles[0].rating != 800 || puzzles[1].row != 17 {
		t.Errorf("good puzzles: %d, %+v", len(puzzles), report.Good)
	}
	if len(report.Bad) != len(want) {
		t.Fatalf("%d bad rows, want %d: %v", len(report.Bad), len(want), report.Bad)
	}
	for i, w := range want {
		if got := report.Bad[i]; got.Row != w.row || !errors.Is(got, w.err) || strings.Contains(got.Error(), "\n") {
			t.Errorf("bad row %d is %v, want line %d, %v", i+1, got, w.row, w.err)
		}
	}
	if text := report.String(); !strings.Contains(text, "2 puzzles, 14 rows left out, the first: task test.csv:3: wrong column count") {
		t.Errorf("report %q", text)
	}
}

// A FEN in which the side to move could take the king is no position.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		fen string
		ok  bool
	}{
		{"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", true},
		{"7k/8/8/8/8/8/8/R6K b - - 0 1", true},
		{"R6k/8/8/8/8/8/8/7K b - - 0 1", true},
		{"R6k/8/8/8/8/8/8/7K w - - 0 1", false},
		{"P6k/8/8/8/8/8/8/7K w - - 0 1", false},
		{"kk6/8/8/8/8/8/8/7K w - - 0 1", false},
		{"7k/8/8/8/8/8/8/4K3 w K - 0 1", false},
		{"7k/8/8/8/8/8/8/7K w - e6 0 1", false},
		{"7k/8/8/4p3/8/8/8/7K w - e6 0 1", true},
		{"7k/8/8/8/8/8/8/7\xff w - - 0 1", false},
		{"", false},
	} {
		if _, err := parse(c.fen); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrFEN) {
			t.Errorf("%q: %v", c.fen, err)
		}
	}
}

// Files without a header, of other column orders and packed ones.
func TestReaderForms(t *testing.T) {
	if puzzles, report := readText(t, mateRow+twoRow); len(puzzles) != 2 || report.Bad != nil {
		t.Errorf("no header: %d, %v", len(puzzles), report.Bad)
	}
	if puzzles, _ := readText(t, "Moves,FEN\nh8g8 a1a8,7k/5ppp/8/8/8/8/8/R3R1K1 b - - 0 1\n"); len(puzzles) != 1 {
		t.Errorf("two columns: %d", len(puzzles))
	}
	if _, _, err := read(strings.NewReader("FEN,x\n"), "f"); err == nil {
		t.Error("no column Moves")
	}
	dir := t.TempDir()
	var gz bytes.Buffer
	packer := gzip.NewWriter(&gz)
	if _, err := packer.Write([]byte(head + mateRow + twoRow)); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "puzzles_train.csv.gz", gz.String())
	write(t, dir, "puzzles_test.csv.zst", string(encoder.EncodeAll([]byte(head+promoRow+twoRow), nil)))
	d, reports, err := Open(dir, Options{Select: 1})
	if err == nil { // the training row that is also a test row is dropped, so one is left: too few for two splits
		t.Fatalf("domain of %d training tasks, %v", len(d.Train), reports)
	}
	if !errors.Is(err, ErrEmpty) || len(reports) != 2 || !errors.Is(reports[0].Bad[0], ErrTest) || reports[0].Bad[0].Row != 3 {
		t.Errorf("%v, %v", err, reports)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Open(filepath.Join(dir, "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, _, err := Open(dir, Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "task puzzles_train.csv") {
		t.Errorf("empty folder: %v", err)
	}
	write(t, dir, "bad.csv.gz", "no gzip")
	if _, _, err := Open(filepath.Join(dir, "bad.csv.gz"), Options{}); err == nil {
		t.Error("no gzip")
	}
	write(t, dir, "empty.csv", head)
	if _, _, err := Open(filepath.Join(dir, "empty.csv"), Options{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty file: %v", err)
	}
}

// domainOf has the puzzles of some rows as test tasks.
func domainOf(t *testing.T, rows string) *engine.Domain {
	t.Helper()
	puzzles, report := readText(t, rows)
	if report.Bad != nil {
		t.Fatal(report.Bad)
	}
	w := world{}
	return &engine.Domain{Name: Name, Tools: []engine.ToolSpec{movesTool, moveTool},
		Budget: engine.Budget{Turns: 18, Tools: 40}, World: w, Test: w.tasks(puzzles)}
}

// Whole rollouts of the seed harness; the replies are the model.
func TestRollouts(t *testing.T) {
	for _, c := range []struct {
		name    string
		row     string
		replies []string
		kind    engine.VerdictKind
		record  string
	}{
		{"the line", mateRow, []string{"<move>a1a8</move>"}, engine.Equal, "solved a1a8"},
		{"another mate", mateRow, []string{"<move>e1e8</move>"}, engine.Equal, "solved e1e8"},
		{"wrong", mateRow, []string{"<move>g1g2</move>", "<move>a1a8</move>"}, engine.Different, "wrong g1g2"},
		{"illegal, then right", mateRow, []string{"<move>a1h8</move>", "<move>a1a8</move>"}, engine.Equal, "solved a1a8"},
		{"illegal twice", mateRow, []string{"<move>a1h8</move>", "<move>a1b2</move>", "<move>a1a8</move>"}, engine.Different, "open"},
		{"unreadable, then right", mateRow, []string{"a1a8", "<move>a1a8</move>"}, engine.Equal, "solved a1a8"},
		{"unreadable twice", mateRow, []string{"a1a8", "a1a8", "<move>a1a8</move>"}, engine.Unparsed, "open"},
		{"the last move counts", mateRow, []string{"<move>g1g2</move> no: <move> A1A8 </move>"}, engine.Equal, "solved a1a8"},
		{"two moves", twoRow, []string{"<move>e2e8</move>", "<move>e1e8</move>"}, engine.Equal, "solved e2e8 d8e8 e1e8"},
		{"second move wrong", twoRow, []string{"<move>e2e8</move>", "<move>g1g2</move>"}, engine.Different, "wrong e2e8 d8e8 g1g2"},
		{"stops in the middle", twoRow, []string{"<move>e2e8</move>", "?", "?"}, engine.Unparsed, "open e2e8 d8e8"},
		{"promotion", promoRow, []string{"<move>c7d8q</move>"}, engine.Equal, "solved c7d8q"},
		{"promotion without a piece", promoRow, []string{"<move>c7d8</move>", "<move>c7d8</move>"}, engine.Different, "open"},
		{"under-promotion is another move", promoRow, []string{"<move>c7d8n</move>"}, engine.Different, "wrong c7d8n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := domainOf(t, c.row)
			next := 0
			played, err := benchtest.Play(d, d.Test[0], h0.Run, func([]kit.Message) string {
				next++
				return c.replies[next-1]
			})
			if err != nil || played.Err != nil {
				t.Fatal(err, played.Err)
			}
			v := played.Verdict
			if v.Kind != c.kind || (v.Reward == 1) != (c.kind == engine.Equal) || played.Trajectory.Record != c.record {
				t.Errorf("%+v, record %q, want %s, %q", v, played.Trajectory.Record, c.kind, c.record)
			}
		})
	}
}

// What a harness may not do, and what the tools say.
func TestTools(t *testing.T) {
	d := domainOf(t, mateRow)
	env, err := d.World.Start(d.Test[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, tool, args, written, want string }{
		{"list", "moves", "{}", "", "- [a1a2] SAN=Ra2\n"},
		{"not written", "move", kit.Args("move", "a1a8"), "", "refused: "},
		{"another move written", "move", kit.Args("move", "a1a8"), "<move>a1a8</move><move>e1e8</move>", "refused: "},
		{"outside the tags", "move", kit.Args("move", "a1a8"), "a1a8", "refused: "},
		{"empty", "move", "{}", "<move></move>", "refused: "},
		{"illegal", "move", kit.Args("move", "a1h8"), "<move>a1h8</move>", "illegal a1h8"},
		{"long", "move", kit.Args("move", strings.Repeat("a", 1000)), "<move>" + strings.Repeat("a", 1000) + "</move>", "illegal aaaaaaaaaaaaaaaaaaaaaaaa...: not a legal move here"},
		{"right", "move", kit.Args("move", "a1a8"), "<move>a1a8</move>", "solved"},
		{"afterwards", "move", kit.Args("move", "e1e8"), "<move>e1e8</move>", "over"},
		{"afterwards, list", "moves", "{}", "", "over"},
	} {
		got, err := env.Tool(context.Background(), engine.ToolCall{Name: c.tool, Args: c.args, Written: c.written})
		if err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.80q, %v, want %q", c.name, got, err, c.want)
		}
	}
	for _, call := range []engine.ToolCall{{Name: "move", Args: "x"}, {Name: "search", Args: "{}"}} {
		if _, err := env.Tool(context.Background(), call); !errors.Is(err, engine.ErrTool) {
			t.Errorf("%+v: %v", call, err)
		}
	}
	if _, err := d.World.Start(engine.Task{ID: "x"}); err == nil {
		t.Error("a foreign task was started")
	}
	if _, err := d.World.Verify(engine.Task{ID: "x"}, &engine.Trajectory{}); err == nil {
		t.Error("a foreign task was judged")
	}
	if v, err := d.World.Verify(d.Test[0], &engine.Trajectory{Record: toMove}); err != nil || v.Kind != engine.Unparsed {
		t.Errorf("nothing written: %+v, %v", v, err)
	}
}

// The rows carry SAN with captures, checks, mates, castling, promotion and
// disambiguation.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		fen  string
		want []string
	}{
		{"6k1/5ppp/8/8/8/8/8/R3R1K1 w - - 0 1", []string{"- [a1a8] SAN=Ra8#", "- [e1e8] SAN=Re8#", "- [a1d1] SAN=Rad1"}},
		{"r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", []string{"- [e1g1] SAN=O-O", "- [e1c1] SAN=O-O-O", "- [a1a8] SAN=Rxa8+"}},
		{"8/P6k/8/3pP3/8/8/8/7K w - d6 0 1", []string{"- [a7a8n] SAN=a8=N", "- [e5d6] SAN=exd6"}},
	} {
		pos, err := parse(c.fen)
		if err != nil {
			t.Fatal(err)
		}
		text := listing(legalRows(pos)) + "\n"
		for _, want := range c.want {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("%s lacks %q:\n%s", c.fen, want, text)
			}
		}
	}
}

func TestTags(t *testing.T) {
	for _, c := range []struct {
		themes string
		rating int
		want   string
	}{
		{"endgame mate mateIn1 oneMove", 640, "mateIn1|rating 500-999"},
		{"mate mateIn4 veryLong", 1500, "mateIn3+|rating 1500-1999"},
		{"crushing fork short", 999, "crushing|rating 500-999"},
		{"", 0, "other"},
	} {
		p := puzzle{themes: strings.Fields(c.themes), rating: c.rating}
		if got := strings.Join(p.tags(), "|"); got != c.want {
			t.Errorf("%q: %s, want %s", c.themes, got, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(head + mateRow)
	f.Add(mateRow + "\"\n" + twoRow)
	f.Add("FEN,Moves\n7k/8/8/8/8/8/8/R6K b - - 0 1,h8g8 a1a8\n")
	f.Fuzz(func(t *testing.T, text string) {
		puzzles, report, err := read(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		if len(puzzles) != report.Good {
			t.Errorf("%d puzzles, %d reported", len(puzzles), report.Good)
		}
		for _, p := range puzzles {
			if _, err := newEnvironment(p); err != nil {
				t.Errorf("%q was read, but %v", p.fen, err)
			}
		}
	})
}

// Rollouts run side by side: with -race this finds shared state of the rules package.
func TestSideBySide(t *testing.T) {
	d := domainOf(t, mateRow+twoRow+promoRow)
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range 50 {
				task := d.Test[(worker+i)%len(d.Test)]
				line, next := d.World.(world)[task.ID].line, -2
				played, err := benchtest.Play(d, task, h0.Run, func([]kit.Message) string {
					next += 2
					return "<move>" + line[next] + "</move>"
				})
				if err != nil || played.Verdict.Reward != 1 {
					t.Errorf("%v: %+v, %v", line, played.Verdict, err)
				}
			}
		}()
	}
	wait.Wait()
}

func FuzzParse(f *testing.F) {
	f.Add("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
	f.Add("7k/8/8/4p3/8/8/8/7K w - e6 0 1")
	f.Add("////////7k w - - 0 1")
	f.Fuzz(func(t *testing.T, fen string) {
		pos, err := parse(fen)
		if err != nil {
			return
		}
		rows := legalRows(pos)
		for _, r := range rows {
			if _, err := legal(pos, r.uci); err != nil {
				t.Error(err)
			}
		}
		if again, err := parse(pos.String()); err != nil || len(legalRows(again)) != len(rows) {
			t.Errorf("%q comes back as %q: %v", fen, pos.String(), err)
		}
	})
}
