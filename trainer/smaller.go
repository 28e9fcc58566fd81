package trainer

import (
	"errors"
	"slices"
	"sort"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// When a device has no room for a micro-batch, it and all that follow are cut at the borders of
// their sequences into pieces of at most half its size, and the trainer keeps to that size. The
// gradient is a sum over sequences, so it is the same within rounding.

// smaller answers the micro-batches from which a pass goes on after err, the failure of the one
// at `at`; nothing if that can't be helped. It gives back what the pass held.
func (t *Trainer) smaller(batches []*micro, at int, err error) []*micro {
	if !errors.Is(err, cuda.NoMemory) || batches[at].sequences() < 2 {
		return nil
	}
	if t.tape != nil {
		t.tape.free()
		t.tape = nil
	}
	t.microTokens = len(batches[at].ids) / 2
	t.memory.MicroTokens = t.microTokens
	list := slices.Clone(batches[:at])
	for _, b := range batches[at:] {
		list = b.cut(list, t.microTokens)
	}
	return list
}

func (b *micro) sequences() int { return len(b.start) - 1 }

// cut adds b to a list in pieces of at most limit ids, or of one sequence.
func (b *micro) cut(list []*micro, limit int) []*micro {
	if len(b.ids) <= limit || b.sequences() < 2 {
		return append(list, b)
	}
	middle := 1 // the border nearest to the middle
	for i := range b.sequences() {
		if i > 0 && abs(2*int(b.start[i])-len(b.ids)) < abs(2*int(b.start[middle])-len(b.ids)) {
			middle = i
		}
	}
	return b.part(middle, b.sequences()).cut(b.part(0, middle).cut(list, limit), limit)
}

func abs(x int) int { return max(x, -x) }

// part is sequences [from, to) of b.
func (b *micro) part(from, to int) *micro {
	low, high := b.start[from], b.start[to]
	row := func(at int32) int { return sort.Search(len(b.pick), func(i int) bool { return b.pick[i] >= at }) }
	first, last := row(low), row(high)
	m := &micro{ids: b.ids[low:high], pos: b.pos[low:high], target: b.target[first:last], weight: b.weight[first:last]}
	for _, at := range b.start[from : to+1] {
		m.start = append(m.start, at-low)
	}
	for i := from; i < to; i++ {
		n := int(b.start[i+1] - b.start[i])
		m.pairs += n * (n + 1) / 2
	}
	for _, at := range b.pick[first:last] {
		m.pick = append(m.pick, at-low)
	}
	return m
}
