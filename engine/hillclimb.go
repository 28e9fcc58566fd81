package engine

import (
	"context"
	"os"
	"path/filepath"
)

// climbFolder is where the programs of a search without archive work.
const climbFolder = "climb"

// HillClimber is a harness phase without an archive, to measure what the archive is
// worth: its proposer sees the incumbent and how it fares, nothing that was tried before
// and nothing that was refused in earlier iterations. A proposer that is a program works
// in a folder of its own inside the run's, which has nothing but its own proposals.
// Evaluation and acceptance are those of MetaHarness.
type HillClimber struct{ Site *Site }

// Iterate makes one iteration.
func (h HillClimber) Iterate(ctx context.Context, u Unit, s State) (SearchResult, error) {
	return h.Site.iterate(ctx, u, s, func(incumbent []*Trajectory) (Brief, error) {
		b := h.Site.brief(u, s, incumbent)
		b.Folder = filepath.Join(h.Site.Parts.Store.Folder(), climbFolder)
		if err := os.MkdirAll(b.Folder, 0o755); err != nil {
			return Brief{}, Fail(AtArchive, b.Folder, err)
		}
		for _, e := range s.Entries {
			if e.Harness.ID != s.Harness {
				continue
			}
			source, err := h.Site.Parts.Store.Harness(s.Harness)
			if err != nil {
				return Brief{}, AtArchive.wrap(string(s.Harness), err)
			}
			e.Harness.Source = source.Source
			b.Entries = append(b.Entries, e)
		}
		return b, nil
	})
}
