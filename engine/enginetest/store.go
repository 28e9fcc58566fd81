package enginetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Store is an engine.Store in memory; only weights are in a folder.
type Store struct {
	Dir      string
	Manifest *engine.Manifest
	Summary  *engine.Summary
	Notes    []engine.IterationNote

	records   []engine.Record
	harnesses map[engine.HarnessID]engine.Harness
	files     map[string][]*engine.Trajectory
}

var _ engine.Store = (*Store)(nil)

// NewStore keeps weights under dir.
func NewStore(dir string) *Store {
	return &Store{Dir: dir, harnesses: map[engine.HarnessID]engine.Harness{}, files: map[string][]*engine.Trajectory{}}
}

// Begin keeps the manifest or compares the settings.
func (s *Store) Begin(m engine.Manifest) error {
	if s.Manifest != nil {
		return s.Manifest.Config.Same(m.Config)
	}
	s.Manifest = &m
	return nil
}

// PutSummary keeps the summary.
func (s *Store) PutSummary(sum *engine.Summary) error { s.Summary = sum; return nil }

// Records returns the journal.
func (s *Store) Records() []engine.Record { return s.records }

// Commit appends to the journal.
func (s *Store) Commit(r engine.Record) error {
	if r.Seq != len(s.records) {
		return fmt.Errorf("record %d after %d", r.Seq, len(s.records))
	}
	s.records = append(s.records, r)
	return nil
}

// Rewind cuts the journal.
func (s *Store) Rewind(n int) error { s.records = s.records[:n]; return nil }

// PutHarness keeps a harness.
func (s *Store) PutHarness(h engine.Harness) error {
	if _, ok := s.harnesses[h.ID]; !ok {
		s.harnesses[h.ID] = h
	}
	return nil
}

// Harness finds a harness.
func (s *Store) Harness(id engine.HarnessID) (engine.Harness, error) {
	h, ok := s.harnesses[id]
	if !ok {
		return h, fs.ErrNotExist
	}
	return h, nil
}

// PutTrajectories keeps rollouts.
func (s *Store) PutTrajectories(file string, ts []*engine.Trajectory) error {
	s.files[file] = ts
	return nil
}

// Trajectories finds rollouts.
func (s *Store) Trajectories(file string) ([]*engine.Trajectory, error) {
	ts, ok := s.files[file]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return ts, nil
}

// SaveWeights writes into a folder and names it by the weights.
func (s *Store) SaveWeights(save func(dir string) (engine.WeightsID, error)) (string, engine.WeightsID, error) {
	temp, err := os.MkdirTemp(s.Dir, "saving")
	if err != nil {
		return "", "", err
	}
	id, err := save(temp)
	if err != nil {
		return "", "", err
	}
	return string(id), id, errors.Join(os.RemoveAll(s.WeightsDir(string(id))), os.Rename(temp, s.WeightsDir(string(id))))
}

// WeightsDir is a folder of weights.
func (s *Store) WeightsDir(folder string) string { return filepath.Join(s.Dir, folder) }

// Prune removes all weights but these.
func (s *Store) Prune(keep []string) error {
	there, err := s.Weights()
	for _, name := range there {
		if !slices.Contains(keep, name) {
			err = errors.Join(err, os.RemoveAll(s.WeightsDir(name)))
		}
	}
	return err
}

// Weights lists the folders of weights.
func (s *Store) Weights() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Folder is the folder that a proposer would read.
func (s *Store) Folder() string { return s.Dir }

// PutIteration keeps the note.
func (s *Store) PutIteration(n engine.IterationNote) error {
	s.Notes = append(s.Notes, n)
	return nil
}
