// Package chess is the puzzle domain: Lichess puzzles from a CSV, or mate-in-one
// positions from random playouts when there is no file. The environment plays the
// opponent; a legal wrong move is final; any mate is right where the last move mates
// (shared/DESIGN.md section 10, shared/data/README.md).
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs.
// What it does not cover: chess variants, engines' evaluations, puzzles with several
// right moves that do not mate.
package chess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "chess"

// Options choose puzzles. Zero values mean the defaults.
type Options struct {
	Test   int      // at most so many, default 256
	Select int      // cut from the training puzzles, default 64
	Train  int      // at most so many of the rest; 0 = all of a file, 400 generated ones
	Themes []string // only puzzles with one of these Lichess themes
	// CallTokens limits one reply, default 64; more for a model that thinks first.
	CallTokens int
}

func (o Options) withDefaults() Options {
	if o.Test == 0 {
		o.Test = 256
	}
	if o.Select == 0 {
		o.Select = 64
	}
	if o.CallTokens == 0 {
		o.CallTokens = 64
	}
	return o
}

// ErrEmpty: a split would have no puzzle.
var ErrEmpty = errors.New("no puzzles")

// Open reads puzzles from a folder with puzzles_train.csv and puzzles_test.csv, or from
// one file that is then split by hash (one tenth is test). Files may end in .gz or .zst.
// The order within a split is that of the ids, which are content hashes, so a limit takes
// a random sample that is the same every time. Rows that can't be used are in the
// reports; the error is about files.
func Open(path string, o Options) (*engine.Domain, []Report, error) {
	o = o.withDefaults()
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, engine.Fail(engine.AtTask, Name, err)
	}
	var train, test []*puzzle
	var reports []Report
	if info.IsDir() {
		train, test, reports, err = openFolder(path)
	} else {
		train, test, reports, err = openFile(path)
	}
	if err != nil {
		return nil, reports, err
	}
	d, err := build(filter(train, o.Themes), filter(test, o.Themes), o)
	return d, reports, err
}

func openFolder(dir string) (train, test []*puzzle, reports []Report, err error) {
	train, first, err := readFile(find(dir, "puzzles_train.csv"))
	if err != nil {
		return nil, nil, nil, err
	}
	test, second, err := readFile(find(dir, "puzzles_test.csv"))
	if err != nil {
		return nil, nil, []Report{first}, err
	}
	train = apart(train, test, &first)
	return train, test, []Report{first, second}, nil
}

// ErrTest: a training row that is in the test file too. It is left out of training.
var ErrTest = errors.New("also a test puzzle")

// apart drops training puzzles that are test puzzles and reports them.
func apart(train, test []*puzzle, report *Report) []*puzzle {
	inTest := map[engine.TaskID]bool{}
	for _, p := range test {
		inTest[p.id] = true
	}
	var kept []*puzzle
	for _, p := range train {
		if inTest[p.id] {
			report.Good--
			report.Bad = append(report.Bad, &bench.RowError{File: report.File, Row: p.row, Err: ErrTest})
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// find returns the path of a file or its packed form, and the name for messages.
func find(dir, name string) (path, shown string) {
	for _, suffix := range []string{"", ".zst", ".gz"} {
		path = filepath.Join(dir, name+suffix)
		if _, err := os.Stat(path); err == nil {
			return path, name + suffix
		}
	}
	return filepath.Join(dir, name), name
}

func openFile(path string) (train, test []*puzzle, reports []Report, err error) {
	all, report, err := readFile(path, filepath.Base(path))
	if err != nil {
		return nil, nil, nil, err
	}
	for _, p := range all {
		if bench.IsTest(p.id) {
			test = append(test, p)
		} else {
			train = append(train, p)
		}
	}
	return train, test, []Report{report}, nil
}

func filter(list []*puzzle, themes []string) []*puzzle {
	var kept []*puzzle
	for _, p := range list {
		if p.has(themes) {
			kept = append(kept, p)
		}
	}
	return kept
}

// build cuts the select split from the training puzzles and limits all three.
func build(train, test []*puzzle, o Options) (*engine.Domain, error) {
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	sortByID(train)
	sortByID(test)
	chosen := train[:min(o.Select, len(train)/2)]
	train = train[len(chosen):]
	if o.Train > 0 {
		train = train[:min(o.Train, len(train))]
	}
	test = test[:min(o.Test, len(test))]
	w := world{}
	d := &engine.Domain{
		Name:   Name,
		Tools:  []engine.ToolSpec{movesTool, moveTool},
		Budget: engine.Budget{Tokens: 8129, CallTokens: o.CallTokens, Turns: 18, Tools: 40, LogBytes: 4096},
		World:  w,
		Names:  []string{"Lichess"},
		Seed:   source,
		Skill:  skill,
	}
	d.Train, d.Select, d.Test = w.tasks(train), w.tasks(chosen), w.tasks(test)
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		if len(d.Tasks(split)) == 0 {
			return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("%w in the %s split%s", ErrEmpty, split, ofThemes(o.Themes)))
		}
	}
	return d, nil
}

func ofThemes(themes []string) string {
	if len(themes) == 0 {
		return ""
	}
	return " with a theme of " + strings.Join(themes, ", ")
}

func sortByID(list []*puzzle) {
	sort.Slice(list, func(i, j int) bool { return list[i].id < list[j].id })
}

// world is the engine.World: the puzzles by id. It is only read after build.
type world map[engine.TaskID]*puzzle

func (w world) tasks(list []*puzzle) []engine.Task {
	var tasks []engine.Task
	for _, p := range list {
		w[p.id] = p
		tasks = append(tasks, p.task())
	}
	return tasks
}

// Start sets up the board for one rollout.
func (w world) Start(task engine.Task) (engine.Environment, error) {
	p, ok := w[task.ID]
	if !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a puzzle of this %s domain", Name))
	}
	return newEnvironment(p)
}

// Verify trusts the environment's record: solved is equal, a wrong move different. With
// no legal move played it is different when the last reply holds a move, else unparsed.
func (w world) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	if _, ok := w[task.ID]; !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a puzzle of this %s domain", Name))
	}
	state, moves, _ := strings.Cut(t.Record, " ")
	switch {
	case state == solved:
		return engine.Verdict{Kind: engine.Equal, Reward: 1, Answer: moves}, nil
	case state == wrong:
		return engine.Verdict{Kind: engine.Different, Answer: moves}, nil
	}
	call := t.Answer()
	if call == nil {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	if move := writtenMove(call.Text); move != "" {
		return engine.Verdict{Kind: engine.Different, Answer: strings.TrimSpace(moves + " " + move)}, nil
	}
	return engine.Verdict{Kind: engine.Unparsed, Answer: moves}, nil
}
