// Package demos mixes the demonstrations that the embedded models are pretrained on: one
// generator for the lookup and sums model, one for the chess model (spec/nano.md sections
// 4 and 8).
//
// It does not know tokens, batches or losses; the trainer decides how much a message
// weighs.
package demos

import (
	"math/rand/v2"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/bench/lookup"
	"github.com/seed-7c27e6b8/whale/bench/sums"
)

// Options of the lookup and sums mixture. Clean, Drilled and Sloppy return the usual ones.
type Options struct {
	LookupShare float64 // of the episodes that are no drills; the others are sums
	Drills      int     // among the first so many episodes there are copy drills
	DrillShare  float64 // of these
	LateShare   float64 // the share of drills among all later episodes
	Lookup      lookup.Faults
	Sums        sums.Faults
}

// Clean is the long stage: it teaches both domains from nothing.
func Clean() Options { return Options{LookupShare: 0.6, Drills: 7000, DrillShare: 0.7} }

// Drilled is the stage after it: less new, more of what is slow to learn.
func Drilled() Options { return Options{LookupShare: 0.7, LateShare: 0.25} }

// Sloppy is the short last stage: it buries the skill under habits that rejection
// sampling can undo.
func Sloppy() Options {
	return Options{LookupShare: 0.6, Lookup: lookup.SloppyFaults, Sums: sums.SloppyFaults}
}

// Mix draws episodes of the three kinds. The same seed and options give the same
// sequence.
type Mix struct {
	rng     *rand.Rand
	options Options
	made    int
	lookup  *lookup.Demos
	drills  *lookup.Drills
	sums    *sums.Demos
}

var _ bench.Generator = (*Mix)(nil)

// New makes the mixture.
func New(seed uint64, o Options) *Mix {
	return &Mix{
		rng:     bench.Rand(seed, "mixture"),
		options: o,
		lookup:  lookup.NewDemos(seed, o.Lookup),
		drills:  lookup.NewDrills(seed),
		sums:    sums.NewDemos(seed, o.Sums),
	}
}

// Next returns the next episode; the mixture follows its own count, not progress.
func (m *Mix) Next(progress float64) bench.Episode {
	m.made++
	share := m.options.LateShare
	if m.made <= m.options.Drills {
		share = m.options.DrillShare
	}
	if share > 0 && m.rng.Float64() < share {
		return m.drills.Next(progress)
	}
	if m.rng.Float64() < m.options.LookupShare {
		return m.lookup.Next(progress)
	}
	return m.sums.Next(progress)
}
