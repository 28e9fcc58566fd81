package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7c27e6b8/whale/bench/chess"
	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/sums"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openDomain builds the tasks of a name. Generated domains are drawn from the run's
// seed; chess reads a folder or file of puzzles when there is one.
func openDomain(name, data string, seed uint64) (*engine.Domain, error) {
	switch name {
	case lookup.Name, sums.Name:
		if data != "" {
			return nil, usageError{engine.Fail(engine.AtTask, name, fmt.Errorf("takes no --data, its tasks are generated"))}
		}
		if name == lookup.Name {
			return lookup.New(seed, lookup.Options{})
		}
		return sums.New(seed, sums.Options{})
	case chess.Name:
		if data == "" {
			return chess.Generated(seed, chess.Options{})
		}
		domain, reports, err := chess.Open(data, chess.Options{})
		for _, r := range reports {
			fmt.Fprintln(os.Stderr, r)
		}
		return domain, err
	case math.Name:
		return openMath(data)
	case searchqa.Name:
		return openSearchQA(data)
	}
	return nil, usageError{engine.Fail(engine.AtTask, name, fmt.Errorf("unknown domain; there are lookup, sums, chess, math, searchqa"))}
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
