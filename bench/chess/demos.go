package chess

import (
	"math/rand/v2"

	"github.com/seed-7c27e6b8/whale/bench"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

// Task is the first line of the prompt; the seed harness writes the same.
const Task = "Find the mate."

// Positions is how many generated positions the demonstrations use before they repeat
// them with other rows (spec/nano.md section 8).
const Positions = 3000

// curriculum is how many rows besides the mating one a listing has, by the share of
// training already done; from the last stage on it is the full list.
var curriculum = []struct {
	until       float64
	least, most int
}{{0.25, 2, 5}, {0.50, 3, 12}, {0.70, 5, 30}}

// Demos makes mate-in-one demonstrations from random games. It is not safe for use from
// several goroutines.
type Demos struct {
	rng   *rand.Rand
	games *rand.Rand // apart, so that the positions do not depend on progress
	pool  [][]row    // legal moves of the positions so far
	next  int
}

var _ bench.Generator = (*Demos)(nil)

// NewDemos makes a generator.
func NewDemos(seed uint64) *Demos {
	return &Demos{rng: bench.Rand(seed, "chess demonstrations"), games: bench.Rand(seed, "chess games")}
}

// Next makes one demonstration; progress in [0,1] drives the curriculum.
func (d *Demos) Next(progress float64) bench.Episode {
	rows := d.position()
	list := rows
	for _, stage := range curriculum {
		if progress < stage.until {
			list = d.some(rows, stage.least+d.rng.IntN(stage.most-stage.least+1))
			break
		}
	}
	return bench.Episode{Kind: Name, Messages: []bench.Message{
		{Role: kit.User, Content: Task + "\n" + listing(list)},
		{Role: kit.Assistant, Content: "<move>" + mating(list) + "</move>", Trained: true},
	}}
}

// position returns the moves of the next position: new ones first, then over again.
func (d *Demos) position() []row {
	if len(d.pool) < Positions {
		d.pool = append(d.pool, legalRows(randomMate(d.games)))
		return d.pool[len(d.pool)-1]
	}
	d.next = (d.next + 1) % Positions
	return d.pool[d.next]
}

// some shuffles one mating row among at most n others that do not mate.
func (d *Demos) some(rows []row, n int) []row {
	var mate, others []row
	for _, i := range d.rng.Perm(len(rows)) {
		switch {
		case !rows[i].mate:
			others = append(others, rows[i])
		case mate == nil:
			mate = append(mate, rows[i])
		}
	}
	list := append(mate, others[:min(n, len(others))]...)
	d.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// mating is the first mating move of a listing.
func mating(list []row) string {
	for _, r := range list {
		if r.mate {
			return r.uci
		}
	}
	panic("BUG: a demonstration without a mate")
}
