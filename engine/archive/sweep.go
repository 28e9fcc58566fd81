package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// sweep removes what no committed record points to and brings score.json to the last
// committed scores, so that a resumed run goes on from the same bytes as one that was
// never stopped.
func (a *Archive) sweep() error {
	if err := a.removeTemporary(); err != nil {
		return err
	}
	var files, weights, harnesses []string
	cycles := map[string][]string{}
	for _, r := range a.records {
		harnesses = append(harnesses, string(r.Harness))
		if r.File != "" {
			files = append(files, r.File+trajectorySuffix, r.File+indexSuffix)
		}
		if r.Saved != "" {
			weights = append(weights, r.Saved)
		}
		if r.Search == nil {
			continue
		}
		for _, e := range r.Search.Evaluated {
			harnesses = append(harnesses, string(e.Harness.ID))
		}
		for _, e := range r.Search.Rejected {
			harnesses = append(harnesses, string(e.Harness.ID))
		}
		cycles[cycleDir(r.Cycle)] = append(cycles[cycleDir(r.Cycle)], iterationDir(r.Index))
	}
	var kept []string
	for cycle, iterations := range cycles {
		kept = append(kept, cycle)
		if err := a.disk.removeExcept(a.path("cycles", cycle), iterations); err != nil {
			return err
		}
	}
	err := errors.Join(a.disk.removeExcept(a.path("trajectories"), files), a.disk.removeExcept(a.path("weights"), weights),
		a.disk.removeExcept(a.path("harnesses"), harnesses), a.disk.removeExcept(a.path("cycles"), kept))
	if err != nil {
		return err
	}
	if err := a.putOverview(history(a.records)); err != nil {
		return err
	}
	return a.restoreScores(engine.Fold(a.records).Entries)
}

func (a *Archive) removeTemporary() error {
	return filepath.WalkDir(a.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(e.Name(), temporary) {
			return err
		}
		if err := a.disk.remove(path); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// restoreScores undoes scores of an iteration that was not committed.
func (a *Archive) restoreScores(entries []engine.Entry) error {
	scored := map[string]engine.Entry{}
	for _, e := range entries {
		scored[string(e.Harness.ID)] = e
	}
	there, err := os.ReadDir(a.path("harnesses"))
	if err != nil {
		return err
	}
	for _, h := range there {
		path := a.path("harnesses", h.Name(), "score.json")
		if e, ok := scored[h.Name()]; ok {
			err = a.putJSON(path, scoreFile{e.Weights, e.Accepted, e.Score})
		} else if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func cycleDir(cycle int) string { return fmt.Sprintf("%02d", cycle) }

func iterationDir(index int) string { return fmt.Sprintf("iteration-%02d", index) }
