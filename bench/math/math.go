// Package math is the domain of word problems and competition problems: GSM8K, MATH,
// DAPO and AIME rows from JSONL files, a code tool, and a verifier that reads the boxed
// answer (shared/DESIGN.md sections 8 and 10, shared/data/README.md).
//
// The code tool runs on an Interpreter; the packages starlark, micropython and fusion are
// three of them. The verifier is package answer.
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs,
// which interpreter runs.
// What it does not cover: proofs, answers that need a judge.
package math

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/math/answer"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "math"

// Options choose problems and tools. Zero values mean the defaults.
type Options struct {
	Test   int // at most so many of each test file, default 256
	Select int // cut from the training problems, default 256
	Train  int // at most so many of the rest; 0 = all
	// CallTokens limits one reply; 0 = only the 8,192 tokens of the whole rollout do.
	CallTokens int
	// Code runs the programs of the code tool; nil = the domain has no tool.
	Code Interpreter
}

func (o Options) withDefaults() Options {
	if o.Test == 0 {
		o.Test = 256
	}
	if o.Select == 0 {
		o.Select = 256
	}
	return o
}

// ErrEmpty: a split would have no problem.
var ErrEmpty = errors.New("no problems")

// ErrTest: a training row whose question is in a test file too. It is left out of training.
var ErrTest = errors.New("also a test problem")

// Open reads problems from a folder, or from one file that is then split by hash (one
// tenth is test). In a folder the files called *_train.jsonl teach and select, all other
// *.jsonl are test sets; each test task is tagged with its set (`set aime_2024`), so that
// reports show the sets one by one. Files may end in .gz. The order within a split is
// that of the ids, which are hashes of the questions, so a limit takes a random sample
// that is the same every time. Rows that can't be used are in the reports; the error is
// about files.
func Open(path string, o Options) (*engine.Domain, []Report, error) {
	o = o.withDefaults()
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, engine.Fail(engine.AtTask, Name, err)
	}
	var train []*problem
	var tests [][]*problem
	var reports []Report
	if info.IsDir() {
		train, tests, reports, err = openFolder(path)
	} else {
		train, tests, reports, err = openFile(path)
	}
	if err != nil {
		return nil, reports, err
	}
	d, err := build(train, tests, o)
	return d, reports, err
}

// openFolder reads every file and takes out of training what is in a test set.
func openFolder(dir string) (train []*problem, tests [][]*problem, reports []Report, err error) {
	names, err := dataFiles(dir)
	if err != nil {
		return nil, nil, nil, engine.Fail(engine.AtTask, dir, err)
	}
	owner := map[*problem]int{} // index of its report
	inTest, inTrain := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		list, report, err := readFile(filepath.Join(dir, name), name)
		if err != nil {
			return nil, nil, reports, err
		}
		reports = append(reports, report)
		training := strings.HasSuffix(setName(name), "_train")
		seen := inTest
		if training {
			seen = inTrain
		}
		var kept []*problem
		for _, p := range list {
			if seen[p.key] {
				reports[len(reports)-1].drop(p.row, ErrDuplicate)
				continue
			}
			seen[p.key] = true
			owner[p] = len(reports) - 1
			p.set = strings.TrimSuffix(strings.TrimSuffix(setName(name), "_train"), "_test")
			kept = append(kept, p)
		}
		if training {
			train = append(train, kept...)
		} else {
			tests = append(tests, kept)
		}
	}
	var apart []*problem
	for _, p := range train {
		if inTest[p.key] {
			reports[owner[p]].drop(p.row, ErrTest)
			continue
		}
		apart = append(apart, p)
	}
	return apart, tests, reports, nil
}

// dataFiles are the names of the JSONL files of a folder in order; of a plain and a
// packed one only the plain.
func dataFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	have := map[string]bool{}
	for _, e := range entries { // sorted: the plain name comes first
		base := strings.TrimSuffix(e.Name(), ".gz")
		if e.IsDir() || !strings.HasSuffix(base, ".jsonl") || have[base] {
			continue
		}
		have[base] = true
		names = append(names, e.Name())
	}
	return names, nil
}

// setName is a file name without its endings.
func setName(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".jsonl")
}

func openFile(path string) (train []*problem, tests [][]*problem, reports []Report, err error) {
	name := filepath.Base(path)
	all, report, err := readFile(path, name)
	if err != nil {
		return nil, nil, nil, err
	}
	var test []*problem
	for _, p := range all {
		p.set = setName(name)
		if bench.IsTest(p.id) {
			test = append(test, p)
		} else {
			train = append(train, p)
		}
	}
	return train, [][]*problem{test}, []Report{report}, nil
}

// build cuts the select split from the training problems and limits all three.
func build(train []*problem, tests [][]*problem, o Options) (*engine.Domain, error) {
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	sortByID(train)
	chosen := train[:min(o.Select, len(train)/2)]
	train = train[len(chosen):]
	if o.Train > 0 {
		train = train[:min(o.Train, len(train))]
	}
	w := &world{problems: map[engine.TaskID]*problem{}, code: o.Code}
	d := &engine.Domain{
		Name:   Name,
		Budget: engine.Budget{Tokens: 8192, CallTokens: o.CallTokens, Turns: 16, Tools: 16, LogBytes: 4096},
		World:  w,
		Seed:   source,
		Skill:  skill,
		Names:  dataSets,
	}
	if o.Code != nil {
		d.Tools = []engine.ToolSpec{codeTool(o.Code)}
	}
	d.Train, d.Select = w.tasks(train), w.tasks(chosen)
	for _, test := range tests {
		sortByID(test)
		d.Test = append(d.Test, w.tasks(test[:min(o.Test, len(test))])...)
	}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		if len(d.Tasks(split)) == 0 {
			return nil, engine.Fail(engine.AtTask, Name, fmt.Errorf("%w in the %s split", ErrEmpty, split))
		}
	}
	return d, nil
}

func sortByID(list []*problem) {
	sort.Slice(list, func(i, j int) bool { return list[i].id < list[j].id })
}

// world is the engine.World: the problems by id. It is only read after build.
type world struct {
	problems map[engine.TaskID]*problem
	code     Interpreter
}

func (w *world) tasks(list []*problem) []engine.Task {
	var tasks []engine.Task
	for _, p := range list {
		w.problems[p.id] = p
		tasks = append(tasks, p.task())
	}
	return tasks
}

// Start opens the code tool for one rollout.
func (w *world) Start(task engine.Task) (engine.Environment, error) {
	if _, ok := w.problems[task.ID]; !ok {
		return nil, engine.Fail(engine.AtTask, string(task.ID), fmt.Errorf("not a problem of this %s domain", Name))
	}
	return &environment{code: w.code}, nil
}

// Verify compares the boxed answer of the reply that counts with the reference.
func (w *world) Verify(task engine.Task, t *engine.Trajectory) (engine.Verdict, error) {
	p, ok := w.problems[task.ID]
	if !ok {
		return engine.Verdict{}, engine.Fail(engine.AtVerifier, string(task.ID), fmt.Errorf("not a problem of this %s domain", Name))
	}
	call := t.Answer()
	if call == nil {
		return engine.Verdict{Kind: engine.Unparsed}, nil
	}
	kind, read := answer.Judge(call.Text, p.reference)
	verdict := engine.Verdict{Kind: kind, Answer: clip(read)}
	if kind == engine.Equal {
		verdict.Reward = 1
	}
	return verdict, nil
}
