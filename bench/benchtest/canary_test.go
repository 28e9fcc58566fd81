package benchtest_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/sums"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	chess0 "github.com/seed-7c27e6b8/whale/harnesses/chess"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
	sums0 "github.com/seed-7c27e6b8/whale/harnesses/sums"
)

const canary = "CANARY5e2b"

// public is all of a domain that a harness, a candidate or a proposer may see at rest.
func public(t *testing.T, d *engine.Domain) string {
	t.Helper()
	text, err := json.Marshal(struct {
		Train, Select, Test []engine.Task
		Tools               []engine.ToolSpec
		Seed, Skill         string
	}{d.Train, d.Select, d.Test, d.Tools, d.Seed, d.Skill})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// everything is the text of all files of a run, unpacked.
func everything(t *testing.T, dir string) string {
	t.Helper()
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			data, err = decoder.DecodeAll(data, nil)
		}
		all.WriteString(path)
		all.Write(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A whole run over tasks whose references hold a canary leaves it nowhere: not in a task,
// not in what proposers are given, not in a file of the run. Package searchqa has the
// same test with a corpus.
func TestCanary_run(t *testing.T) {
	for _, name := range []string{"own", "math"} {
		d := written(t, name, canary+"a "+canary+"b 1").domain
		folder := filepath.Join(t.TempDir(), "run")
		store, err := archive.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		proposer := &enginetest.Proposer{}
		parts := enginetest.Parts(store)
		d.Seed = "hint=0 turns=2" // what the fake world can run and change
		parts.Domain, parts.Proposer = d, proposer
		config := enginetest.Config()
		config.Domain = name
		summary, err := engine.Run(t.Context(), config, parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		seen := public(t, d) + fmt.Sprintf("%+v %+v", proposer.Briefs, summary) + everything(t, folder)
		if len(proposer.Briefs) == 0 || strings.Count(seen, "What goes with item") < 100 || !strings.Contains(seen, `"verdict"`) {
			t.Errorf("%s: this test does not look at what a proposer sees", name)
		}
		if i := strings.Index(seen, canary); i >= 0 {
			t.Errorf("%s: the canary is in the open: %s", name, seen[max(0, i-200):i+40])
		}
	}
}

// Other references change nothing in public, so nothing there tells of them: no id, no
// order, no split.
func TestCanary_public(t *testing.T) {
	for _, name := range []string{"own", "math"} {
		one, other := public(t, written(t, name, "10 11 12").domain), public(t, written(t, name, "20 31 42 53").domain)
		if one != other {
			t.Errorf("%s: what is public depends on the references", name)
		}
	}
}

// A rollout of the seed harness in which the model neither searches nor answers holds the
// reference nowhere. Sums and chess have tests of their own: their references are short
// numbers, or moves from the list that the prompt holds.
func TestCanary_rollout(t *testing.T) {
	list := arenas(t)
	for _, name := range []string{"lookup", "own", "searchqa"} {
		a := list[name]
		for _, task := range a.domain.Test {
			result, err := benchtest.Play(a.domain, task, a.h0, func([]kit.Message) string { return "I can't tell." })
			if err != nil {
				t.Fatal(err)
			}
			seen, err := json.Marshal([]any{task, result.Messages, result.Trajectory})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(seen), a.truth[task.ID]) {
				t.Errorf("%s: %q is in the rollout of %q", name, a.truth[task.ID], task.Input)
			}
		}
	}
}

// Of a sum, nothing but the question itself may hold the result.
func TestCanary_sums(t *testing.T) {
	d, err := sums.New(5, sums.Options{Test: 60, Select: 40, Train: 40})
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, task := range d.Tasks(split) {
			want := result(t, task.Input)
			if want < 10 { // too short: handles and samples are such numbers too
				continue
			}
			played, err := benchtest.Play(d, task, sums0.Run, func([]kit.Message) string { return "I can't tell." })
			if err != nil {
				t.Fatal(err)
			}
			seen, err := json.Marshal([]any{task.Tags, played.Messages, played.Trajectory.Events, played.Trajectory.Record})
			if err != nil {
				t.Fatal(err)
			}
			looked++
			rest := strings.ReplaceAll(string(seen), task.Input, "")
			if regexp.MustCompile(`(^|[^0-9])` + fmt.Sprint(want) + `([^0-9]|$)`).MatchString(rest) {
				t.Errorf("%d is in the rollout of %q", want, task.Input)
			}
		}
	}
	if looked < 60 {
		t.Errorf("only %d sums were looked at", looked)
	}
}

// result works out a sum by its question.
func result(t *testing.T, question string) (sum int) {
	t.Helper()
	for _, term := range regexp.MustCompile(`[+-]?[0-9]+`).FindAllString(question, -1) {
		n, err := strconv.Atoi(term)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// Two files with the same positions and other solutions are the same in public: ids,
// order, what a harness and its model see until a move is made.
func TestCanary_chess(t *testing.T) {
	open := func(solution string) (string, *engine.Domain) {
		dir := t.TempDir()
		const header = "PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags\n"
		const fen = "4r2r/ppp1bpkp/1q4p1/3P4/4N3/2Q1RP1b/PPP4P/4R2K b - - 7 "
		for file, move := range map[string]int{"puzzles_train.csv": 22, "puzzles_test.csv": 0} {
			rows := header
			for i := range 6 { // another clock or another side square makes another position
				board := strings.Replace(fen, "PPP4P", []string{"PPP4P", "PP1P3P", "P1PP3P", "PPP3PP", "P1P1P2P", "PP2P2P"}[i], 1)
				if move == 0 {
					board = strings.Replace(board, "ppp1bpkp", "pp2bpkp", 1)
				}
				rows += fmt.Sprintf("x%d,%s%d,g7g8 %s,1500,80,90,100,middlegame short,,\n", i, board, 22, solution)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(rows), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d, reports, err := chess.Open(dir, chess.Options{Select: 2})
		if err != nil {
			t.Fatalf("%v %v", err, reports)
		}
		var seen strings.Builder
		seen.WriteString(public(t, d))
		for _, task := range append(append(slices.Clone(d.Train), d.Select...), d.Test...) {
			played, err := benchtest.Play(d, task, chess0.Run, func([]kit.Message) string { return "I can't tell." })
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal([]any{played.Messages, played.Trajectory})
			if err != nil {
				t.Fatal(err)
			}
			seen.Write(text)
		}
		return seen.String(), d
	}
	one, d := open("e4g5")
	other, _ := open("e4c5")
	if len(d.Train)+len(d.Select) < 6 || len(d.Test) < 6 || !strings.Contains(one, "e4g5") || !strings.Contains(one, "e4c5") {
		t.Fatalf("this test is about nothing: %d %d %d tasks", len(d.Train), len(d.Select), len(d.Test))
	}
	if one != other {
		t.Error("what is public depends on the solution")
	}
}
