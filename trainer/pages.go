package trainer

import "math/bits"

// pageTokens is P, the tokens of one cache page.
const pageTokens = 16

// page is one page of the key/value cache: the ids that its keys and values belong to. The
// chain of parents names everything before it, so a page's content is a function of its
// chain and the weights. Once full it never changes and may be shared; until then one
// sequence appends to it.
type page struct {
	index  int32 // in the device's cache
	serial uint64
	parent *page // nil at the beginning of a sequence
	ids    [pageTokens]int32
	n      int // tokens placed, those of the step being prepared included
	stored int // tokens whose keys and values are in the cache
	refs   int // live sequences that use it

	prev, next *page // list of unreferenced pages, oldest first
	listed     bool
}

// prefix names the first n ids of a page behind a parent. It is a hash: a hit is compared
// with the ids before it is believed.
type prefix struct {
	parent uint64
	hash   uint64
	n      int
}

// pages is the book of the cache: which page holds what, what is free, and what may be
// evicted. A page without references stays findable until its place is needed. Children
// lose their last reference no later than their parent and are listed before it, so the
// oldest page of the list never has a findable child.
type pages struct {
	free     []int32
	index    map[prefix]*page
	oldest   page // ring of unreferenced pages; the sentinel
	idle     int  // pages in the ring
	reserved int  // pages promised to live sequences and not yet taken
	serial   uint64
	off      bool // no sharing: for tests that compare with and without
}

func newPages(n int) *pages {
	p := &pages{}
	p.reset(n)
	return p
}

// reset forgets everything; no sequence may hold a page.
func (p *pages) reset(n int) {
	p.free = p.free[:0]
	for i := n - 1; i >= 0; i-- {
		p.free = append(p.free, int32(i))
	}
	p.index = map[prefix]*page{}
	p.oldest.prev, p.oldest.next = &p.oldest, &p.oldest
	p.idle, p.reserved = 0, 0
}

// available is the number of pages that can still be promised.
func (p *pages) available() int { return len(p.free) + p.idle - p.reserved }

// take turns one promised page into an empty page behind parent, evicting the oldest
// unreferenced one if none is free.
func (p *pages) take(parent *page) *page {
	if len(p.free) == 0 {
		p.evict(p.oldest.next)
	}
	last := len(p.free) - 1
	at := p.free[last]
	p.free = p.free[:last]
	p.reserved--
	p.serial++
	return &page{index: at, serial: p.serial, parent: parent, refs: 1}
}

func (p *pages) evict(g *page) {
	if g == &p.oldest {
		panic("BUG: trainer: cache promised more pages than it has")
	}
	p.unlist(g)
	p.forget(g)
	p.free = append(p.free, g.index)
}

// forget removes a page from the index.
func (p *pages) forget(g *page) {
	key := prefix{parent: g.parent.id()}
	for _, id := range g.ids[:g.n] {
		key = key.with(id)
		if p.index[key] == g {
			delete(p.index, key)
		}
	}
}

func (g *page) id() uint64 {
	if g == nil {
		return 0
	}
	return g.serial
}

// with extends a prefix by one id.
func (k prefix) with(id int32) prefix {
	hi, lo := bits.Mul64(k.hash^uint64(uint32(id))^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return prefix{k.parent, hi ^ lo, k.n + 1}
}

// hold adds a reference.
func (p *pages) hold(g *page) {
	if g.listed {
		p.unlist(g)
	}
	g.refs++
}

// release drops a reference; the last one makes the page evictable.
func (p *pages) release(g *page) {
	g.refs--
	if g.refs > 0 {
		return
	}
	last := p.oldest.prev
	g.prev, g.next = last, &p.oldest
	last.next, p.oldest.prev = g, g
	g.listed = true
	p.idle++
}

func (p *pages) unlist(g *page) {
	g.prev.next, g.next.prev = g.next, g.prev
	g.prev, g.next, g.listed = nil, nil, false
	p.idle--
}

// place appends one id to a page that is not full and makes the longer prefix findable.
// The first page with some full content stays the one that is found.
func (p *pages) place(g *page, key prefix, id int32) prefix {
	g.ids[g.n] = id
	g.n++
	key = key.with(id)
	if _, taken := p.index[key]; !p.off && (g.n < pageTokens || !taken) {
		p.index[key] = g
	}
	return key
}

// find returns the page that starts with ids behind parent, or nil.
func (p *pages) find(parent *page, ids []int32) *page {
	key := prefix{parent: parent.id()}
	for _, id := range ids {
		key = key.with(id)
	}
	g := p.index[key]
	if g == nil || g.n < len(ids) || g.parent != parent {
		return nil
	}
	for i, id := range ids {
		if g.ids[i] != id {
			return nil
		}
	}
	return g
}

// canonical returns the page to use in place of the full page g: the one that was full
// with the same content first, itself if none.
func (p *pages) canonical(g *page) *page {
	if p.off {
		return g
	}
	if first := p.find(g.parent, g.ids[:]); first != nil {
		return first
	}
	return g
}

// drop frees a page that nothing refers to any more and nothing can find.
func (p *pages) drop(g *page) {
	p.forget(g)
	p.free = append(p.free, g.index)
}
