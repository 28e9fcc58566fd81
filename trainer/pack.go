package trainer

import (
	"cmp"
	"errors"
	"slices"

	"github.com/seed-7c27e6b8/whale/cuda"
)

// Rows that begin alike are run through the model once as far as they are alike: the samples
// of one prompt share the prompt, the calls of one conversation all that was said before.
// A micro-batch holds trees of rows in pre-order, and a gradient is the sum over the paths,
// the same within rounding as over rows by themselves (README, "Why trees?").

// sample is a row on its way into micro-batches, without what no loss depends on.
type sample struct {
	ids     []int32 // inputs, and the last weighted id
	weights []float32
	first   int // place of its first weighted id among those of the batch
}

func (s sample) inputs() int { return len(s.ids) - 1 }

// samplesOf are the rows that have weights, and how many ids have.
func samplesOf(rows []Row) (list []sample, count int) {
	for _, r := range rows {
		if n := r.inputs(); n > 0 {
			list = append(list, sample{r.IDs[:n+1], r.Weights[:n+1], count})
			count += weighted(r.Weights)
		}
	}
	return list, count
}

// micro is one micro-batch: T input ids in B trees, and the picked rows, of which each
// predicts one weighted id; several samples with the same ids up to there have it in common.
type micro struct {
	ids, pos []int32  // [T]
	start    []int32  // [B+1]
	until    []int32  // [T] rows t..until[t]-1 are in the paths that t begins; nil: no tree has branches
	samples  []sample // what it is made of

	pick   []int32   // [P] rows
	target []int32   // [P] ids they predict
	weight []float32 // [P] sum over the weighted ids

	// For every weighted id: its pick, its weight, its place among those of the batch.
	of     []int32
	each   []float32
	number []int

	pairs int // query-key pairs a head scores, for counting FLOPs
}

// treeRows is the size from which on a tree takes only what it shares most of: trees are
// what the backward of attention has to divide among threads.
const treeRows = 512

// pack cuts samples into micro-batches of at most limit input ids; a longer sample is one of
// its own. Samples are sorted, so that the batch is the same in whatever order they came.
func pack(samples []sample, limit int) []*micro {
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(a, b sample) int {
		return cmp.Or(slices.Compare(a.ids, b.ids), slices.Compare(a.weights, b.weights))
	})
	var p packer
	for _, s := range samples {
		p.add(s, limit)
	}
	p.end()
	return p.list
}

// packer builds micro-batches; the last of the list is under way.
type packer struct {
	list []*micro
	m    *micro
	// The path to the last sample's end: its ids, the row of each position, and the pick that
	// predicts what follows the position, or none.
	ids, rows, picks []int32
	branches         bool
}

const none = -1

func (p *packer) add(s sample, limit int) {
	same := p.shared(s)
	n, shared := s.inputs(), min(same, s.inputs(), len(p.rows))
	if p.m == nil || max(len(p.m.ids)+n-shared, len(p.m.pick)+weighted(s.weights[same:])) > limit {
		p.end()
		p.m = &micro{}
		p.list = append(p.list, p.m)
		same, shared = 0, 0
	}
	m := p.m
	p.cut(shared)
	if shared == 0 {
		m.start = append(m.start, int32(len(m.ids)))
	}
	p.picks = p.picks[:max(0, min(same-1, shared))] // what predicts an id that differs is another pick
	for len(p.picks) < shared {
		p.picks = append(p.picks, none)
	}
	for t := shared; t < n; t++ {
		p.rows, p.picks = append(p.rows, int32(len(m.ids))), append(p.picks, none)
		m.ids, m.pos, m.until = append(m.ids, s.ids[t]), append(m.pos, int32(t)), append(m.until, 0)
	}
	p.ids = s.ids
	m.pairs += (n*(n+1) - shared*(shared+1)) / 2
	m.samples = append(m.samples, s)
	p.weigh(s)
}

// shared is how many ids of s are those of the path, 0 where s should begin a tree: it has
// little in common with this one, or this one is large.
func (p *packer) shared(s sample) int {
	if p.m == nil {
		return 0
	}
	same := 0
	for same < min(len(s.ids), len(p.ids)) && s.ids[same] == p.ids[same] {
		same++
	}
	size := len(p.m.ids) - int(p.m.start[len(p.m.start)-1])
	if 4*same < len(s.ids) || size >= treeRows && 4*same < 3*len(s.ids) || size >= 4*treeRows {
		return 0
	}
	return same
}

// cut ends the path at position n: the paths that go through what follows are complete.
func (p *packer) cut(n int) {
	p.branches = p.branches || n > 0 && n < len(p.rows)
	for _, row := range p.rows[n:] {
		p.m.until[row] = int32(len(p.m.ids))
	}
	p.rows = p.rows[:n]
}

// end completes the micro-batch under way.
func (p *packer) end() {
	if p.m == nil {
		return
	}
	p.cut(0)
	p.m.start = append(p.m.start, int32(len(p.m.ids)))
	if !p.branches {
		p.m.until = nil
	}
	p.picks, p.branches = p.picks[:0], false
}

// weigh adds the weighted ids of s, whose path is there.
func (p *packer) weigh(s sample) {
	m, number := p.m, s.first
	for t, row := range p.rows {
		w := s.weights[t+1]
		if w == 0 {
			continue
		}
		if p.picks[t] == none {
			p.picks[t] = int32(len(m.pick))
			m.pick, m.target, m.weight = append(m.pick, row), append(m.target, s.ids[t+1]), append(m.weight, 0)
		}
		m.weight[p.picks[t]] += w
		m.of, m.each, m.number = append(m.of, p.picks[t]), append(m.each, w), append(m.number, number)
		number++
	}
}

// smaller answers the micro-batches from which a pass goes on after err, the failure of the
// one at `at`, when a device has no room for it: it and all that follow are packed anew, at
// half its size, and the trainer keeps to that. Nothing if that can't be helped. It gives back what
// the pass held.
func (t *Trainer) smaller(batches []*micro, at int, err error) []*micro {
	if !errors.Is(err, cuda.NoMemory) || len(batches[at].samples) < 2 {
		return nil
	}
	if t.tape != nil {
		t.tape.free()
		t.tape = nil
	}
	t.microTokens = len(batches[at].ids) / 2
	t.memory.MicroTokens = t.microTokens
	var rest []sample
	for _, b := range batches[at:] {
		rest = append(rest, b.samples...)
	}
	return append(slices.Clone(batches[:at]), pack(rest, t.microTokens)...)
}
