package trainer

// plan is one step of generation: the rows to run and which of them sample. Its slices are
// reused from step to step.
type plan struct {
	ids, pos, seq []int32 // [T]
	table         []int32 // [B, maxPages]
	maxPages      int
	live          []*sequence // with rows in this step, B of them
	pick          []int32     // [S] rows whose logits are needed: the last ids of complete sequences
	picked        []*sequence // [S]
	prompts       int         // rows that are prompt
	pairs         int
}

func (p *plan) reset() {
	p.ids, p.pos, p.seq = p.ids[:0], p.pos[:0], p.seq[:0]
	p.table, p.live, p.pick, p.picked = p.table[:0], p.live[:0], p.pick[:0], p.picked[:0]
	p.maxPages, p.prompts, p.pairs = 0, 0, 0
}

// add takes up to budget rows of a sequence and returns how many it took.
func (p *plan) add(k *cache, s *sequence, budget int) int {
	n := min(len(s.ids)-s.done, budget)
	s.rows = n
	if n == 0 {
		return 0
	}
	at := int32(len(p.live))
	p.live = append(p.live, s)
	for range n {
		pos := s.done
		p.ids = append(p.ids, s.ids[pos])
		p.pos = append(p.pos, int32(pos))
		p.seq = append(p.seq, at)
		p.pairs += pos + 1
		if pos < len(s.request.Prompt) {
			p.prompts++
		}
		k.extend(s, s.ids[pos])
	}
	if s.done == len(s.ids) {
		p.pick = append(p.pick, int32(len(p.ids)-1))
		p.picked = append(p.picked, s)
	}
	p.maxPages = max(p.maxPages, len(s.pages))
	return n
}

// fillTable writes the page table once all rows are in.
func (p *plan) fillTable() {
	p.maxPages = (p.maxPages + pageStep - 1) / pageStep * pageStep
	for _, s := range p.live {
		for i := range p.maxPages {
			index := int32(0) // never read: positions stop before
			if i < len(s.pages) {
				index = s.pages[i].index
			}
			p.table = append(p.table, index)
		}
	}
}
