// Package own is the domain that a user brings: tasks in a JSONL file and a way to judge
// answers, which is exact comparison, a command of the user's, or a Verifier in Go. The
// folder example walks through one.
//
// What it may not know: models, harnesses (beyond handing on the source of h0), runs.
// What it does not cover: tools and environments; for these write a package like
// bench/lookup. It does not confine the command: it is the user's own and runs with the
// user's rights, model text on its standard input.
package own

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// Name of the domain.
const Name = "own"

// Options of Open.
type Options struct {
	// Verifier judges answers; nil = the settings' command, or Exact without one.
	Verifier Verifier
	// Log takes what commands write on standard error, which may hold references and
	// therefore is in no record; nil = it is dropped.
	Log io.Writer
}

// ErrEmpty: a file without a usable row.
var ErrEmpty = errors.New("no tasks")

// Open reads FILE.jsonl with its settings beside it in FILE.yaml, or a folder with
// tasks.jsonl and own.yaml; the settings may be missing. The order within a split is
// that of the ids, which are hashes of the inputs. A split may be empty; what needs it
// says so. Rows that can't be used are in the report; the error is about files. Commands
// start with the first verdict and end when this process does, or with World.Close.
func Open(path string, o Options) (*engine.Domain, Report, error) {
	tasks, sidecar := path, strings.TrimSuffix(path, ".jsonl")+".yaml"
	if info, err := os.Stat(path); err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, Name, err)
	} else if info.IsDir() {
		tasks, sidecar = filepath.Join(path, "tasks.jsonl"), filepath.Join(path, "own.yaml")
	}
	s, err := readSettings(sidecar)
	if err != nil {
		return nil, Report{}, engine.Fail(engine.AtTask, filepath.Base(sidecar), err)
	}
	verifier := o.Verifier
	if verifier == nil {
		verifier = Exact{}
		if len(s.Verifier) > 0 {
			verifier = newCommand(s, filepath.Dir(sidecar), o.Log)
		}
	}
	rows, report, err := readFile(tasks, verifier)
	if err != nil {
		return nil, report, engine.Fail(engine.AtTask, filepath.Base(tasks), err)
	}
	if len(rows) == 0 {
		return nil, report, engine.Fail(engine.AtTask, filepath.Base(tasks), fmt.Errorf("%w; %s", ErrEmpty, report))
	}
	d, err := build(rows, s, verifier)
	return d, report, err
}

func build(rows []*row, s Settings, verifier Verifier) (*engine.Domain, error) {
	source, skill, err := harnesses.Seed(Name)
	if err != nil {
		return nil, err
	}
	w := &World{rows: map[engine.TaskID]*row{}, verifier: verifier}
	d := &engine.Domain{
		Name:   Name,
		Budget: engine.Budget{Tokens: s.Tokens, CallTokens: s.CallTokens, Turns: s.Turns, Tools: 1, LogBytes: 4096},
		World:  w,
		Seed:   source,
		Skill:  skill,
	}
	slices.SortFunc(rows, func(a, b *row) int { return strings.Compare(string(a.id), string(b.id)) })
	for _, r := range rows {
		w.rows[r.id] = r
		task := engine.Task{ID: r.id, Domain: Name, Input: r.Input, Tags: r.Tags}
		switch r.split() {
		case engine.Train:
			d.Train = append(d.Train, task)
		case engine.Select:
			d.Select = append(d.Select, task)
		case engine.Test:
			d.Test = append(d.Test, task)
		}
	}
	return d, nil
}
