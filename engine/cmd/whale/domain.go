package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/own"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/sums"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openDomain builds the tasks of a name. Generated domains are drawn from the run's
// seed; chess reads a folder or file of puzzles when there is one. The notices say what
// was read and left out, one file a line; they are for stderr once nothing can fail any
// more, since the first line there is the error's.
func openDomain(name, data string, seed uint64) (d *engine.Domain, notices []string, err error) {
	switch name {
	case lookup.Name, sums.Name:
		if data != "" {
			return nil, nil, usageError{engine.Fail(engine.AtTask, name, fmt.Errorf("takes no --data, its tasks are generated"))}
		}
		if name == lookup.Name {
			d, err = lookup.New(seed, lookup.Options{})
		} else {
			d, err = sums.New(seed, sums.Options{})
		}
		return d, nil, err
	case chess.Name:
		if data == "" {
			d, err = chess.Generated(seed, chess.Options{})
			return d, nil, err
		}
		d, reports, err := chess.Open(data, chess.Options{})
		return d, lines(reports), err
	case math.Name:
		return openMath(data)
	case searchqa.Name:
		return openSearchQA(data)
	case own.Name:
		return openOwn(data)
	}
	return nil, nil, usageError{engine.Fail(engine.AtTask, name, fmt.Errorf("unknown domain; there are lookup, sums, chess, math, searchqa, own"))}
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
