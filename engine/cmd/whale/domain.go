package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/own"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/sums"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// openDomain builds the tasks that a config names. Generated domains are drawn from the
// run's seed; chess reads a folder or file of puzzles when there is one. The notices say what
// was read and left out, one file a line; they are for stderr once nothing can fail any
// more, since the first line there is the error's.
func openDomain(c engine.Config) (d *engine.Domain, notices []string, err error) {
	name, data, seed := c.Domain, c.Data, c.Seed
	c.Services = surrounded(c.Domain, c.Services)
	if err := choosable(c); err != nil {
		return nil, nil, usageError{engine.Fail(engine.AtTask, name, err)}
	}
	switch name {
	case lookup.Name, sums.Name:
		if data != "" {
			return nil, nil, usageError{engine.Fail(engine.AtTask, name, fmt.Errorf("takes no --data, its tasks are generated"))}
		}
		if name == lookup.Name {
			d, err = lookup.New(seed, lookup.Options{Test: c.Tasks.Test, Select: c.Tasks.Select, Train: c.Tasks.Train})
		} else {
			d, err = sums.New(seed, sums.Options{Test: c.Tasks.Test, Select: c.Tasks.Select, Train: c.Tasks.Train})
		}
		return d, nil, err
	case chess.Name:
		if data == "" {
			d, err = chess.Generated(seed, chessOptions(c.Tasks))
			return d, nil, err
		}
		d, reports, err := chess.Open(data, chessOptions(c.Tasks))
		return d, lines(reports), err
	case math.Name:
		return openMath(c)
	case searchqa.Name:
		return openSearchQA(c)
	case own.Name:
		return openOwn(data)
	}
	return nil, nil, usageError{unknownDomain(name)}
}

// unknownDomain says which there are.
func unknownDomain(name string) error {
	return engine.Fail(engine.AtTask, name, fmt.Errorf("unknown domain; there are %s", strings.Join(harnesses.Names(), ", ")))
}

// choosable says whether the domain has what a config chooses.
func choosable(c engine.Config) error {
	generated := c.Domain == lookup.Name || c.Domain == sums.Name
	s := c.Services
	switch {
	case c.Tasks != (engine.TaskChoice{}) && c.Domain == own.Name:
		return errors.New("there is no choice of tasks: the file itself says what is what")
	case c.Tasks.CallTokens != 0 && generated:
		return errors.New("has no choice of call tokens: the embedded model was taught with these")
	case c.Tasks.Themes != "" && c.Domain != chess.Name:
		return errors.New("has no themes, only chess has")
	case c.Tasks.Test < 0 && c.Domain != searchqa.Name:
		return errors.New("test -1, all of them, is for searchqa; name a large number")
	case (s.Retriever != "" || s.Judge != "" || s.JudgeModel != "") && c.Domain != searchqa.Name:
		return errors.New("has no retriever and no judge, only searchqa has")
	case s.Code != "" && c.Domain != math.Name:
		return errors.New("has no code tool, only math has")
	}
	return nil
}

func chessOptions(t engine.TaskChoice) chess.Options {
	o := chess.Options{Test: t.Test, Select: t.Select, Train: t.Train, CallTokens: t.CallTokens}
	if t.Themes != "" {
		o.Themes = strings.Split(t.Themes, ",")
	}
	return o
}

func lines[R fmt.Stringer](reports []R) []string {
	var text []string
	for _, r := range reports {
		text = append(text, r.String())
	}
	return text
}

// openHarness reads a candidate from a file or a folder with harness.go; an empty path
// is the domain's seed.
func openHarness(path string, domain *engine.Domain) (engine.Harness, error) {
	if path == "" {
		return engine.NewHarness(domain.Seed, engine.Meta{Proposer: "seed"}), nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "harness.go")
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return engine.Harness{}, engine.Fail(engine.AtHarness, path, err)
	}
	return engine.NewHarness(string(source), engine.Meta{Proposer: "file"}), nil
}
