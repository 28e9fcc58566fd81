package engine

import "context"

// HillClimber is a harness phase without an archive, to measure what the archive is
// worth: its proposer sees the incumbent and how it fares, nothing that was tried before
// and nothing that was refused. Evaluation and acceptance are those of MetaHarness.
type HillClimber struct{ Site *Site }

// Iterate makes one iteration.
func (h HillClimber) Iterate(ctx context.Context, u Unit, s State) (SearchResult, error) {
	return h.Site.iterate(ctx, u, s, func(incumbent []*Trajectory) (Brief, error) {
		b := h.Site.brief(u, s, incumbent)
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
